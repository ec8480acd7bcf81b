package kafkasource_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// kafka is the wiring that doc.go shows.
type kafka struct{ *kafkasource.Source }

func (k kafka) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) pull.Reader {
	return k.Source.Open(ctx, ranges, topicIDs)
}

func TestConformance_SourceOnKfake(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(3))
	pulltest.TestSource(t, func(t *testing.T) pulltest.SourceHarness {
		t.Helper()
		return harness(cluster)
	})
}

func harness(cluster *kfake.Cluster) pulltest.SourceHarness {
	return pulltest.SourceHarness{
		Open: func(t *testing.T, c pulltest.SourceConfig) pull.Source {
			t.Helper()
			return kafka{open(t, kafkasource.Options{
				Brokers: cluster.ListenAddrs(), Topics: c.Topics, Assign: c.Assign, ReadUncommitted: c.ReadUncommitted,
				FetchWait: 20 * time.Millisecond,
			})}
		},
		CreateTopic: func(t *testing.T, topic string, partitions int32) {
			t.Helper()
			if err := cluster.CreateTopic(topic, partitions, nil); err != nil {
				t.Fatal(err)
			}
		},
		Produce: func(t *testing.T, topic string, partition int32, recs ...record.Record) {
			t.Helper()
			produce(t, cluster, topic, partition, recs)
		},
		Transact: func(t *testing.T, topic string, partition int32, recs ...record.Record) func(bool) {
			t.Helper()
			return transact(t, cluster, topic, partition, recs)
		},
		DeleteRecords: func(t *testing.T, topic string, partition int32, before int64) {
			t.Helper()
			if err := cluster.DeleteRecords(topic, partition, before); err != nil {
				t.Fatal(err)
			}
		},
		Recreate: func(t *testing.T, topic string, partitions int32) {
			t.Helper()
			if err := cluster.DeleteTopic(topic); err != nil {
				t.Fatal(err)
			}
			if err := cluster.CreateTopic(topic, partitions, nil); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func startCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func open(t *testing.T, o kafkasource.Options) *kafkasource.Source {
	t.Helper()
	src, err := kafkasource.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return src
}

func newClient(t *testing.T, cluster *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produce(t *testing.T, cluster *kfake.Cluster, topic string, partition int32, recs []record.Record, opts ...kgo.Opt) {
	t.Helper()
	client := newClient(t, cluster, opts...)
	if err := client.ProduceSync(t.Context(), clientRecords(topic, partition, recs)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func transact(t *testing.T, cluster *kfake.Cluster, topic string, partition int32, recs []record.Record) func(bool) {
	t.Helper()
	client := newClient(t, cluster, kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, time.Now().UnixNano())))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), clientRecords(topic, partition, recs)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return func(commit bool) {
		if err := client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Error(err)
		}
	}
}

func clientRecords(topic string, partition int32, recs []record.Record) []*kgo.Record {
	out := make([]*kgo.Record, len(recs))
	for i, r := range recs {
		out[i] = &kgo.Record{Topic: topic, Partition: partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return out
}
