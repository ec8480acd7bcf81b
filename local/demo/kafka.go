package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark/tidemark/local/orders"
)

const (
	topic      = "orders"
	partitions = 6
	// poisonEvery is how often a producer writes something that is no document.
	poisonEvery = 25_000
)

// produced is what the proof knows: by partition and offset, what must have become of the record.
type produced [][]outcome

// outcome is the fingerprint of the document, or of the raw value in a dead letter.
type outcome struct {
	hash   uint64
	letter bool
}

func (p produced) records() int {
	n := 0
	for _, offsets := range p {
		n += len(offsets)
	}
	return n
}

// startKafka starts the embedded Kafka, in this process: the function that reads it is another one.
func startKafka() (*kfake.Cluster, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Kafka: %w", err)
	}
	return cluster, nil
}

// produce fills the topic with n orders, each in the partition of its customer.
func produce(ctx context.Context, brokers []string, n int) (produced, error) {
	made, i := make(produced, partitions), 0
	shop := orders.Topic{Name: topic, Partitions: partitions}
	err := shop.Produce(ctx, brokers, n, func(e *orders.Event) error {
		i++
		must, err := outcomeOf(shop, e, i%poisonEvery == 0)
		made[e.Partition] = append(made[e.Partition], must)
		return err
	})
	return made, err
}

// outcomeOf says what must become of an order. A poisoned one is cut off in the middle, as a broken producer does.
func outcomeOf(shop orders.Topic, e *orders.Event, poison bool) (outcome, error) {
	if poison {
		e.Value = e.Value[:len(e.Value)/2]
		return outcome{fingerprint(e.Offset, e.Value), true}, nil
	}
	document, err := e.Order.Document(shop.ID(e))
	return outcome{fingerprint(e.Offset, document), false}, err
}

// fingerprint is a hash of an offset and the document that it must have become.
func fingerprint(offset int64, document []byte) uint64 {
	hash := sha256.New()
	_ = binary.Write(hash, binary.LittleEndian, offset) // a hash never fails to write
	hash.Write(document)
	return binary.LittleEndian.Uint64(hash.Sum(nil))
}
