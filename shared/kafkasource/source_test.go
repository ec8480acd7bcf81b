package kafkasource_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

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
	pulltest.TestSource(t, sourceHarness(cluster.ListenAddrs(), kafkaTraits{
		internal: map[string]string{"kfake.is_internal": "true"}, compact: cluster.Compact,
	}))
}

// Kafka before 2.8: metadata without topic ids, and fetches by name.
func TestConformance_SourceOnKfakeWithoutTopicIDs(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(2), kfake.MaxVersions(kversion.V2_7_0()))
	pulltest.TestSource(t, sourceHarness(cluster.ListenAddrs(), kafkaTraits{
		internal: map[string]string{"kfake.is_internal": "true"}, compact: cluster.Compact, withoutTopicIDs: true,
	}))
}

// kafkaTraits is in what brokers differ.
type kafkaTraits struct {
	// client is how the harness itself signs in, source how the source that is tested does.
	client []kgo.Opt
	source kafkasource.Options
	// internal configures a topic that metadata calls internal, nil where only the brokers can make one.
	internal map[string]string
	// compacted configures, beside cleanup.policy, a topic that is compacted soon; compact does it at once, nil where the
	// brokers do it by themselves.
	compacted       map[string]string
	compact         func()
	withoutTopicIDs bool
}

// sourceHarness acts on brokers, real or not, through the protocol.
func sourceHarness(brokers []string, traits kafkaTraits) func(t *testing.T) pulltest.SourceHarness {
	return func(t *testing.T) pulltest.SourceHarness {
		t.Helper()
		k := actor{brokers, traits}
		h := pulltest.SourceHarness{
			Open:            k.open,
			CreateTopic:     func(t *testing.T, topic string, partitions int32) { t.Helper(); k.create(t, topic, partitions, nil) },
			Produce:         k.produce,
			Transact:        k.transact,
			DeleteRecords:   k.deleteRecords,
			Recreate:        k.recreate,
			CreateCompacted: k.createCompacted,
			Compact: func(*testing.T, string) {
				if traits.compact != nil {
					traits.compact()
				}
			},
			WithoutTopicIDs: traits.withoutTopicIDs,
		}
		if traits.internal != nil {
			h.CreateInternal = func(t *testing.T, topic string) { t.Helper(); k.create(t, topic, 1, traits.internal) }
		}
		return h
	}
}

// actor acts on brokers.
type actor struct {
	brokers []string
	traits  kafkaTraits
}

func (k actor) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(k.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5 * time.Millisecond),
	}, k.traits.client, opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (k actor) open(t *testing.T, c pulltest.SourceConfig) pull.Source {
	t.Helper()
	o := k.traits.source
	o.Brokers, o.FetchWait = k.brokers, 20*time.Millisecond
	o.Topics, o.Assign, o.Pattern, o.ReadUncommitted = c.Topics, c.Assign, c.Pattern, c.ReadUncommitted
	return kafka{open(t, o)}
}

// create returns once the topic has leaders: a real broker answers before that.
func (k actor) create(t *testing.T, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	admin := kadm.NewClient(k.client(t))
	values := map[string]*string{"retention.ms": kadm.StringPtr("-1")} // the records of the suite are old
	for name, value := range configs {
		values[name] = kadm.StringPtr(value)
	}
	await(t, "creating "+topic, func() error {
		_, err := admin.CreateTopic(t.Context(), partitions, 1, values, topic)
		return err // while a topic of this name is being deleted, it exists
	})
	await(t, "the leaders of "+topic, func() error {
		topics, err := admin.ListTopicsWithInternal(t.Context(), topic)
		if err != nil {
			return err
		}
		detail := topics[topic]
		for _, p := range detail.Partitions {
			if p.Leader < 0 {
				return fmt.Errorf("partition %d has none", p.Partition)
			}
		}
		if len(detail.Partitions) != int(partitions) {
			return fmt.Errorf("%d of %d partitions: %w", len(detail.Partitions), partitions, detail.Err)
		}
		return nil
	})
}

func (k actor) createCompacted(t *testing.T, topic string) {
	t.Helper()
	configs := map[string]string{"cleanup.policy": "compact"}
	maps.Copy(configs, k.traits.compacted)
	k.create(t, topic, 1, configs)
}

func (k actor) produce(t *testing.T, topic string, partition int32, recs ...record.Record) {
	t.Helper()
	if err := k.client(t).ProduceSync(t.Context(), clientRecords(topic, partition, recs)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (k actor) transact(t *testing.T, topic string, partition int32, recs ...record.Record) func(bool) {
	t.Helper()
	client := k.client(t, kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, time.Now().UnixNano())))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), clientRecords(topic, partition, recs)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return func(commit bool) {
		t.Helper()
		if err := client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Error(err)
		}
	}
}

func (k actor) deleteRecords(t *testing.T, topic string, partition int32, before int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: before})
	deleted, err := kadm.NewClient(k.client(t)).DeleteRecords(t.Context(), offsets)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (k actor) recreate(t *testing.T, topic string, partitions int32) {
	t.Helper()
	deleted, err := kadm.NewClient(k.client(t)).DeleteTopic(t.Context(), topic)
	if err == nil {
		err = deleted.Err
	}
	if err != nil {
		t.Fatal(err)
	}
	k.create(t, topic, partitions, nil)
}

// await tries until there is no error.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
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
