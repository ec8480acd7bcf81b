package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "orders"
	partitions = 6
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
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return nil, fmt.Errorf("connecting a producer: %w", err)
	}
	defer client.Close()

	made := make(produced, partitions)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same orders in every run
	failed := &firstError{}
	for i := range n {
		e, err := newEvent(random, i)
		if err != nil {
			return nil, err
		}
		partition := partitionOf(e.key)
		offset := int64(len(made[partition])) // the only producer, in order
		must, err := e.outcome(partition, offset)
		if err != nil {
			return nil, err
		}
		made[partition] = append(made[partition], must)
		client.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Key: e.key, Value: e.value}, func(r *kgo.Record, err error) {
			if err == nil && r.Offset != offset {
				err = fmt.Errorf("a record got offset %d instead of %d", r.Offset, offset)
			}
			failed.note(err)
		})
	}
	if err := client.Flush(ctx); err != nil {
		return nil, fmt.Errorf("producing: %w", err)
	}
	return made, failed.get()
}

func (e event) outcome(partition int32, offset int64) (outcome, error) {
	if e.poison {
		return outcome{fingerprint(offset, e.value), true}, nil
	}
	document, err := e.order.expected(fmt.Sprintf("%s/%d/%d", topic, partition, offset))
	if err != nil {
		return outcome{}, err
	}
	return outcome{fingerprint(offset, document), false}, nil
}

func partitionOf(key []byte) int32 {
	h := fnv.New32a()
	_, _ = h.Write(key) // a hash never fails to write
	return int32(h.Sum32() % partitions)
}

// firstError keeps the first error that several goroutines come upon.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("producing: %w", err)
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
