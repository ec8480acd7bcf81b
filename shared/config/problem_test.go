package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/config"
	"github.com/tidemark/tidemark/shared/fault"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func problems(t *testing.T, w world) string {
	t.Helper()
	_, err := config.Load(t.Context(), w.env())
	if err == nil {
		t.Fatal("Load accepted it")
	}
	if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != "bad-config" {
		t.Errorf("kind %s, class %q, want fatal, bad-config", fault.KindOf(err), fault.ClassOf(err))
	}
	return err.Error()
}

func TestLoad_ReportsEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/problems.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := problems(t, world{
		vars: map[string]string{
			"TIDEMARK_CONFIG":             "config.yaml",
			"TIDEMARK_SINK_DATABSE":       "shop",
			"TIDEMARK_RUN":                "x",
			"TIDEMARK_DEADLETTERS_WINDOW": "0",
			"TIDEMARK_CHECKPOINT_PROJECT": "env://NOT_SET",
			"TIDEMARK_SINK_GUARDFIELD":    "secret://projects/p/secrets/guard/versions/latest",
			"TIDEMARK_KAFKA_FETCHWAIT":    "secret://projects/p/secrets/wait/versions/1",
			"TIDEMARK_SINK_ONDUPLICATE":   "mongodb://user:hunter2@db",
		},
		files:   map[string]string{"config.yaml": string(file)},
		secrets: map[string]string{"projects/p/secrets/wait/versions/1": "hunter2"},
	}) + "\n"
	const golden = "testdata/problems.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, hidden := range []string{"hunter2", "12345678", "postgres"} {
		if strings.Contains(got, hidden) {
			t.Errorf("the error shows %s", hidden)
		}
	}
}

func TestLoad_RulesOverSeveralKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		vars []string
		want string // the one problem
	}{
		{
			"deadline reaches the service's timeout",
			[]string{"CLOUD_RUN_TIMEOUT_SECONDS=240"},
			"TIDEMARK_CONFIG_INLINE: run.deadline: 4m (the default) is not below the service's timeout, 4m (CLOUD_RUN_TIMEOUT_SECONDS): the platform would cut the run off before its last commit; lower run.deadline or raise the timeout",
		},
		{"timeout is unreadable", []string{"CLOUD_RUN_TIMEOUT_SECONDS=1h"}, "CLOUD_RUN_TIMEOUT_SECONDS: is no number of seconds"},
		{
			"deadline over the shortest period",
			[]string{"TIDEMARK_RUN_SCHEDULE=*/7 * * * *", "TIDEMARK_RUN_DEADLINE=5m"},
			"TIDEMARK_RUN_DEADLINE: run.deadline: 5m is longer than the shortest time between two runs of run.schedule, 4m: runs would overlap; lower run.deadline or call less often",
		},
		{"schedule never comes", []string{"TIDEMARK_RUN_SCHEDULE=0 0 30 2 *"}, `TIDEMARK_RUN_SCHEDULE: run.schedule: "0 0 30 2 *" never comes: no such day is in the calendar`},
		{
			"local store on Cloud Run",
			[]string{"TIDEMARK_CHECKPOINT_STORE=memory", "K_SERVICE=ingest"},
			"TIDEMARK_CHECKPOINT_STORE: checkpoint.store: memory does not survive on Cloud Run, where K_SERVICE is set: use firestore",
		},
		{
			"heartbeat over half the lease",
			[]string{"TIDEMARK_CHECKPOINT_LEASE=20s", "TIDEMARK_CHECKPOINT_HEARTBEAT=10001ms"},
			"TIDEMARK_CHECKPOINT_HEARTBEAT: checkpoint.heartbeat: 10.001s is over half of checkpoint.lease, 20s: one lost heartbeat would lose the lease; write 10s at most, or leave it out",
		},
		{
			"one collection for both",
			[]string{"TIDEMARK_DEADLETTERS_COLLECTION=orders"},
			"TIDEMARK_DEADLETTERS_COLLECTION: deadLetters.collection: is sink.collection: dead letters need a collection of their own",
		},
		{
			"two types for a field",
			[]string{"TIDEMARK_RECORD_DATES=at", "TIDEMARK_RECORD_DECIMALS=price,at"},
			`TIDEMARK_RECORD_DECIMALS: record.decimals: "at" is in record.dates too: a field has one type`,
		},
		{
			"value and guard in one field",
			[]string{"TIDEMARK_RECORD_WRAP=_tidemark"},
			"TIDEMARK_RECORD_WRAP: record.wrap: is the name of sink.guardField: the guard would replace the value",
		},
		{
			"two ways to name topics",
			[]string{"TIDEMARK_SOURCE_ASSIGN={orders: [0]}"},
			"TIDEMARK_SOURCE_ASSIGN: source.assign: source.subscribe is set too: keep one",
		},
		{
			"start of a topic that is not read",
			[]string{"TIDEMARK_SOURCE_STARTINGOFFSETS={order: {0: 1}}"},
			"TIDEMARK_SOURCE_STARTINGOFFSETS: source.startingOffsets: order/0 is not among the topics that are read",
		},
		{
			"start before Kafka's time",
			[]string{"TIDEMARK_SOURCE_STARTINGOFFSETS={timestamp: 1969-12-31T23:59:59Z}"},
			`TIDEMARK_SOURCE_STARTINGOFFSETS: source.startingOffsets.timestamp: "1969-12-31T23:59:59Z" is before 1970`,
		},
		{
			"deadline over the period, by default",
			[]string{"TIDEMARK_RUN_SCHEDULE=* * * * *"},
			"TIDEMARK_CONFIG_INLINE: run.deadline: 4m (the default) is longer than the shortest time between two runs of run.schedule, 1m: runs would overlap; lower run.deadline or call less often",
		},
		{
			"topics and a pattern",
			[]string{"TIDEMARK_SOURCE_SUBSCRIBEPATTERN=orders-.*"},
			"TIDEMARK_SOURCE_SUBSCRIBEPATTERN: source.subscribePattern: source.subscribe is set too: keep one",
		},
		{
			"upsert by coordinates",
			[]string{"TIDEMARK_SINK_MODE=upsert", "TIDEMARK_RECORD_ID=coordinates"},
			"TIDEMARK_RECORD_ID: record.id: coordinates never meet again, so that sink.mode: upsert would find nothing to change: write key, {keyField: name} or {fields: [name, ...]}, or sink.mode: insert",
		},
		{
			"deletes in insert",
			[]string{"TIDEMARK_SINK_TOMBSTONES=delete"},
			"TIDEMARK_SINK_TOMBSTONES: sink.tombstones: delete needs sink.mode: upsert or update: in insert each record is a document of its own; write deadLetter or ignore",
		},
		{
			"deletes by fields of the value",
			[]string{"TIDEMARK_SINK_TOMBSTONES=delete", "TIDEMARK_SINK_MODE=update", "TIDEMARK_RECORD_ID={fields: [a, b]}"},
			"TIDEMARK_SINK_TOMBSTONES: sink.tombstones: delete cannot find a document by record.id fields:a,b, since a tombstone has no value: write deadLetter or ignore, or take the _id from the key",
		},
		{
			"retention of nothing",
			[]string{"TIDEMARK_SINK_TOMBSTONERETENTION=7d", "TIDEMARK_SINK_MODE=upsert"},
			"TIDEMARK_SINK_TOMBSTONERETENTION: sink.tombstoneRetention: has no effect without sink.tombstones: delete: write that, or leave this out",
		},
		{
			"a field of a text",
			[]string{"TIDEMARK_RECORD_ID={keyField: ref}"},
			"TIDEMARK_CONFIG_INLINE: record.keyFormat: string keys have no fields, of which record.id keyField:ref takes one: write json, extjson or bson",
		},
		{
			"a field of bytes",
			[]string{"TIDEMARK_RECORD_ID={keyField: ref}", "TIDEMARK_RECORD_KEYFORMAT=bytes"},
			"TIDEMARK_RECORD_KEYFORMAT: record.keyFormat: bytes keys have no fields, of which record.id keyField:ref takes one: write json, extjson or bson",
		},
		{
			"fields of a text",
			[]string{"TIDEMARK_RECORD_ID={fields: [a]}", "TIDEMARK_RECORD_FORMAT=string"},
			"TIDEMARK_RECORD_ID: record.id: finds no fields with record.format: string: write coordinates, key or {keyField: name}",
		},
		{
			"a wrap that is never used",
			[]string{"TIDEMARK_RECORD_WRAP=v", "TIDEMARK_RECORD_FORMAT=extjson"},
			"TIDEMARK_RECORD_WRAP: record.wrap: has no effect with record.format: extjson, whose values are always documents: leave it out",
		},
		{
			"dates in bytes",
			[]string{"TIDEMARK_RECORD_DATES=at", "TIDEMARK_RECORD_FORMAT=bytes"},
			"TIDEMARK_RECORD_DATES: record.dates: has no effect with record.format: bytes, whose values have no fields: leave it out",
		},
		{
			"names twice in a text",
			[]string{"TIDEMARK_RECORD_DUPLICATEKEYS=error", "TIDEMARK_RECORD_FORMAT=string"},
			"TIDEMARK_RECORD_DUPLICATEKEYS: record.duplicateKeys: has no effect with record.format: string, whose values have no fields: leave it out",
		},
		{
			"metadata in the guard",
			[]string{"TIDEMARK_RECORD_METADATA=_tidemark"},
			"TIDEMARK_RECORD_METADATA: record.metadata: is the name of sink.guardField: the guard would replace it",
		},
		{
			"metadata in the value, by its default name",
			[]string{"TIDEMARK_RECORD_METADATA=value", "TIDEMARK_RECORD_FORMAT=string"},
			"TIDEMARK_RECORD_METADATA: record.metadata: is the name of record.wrap: it would replace the value",
		},
		{
			"metadata in the _id",
			[]string{"TIDEMARK_RECORD_METADATA=_id"},
			`TIDEMARK_RECORD_METADATA: record.metadata: "_id" is no field name: it must not be empty or _id, begin with $, or hold a dot`,
		},
		{
			"dead letters among the deleted",
			[]string{"TIDEMARK_DEADLETTERS_COLLECTION=orders_deleted", "TIDEMARK_SINK_MODE=upsert", "TIDEMARK_SINK_TOMBSTONES=delete"},
			"TIDEMARK_DEADLETTERS_COLLECTION: deadLetters.collection: is where sink.tombstones: delete keeps what it must know of deleted documents: dead letters need a collection of their own",
		},
		{
			"no room for the name of the deleted",
			[]string{"TIDEMARK_SINK_COLLECTION=" + strings.Repeat("c", 223), "TIDEMARK_SINK_MODE=upsert", "TIDEMARK_SINK_TOMBSTONES=delete"},
			`TIDEMARK_SINK_COLLECTION: sink.collection: "shop.` + strings.Repeat("c", 55) + `"... is a name of 236 bytes, MongoDB takes 235`,
		},
		{
			"no room for a name",
			[]string{"TIDEMARK_SINK_COLLECTION=" + strings.Repeat("c", 231)},
			`TIDEMARK_SINK_COLLECTION: sink.collection: "shop.` + strings.Repeat("c", 55) + `"... is a name of 236 bytes, MongoDB takes 235`,
		},
		{
			"an _id of a name with a dot",
			[]string{"TIDEMARK_RECORD_ID={fields: [a.b]}"},
			`TIDEMARK_RECORD_ID: record.id.fields[0]: "a.b" is no top-level field: it must not be empty, begin with $, or hold a dot`,
		},
		{
			"an unknown _id",
			[]string{"TIDEMARK_RECORD_ID=value"},
			`TIDEMARK_RECORD_ID: record.id: "value" is none of coordinates, key, {keyField: name} or {fields: [name, ...]}`,
		},
		{
			"two sources of an _id",
			[]string{"TIDEMARK_RECORD_ID={fields: [a], keyField: b}", "TIDEMARK_RECORD_KEYFORMAT=json"},
			"TIDEMARK_RECORD_ID: record.id: must be coordinates, key, {keyField: name} or {fields: [name, ...]}",
		},
		{
			"a topic of Firestore's names",
			[]string{"TIDEMARK_SOURCE_SUBSCRIBE=__orders__"},
			`TIDEMARK_SOURCE_SUBSCRIBE: source.subscribe[0]: "__orders__" cannot be read: Firestore, which keeps the checkpoint, has names of the form __x__ for itself`,
		},
		{
			"a folder that a shell would know",
			[]string{"TIDEMARK_CHECKPOINT_STORE=file", "TIDEMARK_CHECKPOINT_PATH=~/tidemark"},
			`TIDEMARK_CHECKPOINT_PATH: checkpoint.path: "~/tidemark" begins with ~, which no shell expands here: write the folder out`,
		},
		{
			"a file that a shell would know",
			[]string{"TIDEMARK_KAFKA_TLS_CAFILE=~/ca.pem", "TIDEMARK_KAFKA_TLS_ENABLED=true"},
			`TIDEMARK_KAFKA_TLS_CAFILE: kafka.tls.caFile: the path "~/ca.pem" begins with ~, which no shell expands here: write the folder out`,
		},
		{"letters swapped in a section's variable", []string{"TIDEMARK_SNIK_URI=x"}, "TIDEMARK_SNIK_URI: no key has this variable; did you mean TIDEMARK_SINK_URI?"},
		{"letters swapped in a variable", []string{"TIDEMARK_PIPEILNE=x"}, "TIDEMARK_PIPEILNE: no key has this variable; did you mean TIDEMARK_PIPELINE?"},
		{
			"OAUTHBEARER",
			[]string{"TIDEMARK_KAFKA_SASL_MECHANISM=OAUTHBEARER", "TIDEMARK_KAFKA_SASL_USERNAME=u", "TIDEMARK_KAFKA_SASL_PASSWORD=p", "TIDEMARK_KAFKA_TLS_ENABLED=true"},
			`TIDEMARK_KAFKA_SASL_MECHANISM: kafka.sasl.mechanism: "OAUTHBEARER" is not supported by this version: use PLAIN or SCRAM; Google's managed Kafka takes PLAIN too, with a service account's address as the username and its key in base64 as the password`,
		},
		{
			"SASL without a word on TLS",
			[]string{"TIDEMARK_KAFKA_SASL_MECHANISM=PLAIN", "TIDEMARK_KAFKA_SASL_USERNAME=u", "TIDEMARK_KAFKA_SASL_PASSWORD=p"},
			"TIDEMARK_CONFIG_INLINE:2: kafka.tls.enabled: missing; write true, or false if the password of kafka.sasl may cross the network in clear",
		},
		{
			"TLS settings without TLS",
			[]string{"TIDEMARK_KAFKA_TLS_SERVERNAME=broker"},
			"TIDEMARK_KAFKA_TLS_SERVERNAME: kafka.tls.serverName: has no effect while kafka.tls.enabled is false: set that to true, or leave this out",
		},
		{"lease too short", []string{"TIDEMARK_CHECKPOINT_LEASE=1s"}, `TIDEMARK_CHECKPOINT_LEASE: checkpoint.lease: "1s" is not between 2s and 1h`},
		{
			"number that may be octal",
			[]string{"TIDEMARK_RUN_LANES=010"},
			`TIDEMARK_RUN_LANES: run.lanes: "010" begins with 0, so that it may be meant as octal: write 10 or 8`,
		},
		{"number with a zero before it", []string{"TIDEMARK_RUN_LANES=08"}, `TIDEMARK_RUN_LANES: run.lanes: "08" begins with 0: write 8`},
		{
			"hidden number with a zero before it",
			[]string{"TIDEMARK_RUN_LANES=env://N", "N=010"},
			"TIDEMARK_RUN_LANES: run.lanes: the content of the reference begins with 0: write the number without it",
		},
		{
			"size that may be octal",
			[]string{"TIDEMARK_RUN_LIMITS_BYTES=010"},
			`TIDEMARK_RUN_LIMITS_BYTES: run.limits.bytes: "010" begins with 0, so that it may be meant as octal: write 10 or 8`,
		},
		{
			"partition that may be octal",
			[]string{`TIDEMARK_SOURCE_STARTINGOFFSETS={"orders": {"010": 1}}`},
			"TIDEMARK_SOURCE_STARTINGOFFSETS: source.startingOffsets.orders.010: is no partition number",
		},
		{
			"database without replication",
			[]string{"TIDEMARK_SINK_DATABASE=local"},
			`TIDEMARK_SINK_DATABASE: sink.database: "local" cannot be written to: it is the server's own, and MongoDB does not replicate it`,
		},
		{
			"the server's database of users",
			[]string{"TIDEMARK_SINK_DATABASE=Admin"},
			`TIDEMARK_SINK_DATABASE: sink.database: "Admin" cannot be written to: it is the server's own, for its users and its settings`,
		},
		{
			"the server's database of settings",
			[]string{"TIDEMARK_SINK_DATABASE=config"},
			`TIDEMARK_SINK_DATABASE: sink.database: "config" cannot be written to: it is the server's own, for its users and its settings`,
		},
		{"list without an end", []string{`TIDEMARK_RECORD_DATES=["a", "b"`}, "TIDEMARK_RECORD_DATES: record.dates: begins with [ and is no list such as [a, b]"},
		{"empty list where one is needed", []string{"TIDEMARK_SOURCE_SUBSCRIBE=[]"}, "TIDEMARK_SOURCE_SUBSCRIBE: source.subscribe: must have at least 1 element"},
		{"wrong element of a list in a variable", []string{`TIDEMARK_RECORD_DATES=["a", "b..c"]`}, `TIDEMARK_RECORD_DATES: record.dates[1]: "b..c" is no path of field names with dots between them`},
		{"ratio of nothing", []string{"TIDEMARK_DEADLETTERS_MAXRATIO=NaN"}, `TIDEMARK_DEADLETTERS_MAXRATIO: deadLetters.maxRatio: "NaN" is no number above 0 and at most 1`},
		{
			"size beyond int64",
			[]string{"TIDEMARK_RUN_LIMITS_BYTES=9000000TiB"},
			`TIDEMARK_RUN_LIMITS_BYTES: run.limits.bytes: "9000000TiB" is no size: write bytes or KiB, MiB, GiB, TiB, such as 128MiB`,
		},
		{
			"duration beyond int64",
			[]string{"TIDEMARK_SINK_TOMBSTONERETENTION=999999999d", "TIDEMARK_SINK_MODE=upsert", "TIDEMARK_SINK_TOMBSTONES=delete"},
			`TIDEMARK_SINK_TOMBSTONERETENTION: sink.tombstoneRetention: "999999999d" is no duration such as 500ms, 90s, 9m, 1h30m, 30d`,
		},
		{
			"empty override of a needed key",
			[]string{"TIDEMARK_SINK_DATABASE="},
			`TIDEMARK_SINK_DATABASE: sink.database: "" is no database name: MongoDB takes 1 to 63 bytes without / \ . " $ * < > : | ? and blanks`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := problems(t, inline(minimal, test.vars...))
			if diff := cmp.Diff("reading the configuration: 1 problem:\n"+test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad_RulesOverAPattern(t *testing.T) {
	t.Parallel()
	const pattern = "TIDEMARK_SOURCE_SUBSCRIBEPATTERN"
	text := strings.Replace(minimal, "  subscribe: [orders]", "  isolationLevel: read_committed", 1)
	for _, test := range []struct {
		name string
		vars []string
		want string
	}{
		{"none of three", nil, "TIDEMARK_CONFIG_INLINE:4: source: needs source.subscribe, source.subscribePattern or source.assign"},
		{"broken", []string{pattern + "=orders-("}, pattern + `: source.subscribePattern: "orders-(" is no regular expression of RE2, which has no look-arounds, back references or possessive quantifiers as Java's: missing closing )`},
		{"Java's", []string{pattern + "=(?!test-).*"}, pattern + `: source.subscribePattern: "(?!test-).*" is no regular expression of RE2, which has no look-arounds, back references or possessive quantifiers as Java's: invalid or unsupported Perl syntax`},
		{"out of a reference", []string{pattern + "=env://P", "P=(hunter2"}, pattern + ": source.subscribePattern: the content of the reference is no regular expression of RE2, which has no look-arounds, back references or possessive quantifiers as Java's: missing closing )"},
		{"empty", []string{pattern + "="}, pattern + `: source.subscribePattern: "" is empty`},
		{
			"starting offsets of partitions",
			[]string{pattern + "=orders.*", "TIDEMARK_SOURCE_STARTINGOFFSETS={orders: {0: 1}}"},
			"TIDEMARK_SOURCE_STARTINGOFFSETS: source.startingOffsets: cannot name partitions beside source.subscribePattern, whose topics are known at run time only: write earliest, latest, none or a timestamp",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff("reading the configuration: 1 problem:\n"+test.want, problems(t, inline(text, test.vars...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := load(t, inline(text, pattern+"=orders-[a-z]+")).Source; got.Pattern != "orders-[a-z]+" || got.Subscribe != nil {
		t.Errorf("Source = %+v", got)
	}
}

func TestLoad_SuggestsWhatWasMeant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"sikn: {uri: x}", "sikn: unknown key; did you mean sink?"},
		{"source: {subscrieb: [a]}", "source.subscrieb: unknown key; did you mean source.subscribe?"},
		{"kafka: {tsl: {enabled: true}}", "kafka.tsl: unknown key; did you mean kafka.tls?"},
		{"run: {limits: {recrods: 1}}", "run.limits.recrods: unknown key; did you mean run.limits.records?"},
		{"run: {layuot: 2}", "run.layuot: unknown key; did you mean run.layout?"},
		{"run: {zzzzzz: 2}", "run.zzzzzz: unknown key\n"},
	} {
		if got := problems(t, inline(test.text)) + "\n"; !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.text, got)
		}
	}
	if got := problems(t, world{vars: map[string]string{"TIDEMARK_CONFIG_INLNIE": minimal}}); !strings.Contains(got, "; TIDEMARK_CONFIG_INLNIE is set: did you mean TIDEMARK_CONFIG_INLINE?") {
		t.Error(got)
	}
}

func TestLoad_WhatIsJustInsideIsAccepted(t *testing.T) {
	t.Parallel()
	for _, vars := range [][]string{
		{"CLOUD_RUN_TIMEOUT_SECONDS=241"},
		{"TIDEMARK_RUN_SCHEDULE=*/4 * * * *"},
		{"TIDEMARK_RUN_SCHEDULE=0 9 1 1 *", "TIDEMARK_RUN_DEADLINE=1h"},
		{"TIDEMARK_CHECKPOINT_STORE=file", "TIDEMARK_CHECKPOINT_LEASE=2s"},
		{"TIDEMARK_CHECKPOINT_LEASE=20s", "TIDEMARK_CHECKPOINT_HEARTBEAT=10s"},
		{"TIDEMARK_SINK_COLLECTION=" + strings.Repeat("c", 222), "TIDEMARK_SINK_MODE=upsert", "TIDEMARK_SINK_TOMBSTONES=delete"},
		{"TIDEMARK_FIRESTORE_JAR=/a.jar", "TIDEMARK_SERVE_PORT=1"},
	} {
		load(t, inline(minimal, vars...))
	}
}

// Everything that the form allows and this version does not do is refused by name.
func TestLoad_UnsupportedIsRefusedWithTheNextStep(t *testing.T) {
	t.Parallel()
	for variable, value := range map[string]string{"KAFKA_SASL_MECHANISM": "OAUTHBEARER", "CHECKPOINT_MIRRORGROUP": "tidemark-orders"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			got := problems(t, inline(minimal, "TIDEMARK_"+variable+"="+value))
			if !strings.Contains(got, "TIDEMARK_"+variable+": ") || !strings.Contains(got, "not supported by this version: ") {
				t.Errorf("Load = %s", got)
			}
		})
	}
}

func TestLoad_TextThatIsNoPipeline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"empty", "# nothing\n", "TIDEMARK_CONFIG_INLINE: pipeline: missing"},
		{"a list", "- a\n", "TIDEMARK_CONFIG_INLINE:1: must be a mapping, but is a list"},
		{"two documents", minimal + "---\npipeline: b\n", "must end after one document"},
		{"broken", "pipeline: a\nsink: {uri: [\n", "TIDEMARK_CONFIG_INLINE:"},
		{"an alias", "kafka: &k {}\nsink: *k\n", "TIDEMARK_CONFIG_INLINE:2: sink: must be a mapping, but is an alias"},
		{"a merge", "sink:\n  <<: {uri: x}\n", "TIDEMARK_CONFIG_INLINE:2: sink: unknown key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := problems(t, inline(test.text)); !strings.Contains(got, test.want) {
				t.Errorf("Load = %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestLoad_WhereTheConfigurationIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		vars map[string]string
		want string
	}{
		{"nowhere", nil, "no configuration: set TIDEMARK_CONFIG"},
		{"twice", map[string]string{"TIDEMARK_CONFIG": "a", "TIDEMARK_CONFIG_INLINE": "b"}, "both set"},
		{"no such file", map[string]string{"TIDEMARK_CONFIG": "/a.yaml"}, `TIDEMARK_CONFIG: reading the file "/a.yaml": file does not exist`},
		{"text for a path", map[string]string{"TIDEMARK_CONFIG": minimal}, "TIDEMARK_CONFIG holds a text, not a path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := problems(t, world{vars: test.vars}); !strings.Contains(got, test.want) || strings.Contains(got, "mongodb") {
				t.Errorf("Load = %s\nwant %s", got, test.want)
			}
		})
	}
}
