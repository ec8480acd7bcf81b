package config_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/config"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// world is an Env whose files, secrets and variables are held in maps.
type world struct {
	vars    map[string]string
	files   map[string]string
	secrets map[string]string
}

func (w world) env() config.Env {
	env := config.Env{
		ReadFile: func(path string) ([]byte, error) {
			if text, found := w.files[path]; found {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		Secret: func(_ context.Context, name string) ([]byte, error) {
			if text, found := w.secrets[name]; found {
				return []byte(text), nil
			}
			return nil, fault.Fatalf("secret-unreadable", "reading %s: there is no such secret version", name)
		},
	}
	for name, text := range w.vars {
		env.Environ = append(env.Environ, name+"="+text)
	}
	return env
}

// minimal is the shortest configuration: everything else has a default.
const minimal = `pipeline: orders
kafka:
  bootstrapServers: [localhost:9092]
source:
  subscribe: [orders]
sink:
  uri: mongodb://localhost:27017
  database: shop
  collection: orders
deadLetters:
  collection: orders_dead
checkpoint:
  project: my-project
`

// inline returns a world with a text as its configuration and NAME=value variables.
func inline(text string, vars ...string) world {
	w := world{vars: map[string]string{"TIDEMARK_CONFIG_INLINE": text}}
	for _, pair := range vars {
		name, value, _ := strings.Cut(pair, "=")
		w.vars[name] = value
	}
	return w
}

func load(t *testing.T, w world) config.Config {
	t.Helper()
	cfg, err := config.Load(t.Context(), w.env())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func wantMinimal() config.Config {
	return config.Config{
		Pipeline: "orders",
		Kafka:    config.Kafka{BootstrapServers: []string{"localhost:9092"}, FetchWait: 500 * time.Millisecond},
		Source: config.Source{
			Subscribe: []string{"orders"}, StartingOffsets: record.StartingOffsets{Mode: record.StartEarliest},
			StartingText: "earliest", IsolationLevel: "read_committed", OnDataLoss: "fail",
		},
		Record: config.Record{Format: "json", KeyFormat: "string", ID: config.ID{From: "coordinates"}, DuplicateKeys: "last"},
		Sink: config.Sink{
			URI: "mongodb://localhost:27017", Database: "shop", Collection: "orders", Mode: "insert",
			Tombstones: "deadLetter", TombstoneRetention: 30 * 24 * time.Hour, OnDuplicate: "deadLetter",
			GuardField: "_tidemark", Batch: config.Batch{Records: 2000, Bytes: 4 << 20}, Writers: 4,
		},
		DeadLetters: config.DeadLetters{Collection: "orders_dead", OnReject: "deadLetter", MaxRatio: 0.1, Window: 1000},
		Checkpoint: config.Checkpoint{
			Store: "firestore", Project: "my-project", Database: "(default)", Collection: "tidemark", Path: ".tidemark",
			Lease: time.Minute, Heartbeat: 20 * time.Second,
		},
		Run: config.Run{
			Deadline: 4 * time.Minute, Lanes: 1, Layout: 1,
			Limits: config.Limits{Memory: 128 << 20, MinPerPartition: 1},
		},
	}
}

// diff compares what Configs hold, Secrets included.
func diff(want, got config.Config) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b config.Secret) bool { return a.Reveal() == b.Reveal() }))
}

func TestLoad_MinimalGetsTheDocumentedDefaults(t *testing.T) {
	t.Parallel()
	if diff := diff(wantMinimal(), load(t, inline(minimal))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_ExampleLoads(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := load(t, world{
		vars:  map[string]string{"TIDEMARK_CONFIG": "/etc/tidemark/config.yaml", "KAFKA_USER": "alice"},
		files: map[string]string{"/etc/tidemark/config.yaml": string(example)},
		secrets: map[string]string{
			"projects/p/secrets/kafka/versions/1":   "kafka-pass\n",
			"projects/p/secrets/mongodb/versions/3": "mongodb://u:p@db.example.com\r\n",
		},
	})
	want := wantMinimal()
	want.Kafka.BootstrapServers = []string{"broker-1.example.com:9092"}
	want.Kafka.TLS.Enabled = true
	want.Kafka.SASL = config.SASL{Mechanism: "PLAIN", Username: "alice", Password: "kafka-pass"}
	want.Record.Dates = []string{"createdAt"}
	want.Sink.URI = "mongodb://u:p@db.example.com"
	want.Run.Schedule = "*/5 * * * *"
	if diff := diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The example's comments promise defaults. Those that are defaults are copied here by hand, and must change nothing.
func TestLoad_ExampleCommentsShowTheDefaults(t *testing.T) {
	t.Parallel()
	text := minimal + `  collection: tidemark
  lease: 60s
  heartbeat: 20s
  database: (default)
record: {id: coordinates, epochSeconds: [], objectIds: [], decimals: [], duplicateKeys: last, metadata: ""}
run:
  lanes: 1
  layout: 1
  limits: {records: 0, bytes: 0, memory: 128MiB, minPerPartition: 1}
`
	text = strings.Replace(text, "[localhost:9092]\n", "[localhost:9092]\n  fetchWait: 500ms\n", 1)
	text = strings.Replace(text, "database: shop\n", `database: shop
  tombstones: deadLetter
  onDuplicate: deadLetter
  guardField: _tidemark
  batch: {records: 2000, bytes: 4MiB}
  writers: 4
`, 1)
	text = strings.Replace(text, "orders_dead\n", "orders_dead\n  onReject: deadLetter\n  maxRatio: 0.1\n  window: 1000\n", 1)
	if diff := diff(wantMinimal(), load(t, inline(text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_VariablesWinOverTheFile(t *testing.T) {
	t.Parallel()
	got := load(t, inline(minimal,
		"TIDEMARK_SINK_URI=env://MONGO", "MONGO=mongodb://other",
		"TIDEMARK_RUN_LIMITS_RECORDS=500",
		"TIDEMARK_KAFKA_BOOTSTRAPSERVERS=a:1, b:2",
		"TIDEMARK_SOURCE_SUBSCRIBE=orders,payments",
		`TIDEMARK_SOURCE_STARTINGOFFSETS={"orders":{"0":250,"1":-2}}`,
		"TIDEMARK_CHECKPOINT_STORE=file",
		"TIDEMARK_RECORD_DATES=createdAt,items.at",
		"TIDEMARK_FIRESTORE_JAR=not ours",
	))
	want := wantMinimal()
	want.Sink.URI = "mongodb://other"
	want.Run.Limits.Records = 500
	want.Kafka.BootstrapServers = []string{"a:1", "b:2"}
	want.Source.Subscribe = []string{"orders", "payments"}
	want.Source.StartingOffsets = record.StartingOffsets{Mode: record.StartOffsets, Offsets: map[record.Partition]int64{
		{Topic: "orders", ID: 0}: 250, {Topic: "orders", ID: 1}: -2,
	}}
	want.Source.StartingText = `{"orders":{"0":250,"1":-2}}`
	want.Checkpoint.Store = "file"
	want.Record.Dates = []string{"createdAt", "items.at"}
	if diff := diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_StartingOffsetsForms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	offsets := record.StartingOffsets{Mode: record.StartOffsets, Offsets: map[record.Partition]int64{
		{Topic: "orders", ID: 0}: 250, {Topic: "orders", ID: 1}: -2, {Topic: "orders", ID: 2}: -1,
	}}
	for _, test := range []struct {
		yaml, text string
		want       record.StartingOffsets
	}{
		{"earliest", "earliest", record.StartingOffsets{Mode: record.StartEarliest}},
		{"latest", "latest", record.StartingOffsets{Mode: record.StartLatest}},
		{"none", "none", record.StartingOffsets{Mode: record.StartNone}},
		{"{timestamp: 2026-01-01T00:00:00Z}", `{"timestamp":"2026-01-01T00:00:00Z"}`, record.StartingOffsets{Mode: record.StartTimestamp, Timestamp: at}},
		{`'{"timestamp":"2026-01-01T01:00:00+01:00"}'`, `{"timestamp":"2026-01-01T00:00:00Z"}`, record.StartingOffsets{Mode: record.StartTimestamp, Timestamp: at}},
		{`'{"orders":{"0":250,"1":-2,"2":-1}}'`, `{"orders":{"0":250,"1":-2,"2":-1}}`, offsets},
		{"{orders: {0: 250, 1: -2, 2: -1}}", `{"orders":{"0":250,"1":-2,"2":-1}}`, offsets},
	} {
		t.Run(test.yaml, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(minimal, "[orders]\n", "[orders]\n  startingOffsets: "+test.yaml+"\n", 1)
			got := load(t, inline(text)).Source
			if diff := cmp.Diff(test.want, got.StartingOffsets); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.StartingText != test.text {
				t.Errorf("StartingText = %s, want %s", got.StartingText, test.text)
			}
		})
	}
}

func TestLoad_AssignAsMappingAndAsJSON(t *testing.T) {
	t.Parallel()
	want := map[string][]int32{"orders": {0, 1}}
	for _, form := range []string{"{orders: [0, 1]}", `'{"orders":[0,1]}'`} {
		text := strings.Replace(minimal, "subscribe: [orders]", "assign: "+form, 1)
		if diff := cmp.Diff(want, load(t, inline(text)).Source.Assign); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
}

func TestLoad_IDHasOneTextForEachRule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		vars []string
		want config.ID
		text string
	}{
		{nil, config.ID{From: "coordinates"}, "coordinates"},
		{[]string{"TIDEMARK_SINK_MODE=upsert"}, config.ID{From: "key"}, "key"},
		{[]string{"TIDEMARK_SINK_MODE=update"}, config.ID{From: "key"}, "key"},
		{[]string{"TIDEMARK_RECORD_ID=key"}, config.ID{From: "key"}, "key"},
		{[]string{"TIDEMARK_RECORD_ID={keyField: ref}", "TIDEMARK_RECORD_KEYFORMAT=bson"}, config.ID{From: "keyField", Field: "ref"}, "keyField:ref"},
		{[]string{"TIDEMARK_RECORD_ID={fields: [customerId, orderId]}"}, config.ID{From: "fields", Fields: []string{"customerId", "orderId"}}, "fields:customerId,orderId"},
		{[]string{`TIDEMARK_RECORD_ID={fields: ["customerId,orderId"]}`}, config.ID{From: "fields", Fields: []string{"customerId,orderId"}}, `fields:"customerId,orderId"`},
		{[]string{"TIDEMARK_RECORD_ID=env://ID", "ID={fields: [_id]}"}, config.ID{From: "fields", Fields: []string{"_id"}}, "fields:_id"},
	} {
		got := load(t, inline(minimal, test.vars...)).Record.ID
		if diff := cmp.Diff(test.want, got); diff != "" || got.String() != test.text {
			t.Errorf("%v: %s (-want +got):\n%s", test.vars, got, diff)
		}
	}
}

func TestLoad_TextAndBytesAreWrapped(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"json": "", "extjson": "", "bson": "", "string": "value", "bytes": "value"} {
		if got := load(t, inline(minimal, "TIDEMARK_RECORD_FORMAT="+format)).Record; got.Wrap != want || got.Format != format {
			t.Errorf("%s: %+v, want wrap %q", format, got, want)
		}
	}
	if got := load(t, inline(minimal, "TIDEMARK_RECORD_FORMAT=string", "TIDEMARK_RECORD_WRAP=text", "TIDEMARK_RECORD_METADATA=kafka")).Record; got.Wrap != "text" || got.Metadata != "kafka" {
		t.Errorf("%+v", got)
	}
}

func TestLoad_ListsInTextAreYAMLInBracketsOrHaveCommas(t *testing.T) {
	t.Parallel()
	for _, form := range []string{`["createdAt","paidAt"]`, "[createdAt, paidAt]", " [\n  createdAt,\n  paidAt\n] ", "createdAt, paidAt", "env://LIST", `["env://ONE", paidAt]`} {
		fromVariable := load(t, inline(minimal, "TIDEMARK_RECORD_DATES="+form, `LIST=["createdAt","paidAt"]`, "ONE=createdAt"))
		fromFile := load(t, inline(fmt.Sprintf("%srecord: {dates: %q}\n", minimal, form), `LIST=["createdAt","paidAt"]`, "ONE=createdAt"))
		for where, got := range map[string]config.Config{"variable": fromVariable, "file": fromFile} {
			if diff := cmp.Diff([]string{"createdAt", "paidAt"}, got.Record.Dates); diff != "" {
				t.Errorf("%s in a %s (-want +got):\n%s", form, where, diff)
			}
		}
	}
	if got := load(t, inline(minimal, "TIDEMARK_RECORD_DATES=[]")).Record.Dates; len(got) != 0 {
		t.Errorf("[] gave %q", got)
	}
}

// An address of IPv6 begins with a bracket and is no list.
func TestLoad_BrokersOfIPv6InAVariable(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"[::1]:9092, [fe80::1%eth0]:9093", `["[::1]:9092", "[fe80::1%eth0]:9093"]`} {
		got := load(t, inline(minimal, "TIDEMARK_KAFKA_BOOTSTRAPSERVERS="+form)).Kafka.BootstrapServers
		if diff := cmp.Diff([]string{"[::1]:9092", "[fe80::1%eth0]:9093"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
}

func TestLoad_FilesStartAtTheConfigurationsFolder(t *testing.T) {
	t.Parallel()
	got := load(t, world{
		vars: map[string]string{"TIDEMARK_CONFIG": "conf/orders.yaml", "TIDEMARK_SINK_URI": "file://uri.txt"},
		files: map[string]string{
			"conf/orders.yaml": minimal,
			"conf/uri.txt":     "mongodb://from-file\n",
		},
	})
	if got.Sink.URI.Reveal() != "mongodb://from-file" {
		t.Error("sink.uri did not come from conf/uri.txt")
	}
}

func TestLoad_SecretIsFetchedOnceAndOnlyWhereReferenced(t *testing.T) {
	t.Parallel()
	const name = "projects/p/secrets/x/versions/1"
	calls := 0
	get := func(context.Context, string) ([]byte, error) { calls++; return []byte("mongodb://x"), nil }
	env := inline(minimal).env()
	env.Secret = get
	if _, err := config.Load(t.Context(), env); err != nil || calls != 0 {
		t.Errorf("without a reference: %d calls, error %v", calls, err)
	}
	env = inline(minimal, "TIDEMARK_SINK_URI=secret://"+name, "TIDEMARK_KAFKA_SASL_USERNAME=secret://"+name,
		"TIDEMARK_KAFKA_SASL_PASSWORD=secret://"+name, "TIDEMARK_KAFKA_SASL_MECHANISM=PLAIN", "TIDEMARK_KAFKA_TLS_ENABLED=true").env()
	env.Secret = get
	if _, err := config.Load(t.Context(), env); err != nil || calls != 1 {
		t.Errorf("with three references to one secret: %d calls, error %v", calls, err)
	}
}

func TestLoad_UnansweredSecretIsTransientUnlessMoreIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		extra string
		want  fault.Kind
	}{{"TIDEMARK_RUN_LANES=1", fault.Transient}, {"TIDEMARK_RUN_LANES=0", fault.Fatal}} {
		env := inline(minimal, "TIDEMARK_SINK_URI=secret://projects/p/secrets/x/versions/1", test.extra).env()
		env.Secret = func(context.Context, string) ([]byte, error) { return nil, errors.New("unavailable") }
		if _, err := config.Load(t.Context(), env); err == nil || fault.KindOf(err) != test.want {
			t.Errorf("%s: %v of kind %s, want %s", test.extra, err, fault.KindOf(err), test.want)
		}
	}
}

func TestLoad_FromTheRealProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders.yaml")
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIDEMARK_CONFIG", path)
	t.Setenv("TIDEMARK_RUN_LANES", "2")
	cfg, err := config.Load(t.Context(), config.OS(nil))
	if err != nil || cfg.Run.Lanes != 2 || cfg.Pipeline != "orders" {
		t.Errorf("Load = %+v, %v", cfg, err)
	}
}

func TestLoad_CertificatesComeFromAPathOrAReference(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	server.Close()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, given := range []string{"ca.pem", "file://ca.pem", "env://CA"} {
		w := inline(minimal, "CA="+certificate, "TIDEMARK_KAFKA_TLS_ENABLED=true", "TIDEMARK_KAFKA_TLS_CAFILE="+given)
		w.files = map[string]string{"ca.pem": certificate}
		if got := load(t, w).Kafka.TLS.CAPEM; strings.TrimSpace(got) != strings.TrimSpace(certificate) {
			t.Errorf("caFile %s gave %q", given, got)
		}
	}
}
