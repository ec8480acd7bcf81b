package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/event"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/tidemark/tidemark/shared/config"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/telemetry"
)

// What Cloud Scheduler does, with every part real: calls until nothing is left.
func TestIngest_RealParts_MovesEverythingWindowByWindow(t *testing.T) { //nolint:paralleltest // the wiring reads the environment, which is set here
	w := newWorld(t, kfake.NumBrokers(3), kfake.SeedTopics(3, "orders"))
	const n, poison = 500, 77
	ids := produce(t, w.kafka, "orders", 3, numbered(n, `{"n":%d,"name":"order"}`, poison))
	s := w.setup("orders")
	s.limit = 200
	f, log, err := w.wire(t, s)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(f.ServeHTTP))
	t.Cleanup(server.Close)

	type outcome struct {
		Status          int
		Outcome         record.Outcome
		Read, Remaining int64
	}
	var got []outcome
	var written, dead int64
	for range 4 {
		status, report := post(t, server)
		got = append(got, outcome{status, report.Outcome, report.Read, *report.Remaining})
		written, dead = written+report.Written, dead+report.DeadLettered
		if report.Error != "" || report.Duplicates != 0 {
			t.Errorf("run %s: error %q, %d duplicates", report.Run, report.Error, report.Duplicates)
		}
	}
	want := []outcome{{200, "partial", 200, 300}, {200, "partial", 200, 100}, {200, "done", 100, 0}, {200, "idle", 0, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if written != n-1 || dead != 1 {
		t.Errorf("%d written and %d dead letters in all, want %d and 1", written, dead, n-1)
	}
	if got := strings.Count(log.String(), "\n"); got != 4 {
		t.Errorf("%d log lines for 4 calls:\n%s", got, log)
	}
	wantDocuments(t, w, s, ids, poison)
}

// wantDocuments compares the collection with what was produced, record by record.
func wantDocuments(t *testing.T, w *world, s setup, ids []string, poison int) {
	t.Helper()
	documents, letters := w.find(t, s.collection()), w.find(t, s.letters())
	if len(documents) != len(ids)-1 || len(letters) != 1 {
		t.Errorf("%s: %d documents and %d dead letters, want %d and 1", s.topic, len(documents), len(letters), len(ids)-1)
	}
	for i, id := range ids {
		if i == poison {
			letter := letters[s.pipeline+":"+id]
			if letter == nil || letter.Lookup("class").StringValue() != "malformed-json" {
				t.Errorf("%s: no dead letter of class malformed-json for %s: %s", s.topic, id, letter)
			}
			continue
		}
		if n, ok := documents[id].Lookup("n").AsInt64OK(); !ok || n != int64(i) {
			t.Errorf("%s: the document of %s is %s, want n %d", s.topic, id, documents[id], i)
		}
	}
}

func post(t *testing.T, server *httptest.Server) (int, record.Report) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	report := record.Report{}
	if err := json.Unmarshal(body, &report); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return response.StatusCode, report
}

// counters sees every request to Kafka and Firestore and every connection to MongoDB.
type counters struct {
	mu        sync.Mutex
	kafka     map[string]map[string]int // request -> broker -> how often
	firestore map[string]int            // method -> how often
	mongo     int                       // connections
}

func newCounters() *counters {
	return &counters{kafka: map[string]map[string]int{}, firestore: map[string]int{}}
}

// OnBrokerWrite is called by the Kafka client for each request that it sent.
func (c *counters) OnBrokerWrite(meta kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	request := map[int16]string{1: "Fetch", 2: "ListOffsets", 3: "Metadata", 18: "ApiVersions"}[key]
	if request == "" {
		request = fmt.Sprintf("key %d", key)
	}
	if c.kafka[request] == nil {
		c.kafka[request] = map[string]int{}
	}
	c.kafka[request][fmt.Sprintf("%s:%d", meta.Host, meta.Port)]++
}

// most is the highest number of such requests to one broker; sum is that of all.
func (c *counters) most(request string) (most int) {
	for _, n := range c.kafka[request] {
		most = max(most, n)
	}
	return most
}

func (c *counters) sum(request string) (sum int) {
	for _, n := range c.kafka[request] {
		sum += n
	}
	return sum
}

// TagRPC is called by gRPC for each call that is begun.
func (c *counters) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.firestore[info.FullMethodName[strings.LastIndexByte(info.FullMethodName, '/')+1:]]++
	return ctx
}

// HandleRPC, TagConn and HandleConn have nothing to count.
func (c *counters) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn is part of stats.Handler.
func (c *counters) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is part of stats.Handler.
func (c *counters) HandleConn(context.Context, stats.ConnStats) {}

func (c *counters) pool() *event.PoolMonitor {
	return &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		if e.Type == event.ConnectionCreated {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.mongo++
		}
	}}
}

// watched builds the pipeline as build does, with the counters at every door.
func (w *world) watched(t *testing.T, s setup, c *counters) *function {
	t.Helper()
	cfg, err := config.Load(t.Context(), config.Env{Environ: []string{"TIDEMARK_CONFIG_INLINE=" + w.config(s)}})
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := mapping.New(mapping.Options{GuardField: cfg.Sink.GuardField})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := kafkasource.New(kafkasource.Options{
		Brokers: cfg.Kafka.BootstrapServers, Topics: cfg.Source.Subscribe, FetchWait: cfg.Kafka.FetchWait, Hooks: []kgo.Hook{c},
	})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := mongosink.New(mongosink.Options{
		URI: cfg.Sink.URI.Reveal(), Database: cfg.Sink.Database, Collection: cfg.Sink.Collection, DeadLetters: cfg.DeadLetters.Collection,
		GuardField: cfg.Sink.GuardField, Pipeline: cfg.Pipeline, PoolMonitor: c.pool(),
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := firecheckpoint.New(firecheckpoint.Options{
		Project: cfg.Checkpoint.Project, Database: cfg.Checkpoint.Database, Collection: cfg.Checkpoint.Collection,
		Pipeline: cfg.Pipeline, RunTTL: runTTL, Emulator: w.firestore, DialOptions: []grpc.DialOption{grpc.WithStatsHandler(c)},
	})
	if err != nil {
		t.Fatal(err)
	}
	logger := telemetry.NewLogger(&lines{}, "", slog.LevelInfo)
	p := &pipeline{deadline: cfg.Run.Deadline, runner: &pull.Runner{
		Settings: settings(cfg), Source: source{reader}, Converter: mapper, Sink: sink, Checkpoints: store,
		NewRunID: newRunID, Logger: logger,
	}}
	t.Cleanup(func() { closeParts(context.WithoutCancel(t.Context()), p) })
	return &function{logger: logger, service: service{build: func(context.Context) (*pipeline, error) { return p, nil }}}
}

// Most calls of a schedule find nothing. Such a call of a new instance costs one read of Firestore and what it takes to
// ask Kafka for the ends; nothing is written, and MongoDB does not hear of it.
func TestIngest_IdleRun_CostsOneReadAndNoWriteAndNoConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "quiet"))
	produce(t, w.kafka, "quiet", 6, numbered(60, `{"n":%d}`))
	s := w.setup("quiet")
	busy := newCounters()
	if got := w.watched(t, s, busy).call(t, http.MethodPost, ""); got.report.Outcome != record.Done || got.report.Written != 60 {
		t.Fatalf("%d %+v, want 60 written", got.Code, got.report)
	}
	if busy.mongo == 0 || busy.firestore["Commit"] == 0 || busy.sum("Fetch") == 0 {
		t.Fatalf("the counters do not count: %d connections, Firestore %v, Kafka %v", busy.mongo, busy.firestore, busy.kafka)
	}

	idle := newCounters()
	if got := w.watched(t, s, idle).call(t, http.MethodPost, ""); got.report.Outcome != record.Idle {
		t.Fatalf("%d %+v, want idle", got.Code, got.report)
	}
	idle.mu.Lock()
	defer idle.mu.Unlock()
	t.Logf("idle run: Firestore %v, Metadata %d, ListOffsets %d (at most %d a broker, 3 brokers), Fetch %d, MongoDB connections %d",
		idle.firestore, idle.sum("Metadata"), idle.sum("ListOffsets"), idle.most("ListOffsets"), idle.sum("Fetch"), idle.mongo)
	if diff := cmp.Diff(map[string]int{"BatchGetDocuments": 1}, idle.firestore); diff != "" {
		t.Errorf("calls of Firestore (-want +got):\n%s", diff)
	}
	if got := idle.sum("Metadata"); got != 1 {
		t.Errorf("%d Metadata requests, want 1", got)
	}
	if got := idle.most("ListOffsets"); got < 1 || got > 2 {
		t.Errorf("%d ListOffsets requests to one broker, want 1 or 2: %v", got, idle.kafka["ListOffsets"])
	}
	if got := idle.sum("Fetch"); got != 0 {
		t.Errorf("%d Fetch requests, want none", got)
	}
	if idle.mongo != 0 {
		t.Errorf("%d connections to MongoDB, want none", idle.mongo)
	}
}
