package orders

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Topic is where orders go. It must be empty, and nobody else may produce into it: offsets are known beforehand.
type Topic struct {
	Name       string
	Partitions int32
}

// Event is one order as a record.
type Event struct {
	Key, Value []byte
	Partition  int32
	Offset     int64
	Order      Order
}

// ID is the _id of the document that a record becomes.
func (t Topic) ID(e *Event) string { return fmt.Sprintf("%s/%d/%d", t.Name, e.Partition, e.Offset) }

// PartitionOf is the partition of a customer: all orders of one are in one partition.
func (t Topic) PartitionOf(key []byte) int32 {
	h := fnv.New32a()
	_, _ = h.Write(key) // a hash never fails to write
	return int32(h.Sum32() % uint32(t.Partitions))
}

// Each shows the first n orders of the topic, the same in every run, until see returns an error.
func (t Topic) Each(n int, see func(*Event) error) error {
	random := rand.New(rand.NewPCG(1, 2))
	next := make([]int64, t.Partitions)
	for i := range n {
		order := newOrder(random, i)
		value, err := order.value()
		if err != nil {
			return err
		}
		e := &Event{Key: fmt.Appendf(nil, "customer-%d", order.Customer), Value: value, Order: order}
		e.Partition = t.PartitionOf(e.Key)
		e.Offset = next[e.Partition]
		next[e.Partition]++
		if err := see(e); err != nil {
			return err
		}
	}
	return nil
}

// Produce fills the topic with n orders. Each is shown before it is sent, and its value may be changed then.
func (t Topic) Produce(ctx context.Context, brokers []string, n int, see func(*Event) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return fmt.Errorf("connecting a producer: %w", err)
	}
	defer client.Close()

	failed := &firstError{}
	err = t.Each(n, func(e *Event) error {
		if err := see(e); err != nil {
			return err
		}
		record := &kgo.Record{Topic: t.Name, Partition: e.Partition, Key: e.Key, Value: e.Value}
		offset := e.Offset
		client.Produce(ctx, record, func(r *kgo.Record, err error) {
			if err == nil && r.Offset != offset {
				err = fmt.Errorf("a record got offset %d instead of %d", r.Offset, offset)
			}
			failed.note(err)
		})
		return failed.get()
	})
	if err != nil {
		return err
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("producing: %w", err)
	}
	return failed.get()
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
