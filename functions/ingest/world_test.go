package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/telemetry"
)

// project is where the names of projects in the emulator begin.
const project = "ingest-test"

// world is the real parts: an embedded Kafka, mongod and the Firestore emulator.
type world struct {
	kafka     *kfake.Cluster
	mongo     string // URI
	firestore string // host:port
	database  *mongo.Database
	suffix    string // of names in servers that may outlive the test process
}

var worlds atomic.Int64

func newWorld(t *testing.T, opts ...kfake.Opt) *world {
	t.Helper()
	w := &world{mongo: realtest.Mongo(t), firestore: emulator(t)}
	w.kafka = startKafka(t, opts...)
	w.suffix = fmt.Sprintf("%d-%d", os.Getpid(), worlds.Add(1))
	client, err := mongo.Connect(options.Client().ApplyURI(w.mongo))
	if err != nil {
		t.Fatal(err)
	}
	w.database = client.Database("ingest_" + strings.ReplaceAll(w.suffix, "-", "_"))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := w.database.Drop(ctx); err != nil {
			t.Error(err)
		}
		_ = client.Disconnect(ctx)
	})
	return w
}

func startKafka(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// warmed says that the emulator of this process has done each kind of call once.
var warmed sync.Once

// emulator returns the emulator's address. Its first calls take seconds on a busy machine, more than a store waits, so
// they are made here.
func emulator(t *testing.T) string {
	t.Helper()
	host := realtest.Firestore(t)
	warmed.Do(func() {
		store, err := firecheckpoint.New(firecheckpoint.Options{Project: project, Pipeline: "warm-up", Emulator: host})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		for range 10 { // of up to ten seconds each
			_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
			if err == nil || fault.KindOf(err) != fault.Transient {
				return
			}
		}
		t.Error("the Firestore emulator does not answer in time: is the machine overloaded?")
	})
	return host
}

// produce sends the values in turn to the partitions of a topic, and returns where each is: the id of its document.
func produce(t *testing.T, cluster *kfake.Cluster, topic string, partitions int, values [][]byte, opts ...kgo.Opt) []string {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, len(values))
	for i, value := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i % partitions), Key: fmt.Append(nil, i), Value: value}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(values))
	for i := range values {
		ids[i] = fmt.Sprintf("%s/%d/%d", topic, i%partitions, i/partitions)
	}
	return ids
}

// setup is what a configuration is made of; change it to make a wrong one.
type setup struct {
	pipeline, topic  string
	project          string // of Firestore: one for each, since transactions of the emulator wait for each other
	brokers          []string
	sasl             string // "" for none, else the whole mapping
	mongo, firestore string
	limit            int
	more             string // lines that are added
}

func (w *world) setup(name string) setup {
	return setup{
		pipeline: name + "-" + w.suffix, topic: name, project: project + "-" + name, brokers: w.kafka.ListenAddrs(), mongo: w.mongo, firestore: w.firestore,
	}
}

// collection and letters are where the documents of a setup go.
func (s setup) collection() string { return s.topic }
func (s setup) letters() string    { return s.topic + "_dead" }

func (w *world) config(s setup) string {
	sasl := ""
	if s.sasl != "" {
		sasl = ", tls: {enabled: false}, sasl: " + s.sasl
	}
	return fmt.Sprintf(`pipeline: %s
kafka: {bootstrapServers: [%s], fetchWait: 50ms%s}
source: {subscribe: [%s], startingOffsets: earliest}
record: {format: json}
sink: {uri: "%s", database: %s, collection: %s}
deadLetters: {collection: %s}
checkpoint: {store: firestore, project: %s}
run: {deadline: 4m, limits: {records: %d}}
%s`, s.pipeline, strings.Join(s.brokers, ", "), sasl, s.topic, s.mongo, w.database.Name(), s.collection(), s.letters(), s.project, s.limit, s.more)
}

// wire builds the function as an instance does that has this configuration in its environment, which it reads now: it
// opens no connection before it is called. With an error the function is as one whose every call meets it.
func (w *world) wire(t *testing.T, s setup) (*function, *lines, error) {
	t.Helper()
	t.Setenv("TIDEMARK_CONFIG", "")
	t.Setenv("TIDEMARK_CONFIG_INLINE", w.config(s))
	t.Setenv("FIRESTORE_EMULATOR_HOST", s.firestore)
	log := &lines{}
	logger := telemetry.NewLogger(log, "", slog.LevelInfo)
	f := &function{logger: logger, service: service{build: func(ctx context.Context) (*pipeline, error) { return build(ctx, logger) }}}
	p, err := f.service.get(t.Context(), nil)
	if err != nil {
		f.service.build = func(context.Context) (*pipeline, error) { return nil, err }
		return f, log, err
	}
	t.Cleanup(func() { closeParts(context.WithoutCancel(t.Context()), p) })
	return f, log, nil
}

// closeParts closes what an instance keeps for its whole life.
func closeParts(ctx context.Context, p *pipeline) {
	if s, ok := p.runner.Source.(source); ok {
		s.Close()
	}
	if s, ok := p.runner.Sink.(*mongosink.Sink); ok {
		_ = s.Close(ctx)
	}
	if s, ok := p.runner.Checkpoints.(*firecheckpoint.Store); ok {
		_ = s.Close()
	}
}

// find returns what a collection holds, by _id.
func (w *world) find(t *testing.T, collection string) map[string]bson.Raw {
	t.Helper()
	cursor, err := w.database.Collection(collection).Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.Raw
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	found := map[string]bson.Raw{}
	for _, doc := range docs {
		found[doc.Lookup("_id").StringValue()] = doc
	}
	return found
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

// mute is an address that takes connections and all that is sent, and never says a word.
func mute(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	var mu sync.Mutex
	var taken []net.Conn
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range taken {
			_ = conn.Close()
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed above
			}
			mu.Lock()
			taken = append(taken, conn)
			mu.Unlock()
			go func() {
				for buffer := make([]byte, 4096); ; {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// numbered returns n values of which the nth is no document where it is in broken.
func numbered(n int, form string, broken ...int) [][]byte {
	values := make([][]byte, n)
	for i := range values {
		values[i] = fmt.Appendf(nil, form, i)
		if slices.Contains(broken, i) {
			values[i] = values[i][:len(values[i])-1]
		}
	}
	return values
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }
