package kafkasource_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/record"
)

// requests counts what the client writes, by broker and request.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *requests) OnBrokerWrite(meta kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	name := kmsg.NameForKey(key)
	r.counts[name]++
	r.counts[fmt.Sprintf("%s to %d", name, meta.NodeID)]++
}

func (r *requests) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = nil
	return counts
}

func TestBounds_AskOnceForMetadataAndTwiceForOffsets(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "a", "b"))
	counter := &requests{}
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a", "b"}, Hooks: []kgo.Hook{counter}})
	positions := map[record.Partition]int64{}
	for _, topic := range []string{"a", "b"} {
		produce(t, cluster, topic, 1, make([]record.Record, 10))
		for id := range int32(6) { // some at the end, one below it, the others without a checkpoint
			positions[record.Partition{Topic: topic, ID: id}] = 0
		}
	}
	for run := range 3 {
		log := mustBounds(t, src, record.BoundsQuery{Lanes: 1, Positions: positions})
		if n := len(log.Topics["a"].Partitions) + len(log.Topics["b"].Partitions); n != 24 {
			t.Errorf("run %d has bounds of %d partitions, want 24", run, n)
		}
		counts := counter.take()
		if counts["Metadata"] != 1 || counts["ListOffsets"] != 6 {
			t.Errorf("run %d: %v", run, counts)
		}
		for node := range 3 {
			if n := counts[fmt.Sprintf("ListOffsets to %d", node)]; n != 2 {
				t.Errorf("run %d sent %d ListOffsets to broker %d, want 2", run, n, node)
			}
		}
		if known := counts["Metadata"] + counts["ListOffsets"] + counts["ApiVersions"]; sum(counts) != 2*known || run > 0 && counts["ApiVersions"] > 0 {
			t.Errorf("run %d sent more than it needs: %v", run, counts)
		}
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestNew_TalksToNobody(t *testing.T) {
	t.Parallel()
	counter := &requests{}
	open(t, kafkasource.Options{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"a"}, Hooks: []kgo.Hook{counter}})
	if counts := counter.take(); len(counts) > 0 {
		t.Errorf("New sent %v", counts)
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]kafkasource.Options{
		"no brokers":           {Topics: []string{"a"}},
		"no topics":            {Brokers: []string{"a:1"}},
		"both":                 {Brokers: []string{"a:1"}, Topics: []string{"a"}, Assign: map[string][]int32{"a": {0}}},
		"topics and pattern":   {Brokers: []string{"a:1"}, Topics: []string{"a"}, Pattern: regexp.MustCompile("a")},
		"assigned and pattern": {Brokers: []string{"a:1"}, Assign: map[string][]int32{"a": {0}}, Pattern: regexp.MustCompile("a")},
		"unknown mechanism":    {Brokers: []string{"a:1"}, Topics: []string{"a"}, SASL: &kafkasource.Login{Mechanism: "GSSAPI", Username: "a", Password: "b"}},
		"no password":          {Brokers: []string{"a:1"}, Topics: []string{"a"}, SASL: &kafkasource.Login{Mechanism: kafkasource.Plain, Username: "a"}},
		"negative wait":        {Brokers: []string{"a:1"}, Topics: []string{"a"}, FetchWait: -1},
		"too much memory":      {Brokers: []string{"a:1"}, Topics: []string{"a"}, FetchBytes: 1 << 30},
	} {
		_, err := kafkasource.New(o)
		wantFault(t, name, err, fault.Fatal, "kafka-config")
	}
}

func TestBounds_UnreachableBrokersAreTransientAndSoon(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	var all sync.WaitGroup // not as parallel tests, of which there are only as many as processors
	for name, brokers := range map[string][]string{
		"refused":     {"127.0.0.1:1"},
		"both":        {"127.0.0.1:1", "127.0.0.1:2"},
		"no such":     {"kafka.invalid:9092"},
		"no answer":   {mute.Addr().String()},
		"one is mute": {mute.Addr().String(), "127.0.0.1:1"},
	} {
		src := open(t, kafkasource.Options{Brokers: brokers, Topics: []string{"a"}})
		all.Go(func() {
			begun := time.Now()
			_, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
			wantFault(t, name, err, fault.Transient, "", brokers[0])
			if took := time.Since(begun); took > 12*time.Second {
				t.Errorf("%s: it took %s", name, took)
			}
		})
	}
	all.Wait()
}

func TestBounds_PartitionWithoutLeaderIsLeftOut(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "a"))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "a", Partitions: []int32{1}, Err: kerr.OffsetNotAvailable, Count: -1})
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
	topic := mustBounds(t, src, record.BoundsQuery{Lanes: 1}).Topics["a"]
	if _, ok := topic.Partitions[0]; !ok || len(topic.Partitions) != 1 || topic.Count != 2 {
		t.Errorf("the topic is %+v, want only partition 0 of 2", topic)
	}
}

func TestBounds_ElectionIsWaitedOut(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.OffsetNotAvailable} {
		cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "a", Err: e, Count: 2})
		src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
		all.Go(func() {
			log, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
			if err != nil || len(log.Topics["a"].Partitions) != 1 {
				t.Errorf("after %v the log is %v, %v", e, log, err)
			}
		})
	}
	all.Wait()
}

// Brokers say so at the topic's level while a new topic has no leaders.
func TestBounds_TopicWithoutLeadersIsWaitedForAndNeverUnknown(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // not as parallel tests, of which there are only as many as processors
	for name, times := range map[string]int32{"soon": 2, "not soon": math.MaxInt32} {
		cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a", "b"))
		var asked atomic.Int32
		cluster.ControlKey(keyMetadata, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			req, ok := kreq.(*kmsg.MetadataRequest)
			if !ok || len(req.Topics) != 2 || asked.Add(1) > times {
				return nil, nil, false
			}
			return leaderless(t, cluster, req), nil, true
		})
		src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a", "b"}})
		all.Go(func() {
			log, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
			if times == 2 {
				if err != nil || len(log.Topics["b"].Partitions) != 1 {
					t.Errorf("%s: the log is %+v, %v", name, log, err)
				}
				return
			}
			wantFault(t, name, err, fault.Transient, "", "topic b", "LEADER_NOT_AVAILABLE")
		})
	}
	all.Wait()
}

// leaderless answers that the last topic exists and has no leaders yet, and that the others are unknown.
func leaderless(t *testing.T, cluster *kfake.Cluster, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	t.Helper()
	host, port, err := net.SplitHostPort(cluster.ListenAddrs()[0])
	if err != nil {
		t.Error(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Error(err)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	broker := kmsg.NewMetadataResponseBroker()
	broker.Host, broker.Port = host, int32(number)
	resp.Brokers = append(resp.Brokers, broker)
	for _, asked := range req.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = asked.Topic, kerr.UnknownTopicOrPartition.Code
		resp.Topics = append(resp.Topics, topic)
	}
	resp.Topics[len(resp.Topics)-1].ErrorCode = kerr.LeaderNotAvailable.Code
	return resp
}

func TestBounds_MissingACLIsFatal(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "reader", "secret"))
	src := open(t, kafkasource.Options{
		Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, SASL: &kafkasource.Login{Mechanism: kafkasource.Plain, Username: "reader", Password: "secret"},
	})
	_, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
	wantFault(t, "no ACL", err, fault.Fatal, "kafka-acl", "reader", "[a]", "Describe and Read")
	_, err = src.TopicIDs(t.Context(), []string{"a"})
	wantFault(t, "no ACL for the id", err, fault.Fatal, "kafka-acl", "reader", "[a]")
}

func TestSource_BrokersWithoutTopicIDs(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string]*kversion.Versions{
		"Kafka 2.7": kversion.V2_7_0(),
		"metadata behind fetch": func() *kversion.Versions {
			v := kversion.Stable()
			v.SetMaxKeyVersion(keyMetadata, 9)
			return v
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "a"), kfake.MaxVersions(versions))
			produce(t, cluster, "a", 1, make([]record.Record, 10))
			src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}})
			log := mustBounds(t, src, record.BoundsQuery{Lanes: 1})
			if log.Topics["a"].ID != "" || log.Topics["a"].Partitions[1].End != 10 {
				t.Fatalf("the log is %+v", log)
			}
			if got, err := readAll(t, src, rangeOf("a", 1, 0, 10)); err != nil || len(got) != 10 {
				t.Errorf("read %d records, %v", len(got), err)
			}
		})
	}
}

const keyMetadata = 3

func mustBounds(tb testing.TB, src *kafkasource.Source, q record.BoundsQuery) record.Log {
	tb.Helper()
	log, err := src.Bounds(context.Background(), q)
	if err != nil {
		tb.Fatal(err)
	}
	return log
}

// The number of topics costs no requests.
func TestBounds_ThousandTopicsOfAPatternCostNoMoreRequests(t *testing.T) {
	t.Parallel()
	const topics, brokers = 1000, 3
	opts := []kfake.Opt{kfake.NumBrokers(brokers)}
	for i := range topics {
		opts = append(opts, kfake.SeedTopics(3, fmt.Sprintf("orders-%d", i)))
	}
	cluster := startCluster(t, append(opts, kfake.SeedTopics(1, "payments-1"))...)
	counter := &requests{}
	src := open(t, kafkasource.Options{
		Brokers: cluster.ListenAddrs(), Pattern: regexp.MustCompile(`orders-\d+`), Hooks: []kgo.Hook{counter}, FetchWait: 20 * time.Millisecond,
	})
	produce(t, cluster, "orders-999", 2, make([]record.Record, 10))
	log := mustBounds(t, src, record.BoundsQuery{Lanes: 1})
	counts := counter.take()
	if counts["Metadata"] != 1 || counts["ListOffsets"] != 2*brokers {
		t.Errorf("it took %d Metadata and %d ListOffsets requests", counts["Metadata"], counts["ListOffsets"])
	}
	ranges := make([]record.Range, 0, 3*topics)
	planned := map[string]string{}
	for name, topic := range log.Topics {
		planned[name] = topic.ID
		for id, b := range topic.Partitions {
			ranges = append(ranges, record.Range{Partition: record.Partition{Topic: name, ID: id}, From: b.Start, To: b.End + 1})
		}
	}
	if len(log.Topics) != topics || len(ranges) != 3*topics {
		t.Fatalf("%d topics with %d partitions", len(log.Topics), len(ranges))
	}
	if ids, err := src.TopicIDs(t.Context(), slices.Collect(maps.Keys(planned))); err != nil || !maps.Equal(ids, planned) {
		t.Errorf("%d ids, %v", len(ids), err)
	}
	if counts := counter.take(); counts["Metadata"] != 1 || sum(counts) != 2 {
		t.Errorf("the ids took %v", counts)
	}
	r := src.Open(t.Context(), ranges, planned)
	defer r.Close()
	batch, err := r.Next(t.Context())
	if err != nil || batch.Partition.Topic != "orders-999" || batch.Next != 10 {
		t.Errorf("%+v, %v", batch, err)
	}
	if counts := counter.take(); counts["Metadata"] > 0 || counts["Fetch"] > 4*brokers {
		t.Errorf("reading took %v", counts)
	}
}
