package firecheckpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/record"
)

// The golden documents are what each schema's program stored, in the form of Firestore's REST interface. They are written
// once, and never again: a change that makes this test fail is a new schema.
func TestGolden_EachSchema_LoadsAndBecomesTheNewest(t *testing.T) {
	t.Parallel()
	for schema, want := range map[int]record.Checkpoint{1: withoutMark(golden()), 2: golden()} {
		stored := goldenFields(t, fmt.Sprintf("schema%d.json", schema))
		doc, err := firecheckpoint.Decode("golden", stored)
		must(t, err)
		if diff := cmp.Diff(want, doc, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("schema %d decoded (-want +got):\n%s", schema, diff)
		}
		if schema < 2 {
			stored["schema"], stored["draining"] = int64(2), noMark()
		}
		if diff := cmp.Diff(stored, firecheckpoint.Encode(doc)); diff != "" {
			t.Errorf("schema %d encoded again (-stored +encoded):\n%s", schema, diff)
		}
	}
}

func TestGolden_EachSchemaOfThePipeline_LoadsAndBecomesTheNewest(t *testing.T) {
	t.Parallel()
	want := record.Pipeline{
		Layout: 4, Identity: golden().Identity, CreatedAt: golden().Lease.ExpiresAt, UpdatedBy: golden().UpdatedBy,
		Lanes: make([]record.Checkpoint, 2), Draining: golden().Draining, Audits: 9007199254740993,
	}
	older := want
	older.Draining, older.Audits = record.Draining{}, 0
	for schema, want := range map[int]record.Pipeline{1: older, 2: want} {
		stored := goldenFields(t, fmt.Sprintf("pipeline%d.json", schema))
		doc, err := firecheckpoint.DecodePipeline("golden", stored)
		must(t, err)
		if diff := cmp.Diff(want, *doc); diff != "" {
			t.Errorf("schema %d decoded (-want +got):\n%s", schema, diff)
		}
		delete(stored, "createdAt") // which no write touches
		if schema < 2 {
			stored["schema"], stored["draining"], stored["audits"] = int64(2), noMark(), int64(0)
		}
		if diff := cmp.Diff(stored, firecheckpoint.EncodePipeline(*doc)); diff != "" {
			t.Errorf("schema %d encoded again (-stored +encoded):\n%s", schema, diff)
		}
	}
}

// The newest schema has a golden document, so that the next one cannot forget to keep it.
func TestGolden_OfEverySchema(t *testing.T) {
	t.Parallel()
	for schema := 1; schema <= record.Schema; schema++ {
		goldenFields(t, fmt.Sprintf("schema%d.json", schema))
		goldenFields(t, fmt.Sprintf("pipeline%d.json", schema))
	}
}

func TestDecode_NewerSchema_NamesBothAndWhatToDo(t *testing.T) {
	t.Parallel()
	fields := firecheckpoint.Encode(golden())
	fields["schema"] = int64(record.Schema + 5)
	_, err := firecheckpoint.Decode("tidemark/orders/lanes/1", fields)
	wantFault(t, err, fault.Fatal, "newer-schema")
	for _, part := range []string{"tidemark/orders/lanes/1", fmt.Sprint(record.Schema + 5), fmt.Sprintf("up to %d", record.Schema), "deploy the newer version"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func withoutMark(doc record.Checkpoint) record.Checkpoint {
	doc.Draining = record.Draining{}
	return doc
}

func noMark() map[string]any {
	return map[string]any{"by": "", "lanes": int64(0), "layout": int64(0), "since": nil, "until": nil}
}

func goldenFields(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", name))
	must(t, err)
	return fieldsOf(t, text)
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

func TestDecode_BrokenDocument_NamesDocumentAndField(t *testing.T) {
	t.Parallel()
	inner := func(fields map[string]any, path ...string) map[string]any {
		for _, name := range path {
			fields, _ = fields[name].(map[string]any)
		}
		return fields
	}
	cases := []struct {
		name  string
		spoil func(map[string]any)
		says  string
	}{
		{"text for a number", func(m map[string]any) { m["seq"] = "41" }, "seq is no integer"},
		{"double for an offset", func(m map[string]any) { inner(m, "offsets", "orders/3")["offset"] = 1200.0 }, `offsets["orders/3"]["offset"] is no integer`},
		{"offset deleted", func(m map[string]any) { delete(inner(m, "offsets", "orders/3"), "offset") }, `offsets["orders/3"]["offset"] is missing`},
		{"offsets deleted", func(m map[string]any) { delete(m, "offsets") }, "offsets is missing"},
		{"offsets null", func(m map[string]any) { m["offsets"] = nil }, "offsets is no map"},
		{"paused null", func(m map[string]any) { m["paused"] = nil }, "paused is no boolean"},
		{"time as text", func(m map[string]any) { inner(m, "lease")["expiresAt"] = "2026-03-14T15:09:26Z" }, `lease["expiresAt"] is no timestamp`},
		{"unknown field below", func(m map[string]any) { inner(m, "lease")["expires"] = nil }, `lease["expires"] is not known`},
		{"key without partition", func(m map[string]any) { m["offsets"].(map[string]any)["orders"] = map[string]any{} }, `"orders" is not topic/partition`},
		{"second spelling", func(m map[string]any) { m["missing"].(map[string]any)["orders/03"] = map[string]any{} }, `"orders/03" is not topic/partition`},
		{"partition too large", func(m map[string]any) { m["offsets"].(map[string]any)["orders/2147483648"] = map[string]any{} }, "is not topic/partition"},
		{"epoch too large", func(m map[string]any) { inner(m, "offsets", "orders/3")["leaderEpoch"] = int64(1) << 31 }, "too large"},
		{"list of numbers", func(m map[string]any) { m["gaps"] = []any{int64(1)} }, "gaps[0] is no map"},
		{"negative offset", func(m map[string]any) { inner(m, "offsets", "orders/3")["offset"] = int64(-5) }, "offsets.orders/3.offset is -5"},
		{"no lanes", func(m map[string]any) { m["lanes"] = int64(0) }, "lanes is 0"},
		{"gap backwards", func(m map[string]any) { m["gaps"].([]any)[0].(map[string]any)["from"] = int64(1001) }, "gaps[0].from is 1001, beyond its to, which is 1000"},
		{"half a mark", func(m map[string]any) { delete(inner(m, "draining"), "layout") }, `draining["layout"] is missing`},
		{"schema deleted", func(m map[string]any) { delete(m, "schema") }, "schema is missing"},
		{"schema 0", func(m map[string]any) { m["schema"] = int64(0) }, "schema 0 never existed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fields := firecheckpoint.Encode(golden())
			c.spoil(fields)
			_, err := firecheckpoint.Decode("tidemark/orders/lanes/1", fields)
			wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
			for _, part := range []string{"tidemark/orders/lanes/1", c.says} {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestDecode_UnknownFieldAtTheTop_IsLeftAlone(t *testing.T) {
	t.Parallel()
	fields := firecheckpoint.Encode(golden())
	fields["note"] = "paused for the stocktaking"
	doc, err := firecheckpoint.Decode("golden", fields)
	must(t, err)
	if diff := cmp.Diff(golden(), doc); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"schema1.json", "schema2.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", "golden", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"fields":{"schema":{"integerValue":"1"},"offsets":{"mapValue":{"fields":{"/":{"nullValue":null}}}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		document := new(firestorepb.Document)
		if protojson.Unmarshal(text, document) != nil {
			return
		}
		doc, err := firecheckpoint.Decode("fuzz", fromProto(document.GetFields()))
		if err != nil {
			if fault.KindOf(err) != fault.Fatal {
				t.Errorf("%v is %s, want fatal", err, fault.KindOf(err))
			}
			return
		}
		again, err := firecheckpoint.Decode("fuzz", firecheckpoint.Encode(doc))
		if err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if diff := cmp.Diff(doc, again); diff != "" {
			t.Errorf("(-decoded +decoded again):\n%s", diff)
		}
	})
}

func fieldsOf(t *testing.T, text []byte) map[string]any {
	t.Helper()
	document := new(firestorepb.Document)
	must(t, protojson.Unmarshal(text, document))
	return fromProto(document.GetFields())
}

// fromProto gives the Go values that the client gives for a document.
func fromProto(fields map[string]*firestorepb.Value) map[string]any {
	to := make(map[string]any, len(fields))
	for name, value := range fields {
		to[name] = valueFromProto(value)
	}
	return to
}

func valueFromProto(value *firestorepb.Value) any {
	switch v := value.GetValueType().(type) {
	case *firestorepb.Value_BooleanValue:
		return v.BooleanValue
	case *firestorepb.Value_IntegerValue:
		return v.IntegerValue
	case *firestorepb.Value_DoubleValue:
		return v.DoubleValue
	case *firestorepb.Value_StringValue:
		return v.StringValue
	case *firestorepb.Value_BytesValue:
		return v.BytesValue
	case *firestorepb.Value_TimestampValue:
		return v.TimestampValue.AsTime()
	case *firestorepb.Value_MapValue:
		return fromProto(v.MapValue.GetFields())
	case *firestorepb.Value_ArrayValue:
		to := make([]any, 0, len(v.ArrayValue.GetValues()))
		for _, element := range v.ArrayValue.GetValues() {
			to = append(to, valueFromProto(element))
		}
		return to
	default:
		return nil
	}
}
