package localcheckpoint_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/record"
)

// The golden documents are what each schema's program stored. They are written once, and never again: a change that makes
// this test fail is a new schema.
func TestGolden_EachSchema_LoadsAndBecomesTheNewest(t *testing.T) {
	t.Parallel()
	older := golden()
	older.Draining = record.Draining{}
	for schema, want := range map[int]record.Checkpoint{1: older, 2: golden()} {
		stored := goldenText(t, fmt.Sprintf("schema%d.json", schema))
		doc, err := localcheckpoint.Decode("golden", stored)
		must(t, err)
		if diff := cmp.Diff(want, doc, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("schema %d decoded (-want +got):\n%s", schema, diff)
		}
		again, err := localcheckpoint.Encode(doc, []byte(`{"run": "20260314T150900Z-1-9f2c"}`))
		must(t, err)
		text := strings.Replace(string(stored), `"schema": 1,`, `"schema": 2,`, 1)
		if schema < 2 {
			text = strings.Replace(text, `  "run": {`, `  "draining": {`+noMark+`},`+"\n"+`  "run": {`, 1)
		}
		if diff := cmp.Diff(text, string(again)); diff != "" {
			t.Errorf("schema %d encoded again (-stored +encoded):\n%s", schema, diff)
		}
	}
}

const noMark = "\n    \"by\": \"\",\n    \"lanes\": 0,\n    \"layout\": 0\n  "

func TestGolden_EachSchemaOfThePipeline_LoadsAndBecomesTheNewest(t *testing.T) {
	t.Parallel()
	want := record.Pipeline{
		Layout: 4, Identity: golden().Identity, CreatedAt: golden().Lease.ExpiresAt, UpdatedBy: golden().UpdatedBy,
		Lanes: make([]record.Checkpoint, 2), Draining: golden().Draining, Audits: 9007199254740993,
	}
	older := want
	older.Draining, older.Audits = record.Draining{}, 0
	newest := string(goldenText(t, "pipeline2.json"))
	for schema, want := range map[int]record.Pipeline{1: older, 2: want} {
		doc, err := localcheckpoint.DecodePipeline("golden", goldenText(t, fmt.Sprintf("pipeline%d.json", schema)))
		must(t, err)
		if diff := cmp.Diff(want, *doc); diff != "" {
			t.Errorf("schema %d decoded (-want +got):\n%s", schema, diff)
		}
		doc.Draining, doc.Audits = golden().Draining, 9007199254740993
		again, err := localcheckpoint.EncodePipeline(*doc)
		must(t, err)
		if diff := cmp.Diff(newest, string(again)); diff != "" {
			t.Errorf("schema %d encoded again (-newest +encoded):\n%s", schema, diff)
		}
	}
}

// The newest schema has a golden document, so that the next one cannot forget to keep it.
func TestGolden_OfEverySchema(t *testing.T) {
	t.Parallel()
	for schema := 1; schema <= record.Schema; schema++ {
		goldenText(t, fmt.Sprintf("schema%d.json", schema))
		goldenText(t, fmt.Sprintf("pipeline%d.json", schema))
	}
}

func TestDecode_NewerSchema_NamesBothAndWhatToDo(t *testing.T) {
	t.Parallel()
	text := bytes.Replace(goldenText(t, "schema2.json"), []byte(`"schema": 2,`), fmt.Appendf(nil, `"schema": %d, "news": true,`, record.Schema+5), 1)
	_, err := localcheckpoint.Decode("/data/orders/lanes/1.json", text)
	wantFault(t, err, fault.Fatal, "newer-schema")
	for _, part := range []string{"/data/orders/lanes/1.json", fmt.Sprint(record.Schema + 5), fmt.Sprintf("up to %d", record.Schema), "deploy the newer version"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func goldenText(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", name))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func golden() record.Checkpoint {
	at := time.Date(2026, 3, 14, 15, 9, 26, 535_897_000, time.UTC)
	orders, payments := record.Partition{Topic: "orders", ID: 3}, record.Partition{Topic: "payments.eu", ID: 0}
	return record.Checkpoint{
		Schema: 2, Lane: 1, Lanes: 2, Layout: 4, Paused: true, Seq: 9007199254740993,
		Draining: record.Draining{By: "20260314T151000Z-0-0a1b", Lanes: 3, Layout: 5, Since: at, Until: at.Add(30 * time.Minute)},
		Lease:    record.Lease{Holder: "20260314T150900Z-1-9f2c", Epoch: 7, ExpiresAt: at},
		Identity: map[string]string{"cluster": "MkU3OEVBNTcwNTJENDM2Qk", "namespace": "shop.orders"},
		Topics:   map[string]record.Topic{"orders": {ID: "dGhpcyBpcyBhbiBpZA", Incarnation: 1, Rewrite: 2}, "payments.eu": {}},
		Offsets: map[record.Partition]record.Position{
			orders:   {Offset: 9007199254740993, LeaderEpoch: 4, LogStart: 1000, LogEnd: 9007199254740995, SeenAt: at, MovedAt: at.Add(-time.Second)},
			payments: {LeaderEpoch: -1, LogStart: record.Unknown, LogEnd: record.Unknown},
		},
		Missing:    map[record.Partition]record.Missing{payments: {Runs: 2, Since: at}},
		Rejects:    []record.RejectCount{{Records: 100, Rejected: 1}, {Records: 50}},
		Gaps:       []record.Gap{{Range: record.Range{Partition: orders, From: 10, To: 1000}, Incarnation: 1, Reason: "offset-before-log-start", SeenAt: at}},
		GapRecords: 990, StartingOffsets: "earliest", LastRun: "20260314T150900Z-1-9f2c", UpdatedBy: "20260314T150900Z-1-9f2c",
	}
}

func TestDecode_BrokenFile_NamesFileAndField(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, old, with, says string }{
		{"mistyped name", `"paused": true`, `"pasued": true`, `unknown field "pasued"`},
		{"other case", `"paused": true`, `"Paused": true`, "paused is missing"},
		{"text for a number", `"layout": 4`, `"layout": "4"`, "line 5"},
		{"comma forgotten", `"layout": 4,`, `"layout": 4`, "line 6"},
		{"offset null", `"offset": 9007199254740993`, `"offset": null`, "offsets.orders/3.offset is null"},
		{"offset deleted", `"offset": 9007199254740993,`, ``, "offsets.orders/3.offset is missing"},
		{"offset with a fraction", `"offset": 9007199254740993`, `"offset": 1.5`, "line"},
		{"identity null", `"identity": {`, `"identity": null, "topics": {}, "x": {`, `unknown field "x"`},
		{"no time", `"expiresAt": "2026-03-14T15:09:26.535897Z"`, `"expiresAt": "yesterday"`, "yesterday"},
		{"key without partition", `"payments.eu/0": {` + "\n" + `      "offset"`, `"payments.eu": {` + "\n" + `      "offset"`, `"payments.eu" is not topic/partition`},
		{"second spelling", `"payments.eu/0": {` + "\n" + `      "offset"`, `"payments.eu/00": {` + "\n" + `      "offset"`, "partition number"},
		{"negative offset", `"offset": 9007199254740993`, `"offset": -5`, "offsets.orders/3.offset is -5"},
		{"no lanes", `"lanes": 2`, `"lanes": 0`, "lanes is 0"},
		{"gap backwards", `"from": 10,`, `"from": 1001,`, "gaps[0].from is 1001, beyond its to, which is 1000"},
		{"schema deleted", `"schema": 2,`, ``, "schema 0 never existed"},
		{"half a mark", `"layout": 5,`, ``, "draining.layout is missing"},
		{"a mark in schema 1", `"schema": 2,`, `"schema": 1,`, "draining is not of schema 1"},
		{"half a file", `"identity": {`, "\x00", "line 13"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := goldenText(t, "schema2.json")
			if !bytes.Contains(text, []byte(c.old)) {
				t.Fatalf("the golden document does not contain %q", c.old)
			}
			text = bytes.Replace(text, []byte(c.old), []byte(c.with), 1)
			_, err := localcheckpoint.Decode("/data/orders/lanes/1.json", text)
			wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
			for _, part := range []string{"/data/orders/lanes/1.json", c.says} {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
	for _, text := range []string{"", "null", "[]", "1", "{}", string(goldenText(t, "schema2.json")) + "{}"} {
		_, err := localcheckpoint.Decode("1.json", []byte(text))
		wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(goldenText(f, "schema1.json"))
	f.Add(goldenText(f, "schema2.json"))
	f.Add([]byte(`{"schema":1,"offsets":{"/":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := localcheckpoint.Decode("fuzz", text)
		if err != nil {
			if fault.KindOf(err) != fault.Fatal {
				t.Errorf("%v is %s, want fatal", err, fault.KindOf(err))
			}
			return
		}
		encoded, err := localcheckpoint.Encode(doc, nil)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		again, err := localcheckpoint.Decode("fuzz", encoded)
		if err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if diff := cmp.Diff(doc, again); diff != "" {
			t.Errorf("(-decoded +decoded again):\n%s", diff)
		}
	})
}

func wantFault(t *testing.T, err error, kind fault.Kind, class string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || fault.ClassOf(err) != class {
		t.Errorf("error %v is %s %q, want %s %q", err, fault.KindOf(err), fault.ClassOf(err), kind, class)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
}
