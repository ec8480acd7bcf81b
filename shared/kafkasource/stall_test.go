package kafkasource_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/record"
)

// What a broker does not give, although it says that it is there, must be no end, must not keep the others from being
// read, and must not make a storm of requests.
func TestReader_StalledPartitionIsToldAfterTheOthersAreRead(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "a"))
	for id := range int32(2) {
		if err := cluster.MoveTopicPartition("a", id, id); err != nil {
			t.Fatal(err)
		}
		produce(t, cluster, "a", id, make([]record.Record, 10))
	}
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if cluster.CurrentNode() == 0 {
			return emptyFetch(kreq, 10), nil, true
		}
		return nil, nil, false
	})
	counter := &requests{}
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, FetchWait: time.Millisecond, Hooks: []kgo.Hook{counter}})
	// The other partition lasts longer than the patience with the first: its records are handed out one batch a second.
	r := src.Open(t.Context(), []record.Range{rangeOf("a", 0, 0, 10), rangeOf("a", 1, 0, 12)}, nil)
	defer r.Close()
	batch, err := r.Next(t.Context())
	if err != nil || batch.Partition.ID != 1 || batch.Next != 10 {
		t.Fatalf("%+v, %v", batch, err)
	}
	patient, cancel := context.WithTimeout(t.Context(), 11*time.Second)
	defer cancel()
	if batch, err := r.Next(patient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while partition 1 can still be read: %+v, %v", batch, err)
	}
	produce(t, cluster, "a", 1, make([]record.Record, 2))
	if batch, err = r.Next(t.Context()); err != nil || batch.Next != 12 {
		t.Fatalf("%+v, %v", batch, err)
	}
	_, err = r.Next(t.Context())
	wantFault(t, "stalled", err, fault.Transient, "", "a/0 [0, 10)", "sends nothing at 0")
	if n := counter.take()["Fetch to 0"]; n > 250 {
		t.Errorf("%d requests went to the broker that has nothing", n)
	}
}

func TestReader_LaggingLeaderIsToldWhenTheRunEnds(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	produce(t, cluster, "a", 0, make([]record.Record, 10))
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, FetchWait: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	r := src.Open(ctx, []record.Range{rangeOf("a", 0, 0, 12)}, nil)
	defer r.Close()
	if batch, err := r.Next(t.Context()); err != nil || batch.Next != 10 {
		t.Fatalf("%+v, %v", batch, err)
	}
	_, err := r.Next(t.Context())
	wantFault(t, "lagging", err, fault.Transient, "", "a/0 [0, 12) stayed at 10", "broker 0 can be read up to 10 only")
}

// A broker that enforces a quota answers at once and without any partition, and says how long to wait.
func TestReader_ThrottledIsWaitedOutAndTold(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int{"a while": 3, "always": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			produce(t, cluster, "a", 0, make([]record.Record, 10))
			asked := 0
			cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				if asked++; asked > times {
					return nil, nil, false
				}
				resp, ok := emptyFetch(kreq, 10).(*kmsg.FetchResponse)
				if !ok {
					return nil, kerr.UnknownServerError, true
				}
				resp.Topics, resp.ThrottleMillis = nil, 100
				return resp, nil, true
			})
			src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, ClientID: "tidemark-orders", FetchWait: time.Millisecond})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			begun := time.Now()
			r := src.Open(ctx, []record.Range{rangeOf("a", 0, 0, 10)}, nil)
			defer r.Close()
			_, err := r.Next(t.Context())
			if times == 1000 {
				wantFault(t, name, err, fault.Transient, "", "a/0 [0, 10) stayed at 0", `throttles client "tidemark-orders" for 100 ms`, "consumer_byte_rate")
				return
			}
			if _, end := r.Next(t.Context()); err != nil || !errors.Is(end, io.EOF) || time.Since(begun) < 300*time.Millisecond {
				t.Errorf("after %s: %v, %v", time.Since(begun), err, end)
			}
		})
	}
}
