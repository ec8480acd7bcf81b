package kafkasource_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

func TestReader_EveryCompression(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1))
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			createTopic(t, cluster, name, nil)
			want := valued(500, func(i int) []byte { return fmt.Appendf(nil, `{"text":"again and again and again","n":%d}`, i) })
			produce(t, cluster, name, 0, want, kgo.ProducerBatchCompression(codec))
			src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{name}})
			got, err := readAll(t, src, rangeOf(name, 0, 3, 497))
			if err != nil || len(got) != 494 {
				t.Fatalf("read %d records, %v", len(got), err)
			}
			for i, r := range got {
				if r.Offset != int64(i+3) || !bytes.Equal(r.Value, want[i+3].Value) {
					t.Fatalf("record %d is %s at %d", i, r.Value, r.Offset)
				}
			}
		})
	}
}

// The aborted transactions of a response must be worked off over batches that are decoded one by one, and from scratch
// in each response.
func TestReader_RandomTransactionsInSmallFetches(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1))
	createTopic(t, cluster, "a", nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	var clients []*kgo.Client
	for i := range 3 {
		client := newClient(t, cluster, kgo.TransactionalID(fmt.Sprint("txn", i)), kgo.ProducerLinger(0))
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	pending := make([][]int64, 3)
	committed := map[int64]bool{}
	end := func(i int, commit bool) {
		if err := clients[i].EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
		for _, o := range pending[i] {
			committed[o] = commit
		}
		pending[i] = nil
	}
	for range 150 {
		i := rnd.IntN(3)
		rec := &kgo.Record{Topic: "a", Value: make([]byte, 100)}
		if err := clients[i].ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
		pending[i] = append(pending[i], rec.Offset)
		if rnd.IntN(3) == 0 {
			end(i, rnd.IntN(2) == 0)
			if err := clients[i].BeginTransaction(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range clients {
		end(i, i == 0)
	}
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, FetchBytes: 700})
	to := mustBounds(t, src, record.BoundsQuery{Lanes: 1}).Topics["a"].Partitions[0].End
	for from := int64(0); from < to; from += 17 {
		got, err := readAll(t, src, rangeOf("a", 0, from, to))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int64]bool{}
		for _, r := range got {
			seen[r.Offset] = true
		}
		for o := from; o < to; o++ {
			if seen[o] != committed[o] {
				t.Errorf("from %d: offset %d read %t, committed %t", from, o, seen[o], committed[o])
			}
		}
	}
}

func TestReader_CompactedTail(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1))
	createTopic(t, cluster, "a", map[string]string{"cleanup.policy": "compact"})
	for i := range 20 {
		recs := valued(10, func(int) []byte { return []byte("v") })
		for j := range recs {
			recs[j].Key, recs[j].Timestamp = fmt.Append(nil, "k", (i*10+j)%7), time.Now().UnixMilli()
		}
		if i == 0 {
			recs[0].Key = []byte("head") // keeps the log start where it is
		}
		produce(t, cluster, "a", 0, recs)
	}
	cluster.Compact()
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, FetchWait: 20 * time.Millisecond})
	for from := int64(0); from < 200; from += 13 {
		for to := from + 1; to <= 200; to += 31 {
			if _, err := readAll(t, src, rangeOf("a", 0, from, to)); err != nil {
				t.Fatalf("[%d, %d): %v", from, to, err)
			}
		}
	}
	got, err := readAll(t, src, rangeOf("a", 0, 0, 200))
	if err != nil || len(got) != 18 {
		t.Errorf("read %d records, %v: want the head, seven keys, and the batch that is never compacted", len(got), err)
	}
}

func TestReader_ExactTimestamps(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1))
	createTopic(t, cluster, "a", nil)
	// Milliseconds of today, microseconds given as milliseconds, and none at all.
	stamps := []int64{1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_123, 0, 9_223_372_036_854, 9_223_372_036_855}
	produceRaw(t, cluster, "a", stamps)
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
	got, err := readAll(t, src, rangeOf("a", 0, 0, int64(len(stamps))))
	if err != nil || len(got) != len(stamps) {
		t.Fatalf("read %d records, %v", len(got), err)
	}
	for i, r := range got {
		if r.Timestamp != stamps[i] {
			t.Errorf("record %d has timestamp %d, want %d", i, r.Timestamp, stamps[i])
		}
	}
}

func TestReader_LeaderMovesWhileReading(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(3, "a"))
	var ranges []record.Range
	for id := range int32(3) {
		for range 20 {
			produce(t, cluster, "a", id, make([]record.Record, 10))
		}
		ranges = append(ranges, rangeOf("a", id, 0, 200))
	}
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, FetchBytes: 1000})
	mustBounds(t, src, record.BoundsQuery{Lanes: 1})
	moves := 0
	got, err := readEach(t, src, ranges, func(record.Batch) {
		if moves++; moves%7 == 0 {
			if err := cluster.MoveTopicPartition("a", int32(moves%3), int32(moves/7%3)); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || len(got) != 600 {
		t.Errorf("read %d records, %v", len(got), err)
	}
}

func TestReader_WaitsOutWhatMayPass(t *testing.T) {
	t.Parallel()
	for _, e := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.InconsistentTopicID, kerr.KafkaStorageError, kerr.UnknownServerError, kerr.OffsetOutOfRange,
	} {
		t.Run(e.Message, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			produce(t, cluster, "a", 0, make([]record.Record, 10))
			src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Err: e, Count: 2})
			if got, err := readAll(t, src, rangeOf("a", 0, 0, 10)); err != nil || len(got) != 10 {
				t.Errorf("read %d records, %v", len(got), err)
			}
		})
	}
}

func TestReader_RefusedReadIsFatal(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	produce(t, cluster, "a", 0, make([]record.Record, 10))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Err: kerr.TopicAuthorizationFailed, Count: -1})
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
	_, err := readAll(t, src, rangeOf("a", 0, 0, 10))
	wantFault(t, "no Read ACL", err, fault.Fatal, "kafka-acl", "a/0", "Read")
}

func TestReader_OutOfRangeNamesBothNumbers(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	produce(t, cluster, "a", 0, make([]record.Record, 10))
	if err := cluster.DeleteRecords("a", 0, 6); err != nil {
		t.Fatal(err)
	}
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
	_, err := readAll(t, src, rangeOf("a", 0, 2, 10))
	wantFault(t, "below", err, fault.Fatal, "offset-before-log-start", "a/0", "2", "6", "4 records", "onDataLoss: resume")
	_, err = readAll(t, src, rangeOf("a", 0, 12, 14))
	wantFault(t, "beyond", err, fault.Fatal, "checkpoint-beyond-log-end", "a/0", "12", "10")
}

// What the source saw last may also be older than the plan: that of another call whose broker lagged.
func TestReader_OlderMetadataThanPlannedIsAskedForAnew(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	o := kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}}
	src := open(t, o)
	old := mustBounds(t, src, record.BoundsQuery{Lanes: 1}).Topics["a"].ID
	if err := cluster.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	createTopic(t, cluster, "a", nil)
	produce(t, cluster, "a", 0, make([]record.Record, 10))
	planned := mustBounds(t, open(t, o), record.BoundsQuery{Lanes: 1}).Topics["a"].ID
	if planned == old || planned == "" {
		t.Fatalf("the topic's id was %q and is %q", old, planned)
	}
	r := src.Open(t.Context(), []record.Range{rangeOf("a", 0, 0, 10)}, map[string]string{"a": planned})
	defer r.Close()
	if batch, err := r.Next(t.Context()); err != nil || batch.Next == 0 {
		t.Errorf("the first batch is %+v, %v", batch, err)
	}
}

func TestReader_ClusterThatIsGoneIsToldWhenTheRunEnds(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	produce(t, cluster, "a", 0, make([]record.Record, 10))
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
	mustBounds(t, src, record.BoundsQuery{Lanes: 1})
	cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	r := src.Open(ctx, []record.Range{rangeOf("a", 0, 0, 10)}, nil)
	defer r.Close()
	_, err := r.Next(t.Context())
	wantFault(t, "gone", err, fault.Transient, "", "a/0 [0, 10) stayed at 0", "connection refused")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not tell that the time was up", err)
	}
}

// Batches larger than a partition's share are fetched, larger than a fetch too, up to the limit.
func TestReader_BatchAboveTheFetchSize(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "a"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8388608"}))
	var ranges []record.Range
	for id := range int32(2) {
		for _, size := range []int{10, 3 << 20, 10, 2 << 20} {
			produce(t, cluster, "a", id, valued(1, func(int) []byte { return noise(size) }), kgo.ProducerBatchMaxBytes(8<<20))
		}
		ranges = append(ranges, rangeOf("a", id, 0, 4))
	}
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, FetchBytes: 1 << 16})
	if got, err := readAll(t, src, ranges...); err != nil || len(got) != 8 {
		t.Errorf("read %d records, %v", len(got), err)
	}
}

func TestReader_BatchAboveTheLimit(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "25165824"}))
	const limit = 2 << 20
	zeros := func(size int) func(int) []byte { return func(int) []byte { return make([]byte, size) } }
	for name, test := range map[string]struct {
		recs []record.Record
		opts []kgo.Opt
	}{
		"raw":        {valued(1, func(int) []byte { return noise(3 << 20) }), nil},
		"zstd bomb":  {valued(1, zeros(20<<20)), []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression())}},
		"gzip bomb":  {valued(1, zeros(20<<20)), []kgo.Opt{kgo.ProducerBatchCompression(kgo.GzipCompression())}},
		"lz4 bomb":   {valued(1, zeros(20<<20)), []kgo.Opt{kgo.ProducerBatchCompression(kgo.Lz4Compression())}},
		"snappy":     {valued(1, zeros(20<<20)), []kgo.Opt{kgo.ProducerBatchCompression(kgo.SnappyCompression())}},
		"many":       {valued(60_000, func(int) []byte { return nil }), nil},
		"above read": {valued(1, func(int) []byte { return noise(20 << 20) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := string(bytes.ReplaceAll([]byte(name), []byte(" "), []byte("-")))
			createTopic(t, cluster, topic, nil)
			createTopic(t, cluster, topic+"-fine", nil)
			produce(t, cluster, topic, 0, test.recs, append(test.opts, kgo.ProducerBatchMaxBytes(24<<20), kgo.MaxBufferedRecords(100_000), kgo.ProducerLinger(time.Second))...)
			src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{topic, topic + "-fine"}, MaxBatchBytes: limit})
			got, err := readAll(t, src, rangeOf(topic+"-fine", 0, 0, 1), rangeOf(topic, 0, 0, int64(len(test.recs))))
			wantFault(t, name, err, fault.Fatal, "batch-too-large", topic+"/0", fmt.Sprint(limit), "run.limits.memory")
			if len(got) > 0 {
				t.Errorf("read %d records", len(got))
			}
		})
	}
}

func TestReader_ManyRecords(t *testing.T) {
	t.Parallel()
	const n, parts = 200_000, 4
	cluster := startCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(parts, "a"))
	ranges := fill(t, cluster, "a", n, parts)
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
	begun := time.Now()
	read := 0
	if _, err := readEach(t, src, ranges, func(b record.Batch) { read += len(b.Records) }); err != nil || read != n {
		t.Errorf("read %d records, %v", read, err)
	}
	t.Logf("%.0f records/s", n/time.Since(begun).Seconds())
}

func BenchmarkReader(b *testing.B) {
	for _, codec := range []struct {
		name string
		kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"zstd", kgo.ZstdCompression()}} {
		b.Run(codec.name, func(b *testing.B) {
			const n, parts = 200_000, 4
			cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(parts, "a"))
			if err != nil {
				b.Fatal(err)
			}
			defer cluster.Close()
			ranges := fill(b, cluster, "a", n, parts, kgo.ProducerBatchCompression(codec.CompressionCodec))
			src, err := kafkasource.New(kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
			if err != nil {
				b.Fatal(err)
			}
			defer src.Close()
			mustBounds(b, src, record.BoundsQuery{Lanes: 1})
			b.ReportAllocs()
			for b.Loop() {
				read := 0
				if _, err := readEach(b, src, ranges, func(batch record.Batch) { read += len(batch.Records) }); err != nil || read != n {
					b.Fatal(read, err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// fill produces n records of 380 bytes over the partitions.
func fill(tb testing.TB, cluster *kfake.Cluster, topic string, n, parts int, opts ...kgo.Opt) []record.Range {
	tb.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(n), kgo.ProducerLinger(20 * time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	value := append(noise(190), make([]byte, 190)...)
	for i := range n {
		client.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: int32(i % parts), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				tb.Error(err)
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		tb.Fatal(err)
	}
	var ranges []record.Range
	for id := range int32(parts) {
		ranges = append(ranges, rangeOf(topic, id, 0, int64(n/parts)))
	}
	return ranges
}

func createTopic(t *testing.T, cluster *kfake.Cluster, topic string, configs map[string]string) {
	t.Helper()
	if err := cluster.CreateTopic(topic, 1, configs); err != nil {
		t.Fatal(err)
	}
}

func rangeOf(topic string, id int32, from, to int64) record.Range {
	return record.Range{Partition: record.Partition{Topic: topic, ID: id}, From: from, To: to}
}

func valued(n int, value func(i int) []byte) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Value: value(i), Timestamp: 1_700_000_000_000}
	}
	return recs
}

// noise does not compress.
func noise(size int) []byte {
	rnd := rand.NewChaCha8([32]byte{1})
	out := make([]byte, size)
	_, _ = rnd.Read(out)
	return out
}

func readAll(tb testing.TB, src *kafkasource.Source, ranges ...record.Range) ([]record.Record, error) {
	tb.Helper()
	return readEach(tb, src, ranges, func(record.Batch) {})
}

// readEach reads to the end, calls each for every batch, and checks that there is no hole.
func readEach(tb testing.TB, src *kafkasource.Source, ranges []record.Range, each func(record.Batch)) ([]record.Record, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r := src.Open(ctx, ranges, nil)
	defer r.Close()
	next := map[record.Partition]int64{}
	for _, rng := range ranges {
		next[rng.Partition] = rng.From
	}
	var got []record.Record
	for {
		batch, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			for _, rng := range ranges {
				if next[rng.Partition] != rng.To {
					tb.Errorf("EOF at %d of %s", next[rng.Partition], rng)
				}
			}
			return got, nil
		}
		if err != nil {
			return got, err
		}
		position := next[batch.Partition]
		for i := range batch.Records {
			if o := batch.Records[i].Offset; o < position || o >= batch.Next {
				tb.Fatalf("offset %d stands in a batch of %s between %d and %d", o, batch.Partition, position, batch.Next)
			}
			position = batch.Records[i].Offset + 1
		}
		if batch.Next <= next[batch.Partition] {
			tb.Fatalf("batch of %s goes from %d to %d", batch.Partition, next[batch.Partition], batch.Next)
		}
		next[batch.Partition] = batch.Next
		each(batch)
		if testB, ok := tb.(*testing.B); !ok || testB == nil {
			got = append(got, batch.Records...)
		}
	}
}

// emptyFetch answers that the log goes to the end, without any data.
func emptyFetch(kreq kmsg.Request, end int64) kmsg.Response {
	req, ok := kreq.(*kmsg.FetchRequest)
	if !ok {
		return nil
	}
	resp, ok := req.ResponseKind().(*kmsg.FetchResponse)
	if !ok {
		return nil
	}
	for _, rt := range req.Topics {
		st := kmsg.NewFetchResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			sp := kmsg.NewFetchResponseTopicPartition()
			sp.Partition, sp.HighWatermark, sp.LastStableOffset = rp.Partition, end, end
			sp.RecordBatches = []byte{}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}
