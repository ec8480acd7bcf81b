package mapping

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// keyed makes a record; "-" is null.
func keyed(key, value string) record.Record {
	rec := recordOf(value)
	rec.Key = []byte(key)
	if key == "-" {
		rec.Key = nil
	}
	if value == "-" {
		rec.Value = nil
	}
	return rec
}

// conversion has the document without the guard that a record becomes, or the class that refuses it.
type conversion struct {
	key, value string
	want       bson.D
	class      string
}

func runConversions(t *testing.T, o Options, cases []conversion) {
	t.Helper()
	m := mustNew(t, o)
	for _, c := range cases {
		t.Run(c.key+" "+c.value, func(t *testing.T) {
			t.Parallel()
			w, err := m.Convert(&record.Arena{}, keyed(c.key, c.value), origin)
			if c.class != "" {
				checkPoison(t, err, c.class)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := append(bson.D{}, c.want...)
			want = append(want, bson.E{Key: DefaultGuardField, Value: stored})
			if !bytes.Equal(w.Document, encode(t, want)) {
				t.Errorf("got  %s\nwant %s", show(w.Document), show(encode(t, want)))
			}
			if !w.OwnID || w.Op != record.Put {
				t.Errorf("own id %v, op %v", w.OwnID, w.Op)
			}
		})
	}
}

func TestConvert_KeyFormats_GiveTheID(t *testing.T) {
	t.Parallel()
	a := bson.E{Key: "a", Value: int32(1)}
	id := func(v any) bson.D { return bson.D{{Key: "_id", Value: v}, a} }
	const value = `{"a":1}`
	runConversions(t, Options{Mode: record.Upsert}, []conversion{
		{"c7", value, id("c7"), ""},
		{"", value, id(""), ""},
		{`{"a":1}`, value, id(`{"a":1}`), ""},
		{"\xff", value, nil, "bad-key"},
		{"-", value, nil, "no-key"},
		{"c7", `{"_id":"c7","a":1}`, id("c7"), ""},
		{"c7", `{"a":1,"_id":"c7"}`, id("c7"), ""},
		{"c7", `{"_id":1,"a":1,"_id":"c7"}`, id("c7"), ""},
		{"c7", `{"_id":"c8","a":1}`, nil, "id-conflict"},
		{"c7", `{"_tidemark":{"forged":1},"a":1}`, id("c7"), ""},
		{"c7", `{}`, id("c7")[:1], ""},
		{"c7", `null`, nil, "not-a-document"},
	})
	runConversions(t, Options{Mode: record.Upsert, KeyFormat: JSON}, []conversion{
		{`42`, value, id(int32(42)), ""},
		{"\ufeff \"42\" ", value, id("42"), ""},
		{`true`, value, id(true), ""},
		{`1.0`, value, id(1.0), ""},
		{`9007199254740993`, value, id(int64(9007199254740993)), ""},
		{`{"b":1,"a":{"$c":1}}`, value, nil, "bad-id"},
		{`{"b":1,"a":2,"b":3}`, value, id(bson.D{{Key: "b", Value: int32(3)}, {Key: "a", Value: int32(2)}}), ""},
		{`[1]`, value, nil, "bad-id"},
		{`null`, value, nil, "no-key"},
		{``, value, nil, "bad-key"},
		{`1 2`, value, nil, "bad-key"},
		{`order-17`, value, nil, "bad-key"},
		{`{"a\u0000":1}`, value, nil, "bad-key"},
		{`{"$oid":"64f0a1b2c3d4e5f601234567"}`, value, nil, "bad-id"},
		{strings.Repeat("[", 200), value, nil, "bad-key"},
		{`1`, `{"_id":1.0,"a":1}`, nil, "id-conflict"},
		{`1`, `{"_id":1,"a":1}`, id(int32(1)), ""},
	})
	runConversions(t, Options{Mode: record.Upsert, KeyFormat: ExtJSON}, []conversion{
		{`{"$numberLong":"1"}`, value, id(int64(1)), ""},
		{`{"$oid":"z"}`, value, nil, "bad-key"},
		{`{"a":{"$numberLong":"1"}}`, value, id(bson.D{{Key: "a", Value: int64(1)}}), ""},
		{`{"$regularExpression":{"pattern":"","options":""}}`, value, nil, "bad-id"},
		{`{"$undefined":true}`, value, nil, "bad-id"},
	})
	runConversions(t, Options{Mode: record.Upsert, KeyFormat: Bytes}, []conversion{
		{"\xff\x00", value, id(bson.Binary{Data: []byte("\xff\x00")}), ""}, {"", value, id(bson.Binary{Data: []byte{}}), ""},
	})
	repeated := rawDoc("\x0aa\x00", "\x10a\x00\x01\x00\x00\x00", "\x0ab\x00")
	runConversions(t, Options{Mode: record.Upsert, KeyFormat: BSON}, []conversion{
		{repeated, value, id(bson.D{{Key: "a", Value: int32(1)}, {Key: "b", Value: nil}}), ""},
		{rawDoc("\x0a$\x00"), value, nil, "bad-id"},
		{"x", value, nil, "bad-key"},
		{rawDoc() + "x", value, nil, "bad-key"},
	})
	runConversions(t, Options{ID: ID{From: FromKey}}, []conversion{
		{"c7", `{"a":1}`, id("c7"), ""},
		{"c7", `{"$a":1,"":2}`, bson.D{{Key: "_id", Value: "c7"}, {Key: "$a", Value: int32(1)}, {Key: "", Value: int32(2)}}, ""},
		{"c7", `{"_id":7}`, nil, "id-conflict"},
		{"-", `{}`, nil, "no-key"},
		{"c7", "-", nil, "null-value"},
	})
}

func TestConvert_IDFromFields(t *testing.T) {
	t.Parallel()
	v := bson.E{Key: "v", Value: int32(1)}
	runConversions(t, Options{Mode: record.Upsert, KeyFormat: JSON, ID: ID{From: FromKeyField, Field: "ref.no"}}, []conversion{
		{`{"x":1,"ref":{"no":61,"y":1}}`, `{"v":1}`, bson.D{{Key: "_id", Value: int32(61)}, v}, ""},
		{`{"ref":{"no":{"$a":1}}}`, `{"v":1}`, nil, "bad-id"},
		{`{"ref":{"no":[]}}`, `{"v":1}`, nil, "bad-id"},
		{`{"ref":{"no":null}}`, `{"v":1}`, nil, "no-key"},
		{`{"ref":{}}`, `{"v":1}`, nil, "no-key"},
		{`{"ref":[{"no":1}]}`, `{"v":1}`, nil, "no-key"},
		{`61`, `{"v":1}`, nil, "bad-key"},
		{`null`, `{"v":1}`, nil, "bad-key"},
		{`{`, `{"v":1}`, nil, "bad-key"},
		{"-", `{"v":1}`, nil, "no-key"},
	})
	date := bson.E{Key: "at", Value: bson.DateTime(5)}
	runConversions(t, Options{Mode: record.Upsert, Dates: []string{"at"}, ID: ID{From: FromFields, Fields: []string{"at"}}}, []conversion{
		{"-", `{"v":1,"at":5}`, bson.D{{Key: "_id", Value: date.Value}, v, date}, ""},
		{"-", `{"at":5,"_id":5}`, nil, "id-conflict"},
		{"-", `{"at":null}`, nil, "no-key"},
		{"-", `{"v":1}`, nil, "no-key"},
		{"-", `{}`, nil, "no-key"},
		{"-", `{"at":[5]}`, nil, "bad-id"},
		{"-", "-", nil, "null-value"},
		{"-", `{"at":4,"v":1,"at":5}`, bson.D{{Key: "_id", Value: date.Value}, date, v}, ""},
	})
	order := bson.E{Key: "order", Value: bson.D{{Key: "id", Value: "o"}}}
	runConversions(t, Options{Mode: record.Update, ID: ID{From: FromFields, Fields: []string{"v", "order.id"}}}, []conversion{
		{"-", `{"order":{"id":"o"},"v":1}`, bson.D{{Key: "_id", Value: bson.D{v, {Key: "id", Value: "o"}}}, order, v}, ""},
		{"-", `{"order":{"id":"o"},"_id":{"v":1,"id":"o"},"v":1}`, bson.D{{Key: "_id", Value: bson.D{v, {Key: "id", Value: "o"}}}, order, v}, ""},
		{"-", `{"order":{"id":"o"},"_id":{"id":"o","v":1},"v":1}`, nil, "id-conflict"},
		{"-", `{"order":{"id":{"$":1}},"v":1}`, nil, "bad-id"},
		{"-", `{"order":[{"id":1}],"v":1}`, nil, "no-key"},
		{"-", `{"order":{"id":null},"v":1}`, nil, "no-key"},
	})
	runConversions(t, Options{ID: ID{From: FromFields, Fields: []string{"_id"}}}, []conversion{
		{"-", `{"v":1,"_id":7}`, bson.D{{Key: "_id", Value: int32(7)}, v}, ""}, {"-", `{"v":1}`, nil, "no-key"},
	})
}

func TestConvert_KeyedModes_RefuseNamesThatTheServerMisreads(t *testing.T) {
	t.Parallel()
	id := bson.E{Key: "_id", Value: "k"}
	nested := bson.E{Key: "s", Value: bson.D{{Key: "$x", Value: int32(1)}, {Key: "a.b", Value: int32(1)}, {Key: "", Value: int32(1)}}}
	shared := []conversion{
		{"k", `{"$a":1}`, nil, "bad-field-name"},
		{"k", `{"a":1,"$":1}`, nil, "bad-field-name"},
		{"k", `{"s":{"$x":1,"a.b":1,"":1}}`, bson.D{id, nested}, ""},
		{"k", `{"a$":1}`, bson.D{id, {Key: "a$", Value: int32(1)}}, ""},
	}
	runConversions(t, Options{Mode: record.Upsert}, append([]conversion{
		{"k", `{"a.b":1,"":2}`, bson.D{id, {Key: "a.b", Value: int32(1)}, {Key: "", Value: int32(2)}}, ""},
	}, shared...))
	runConversions(t, Options{Mode: record.Update}, append([]conversion{
		{"k", `{"a.b":1}`, nil, "bad-field-name"}, {"k", `{"a":1,"":2}`, nil, "bad-field-name"}, {"k", `{".":2}`, nil, "bad-field-name"},
	}, shared...))
}

func TestConvert_Tombstones_FollowTheOption(t *testing.T) {
	t.Parallel()
	keyField := Options{Mode: record.Update, KeyFormat: JSON, Tombstones: Delete, ID: ID{From: FromKeyField, Field: "ref"}, GuardField: "g", Metadata: "m"}
	for _, c := range []struct {
		o     Options
		key   string
		class string
		op    record.Op
		id    any
	}{
		{Options{}, "k", "null-value", 0, nil},
		{Options{Tombstones: Ignore}, "k", "", record.Skip, nil},
		{Options{Mode: record.Upsert}, "k", "null-value", 0, nil},
		{Options{Mode: record.Upsert, Tombstones: Ignore}, "-", "", record.Skip, nil},
		{Options{Mode: record.Upsert, Tombstones: Delete, GuardField: "g"}, "k", "", record.Delete, "k"},
		{Options{Mode: record.Upsert, Tombstones: Delete}, "-", "no-key", 0, nil},
		{Options{Mode: record.Upsert, Tombstones: Delete, KeyFormat: JSON}, "[1]", "bad-id", 0, nil},
		{Options{Mode: record.Upsert, Tombstones: Delete, KeyFormat: JSON}, "x", "bad-key", 0, nil},
		{Options{Mode: record.Upsert, Tombstones: Delete}, strings.Repeat("k", maxDocument), "too-large", 0, nil},
		{keyField, `{"ref":61}`, "", record.Delete, int32(61)},
		{keyField, `{}`, "no-key", 0, nil},
		{Options{Mode: record.Update, ID: ID{From: FromFields, Fields: []string{"a"}}}, "k", "null-value", 0, nil},
		{Options{Mode: record.Update, Tombstones: Ignore, ID: ID{From: FromFields, Fields: []string{"a"}}}, "k", "", record.Skip, nil},
	} {
		w, err := mustNew(t, c.o).Convert(&record.Arena{}, keyed(c.key, "-"), origin)
		if c.class != "" {
			checkPoison(t, err, c.class)
			continue
		}
		if err != nil || w.Op != c.op {
			t.Errorf("%+v: op %v, %v", c.o, w.Op, err)
		}
		var want []byte
		if c.op == record.Delete {
			want = encode(t, bson.D{{Key: "_id", Value: c.id}, {Key: "g", Value: stored}})
		}
		if !bytes.Equal(w.Document, want) || w.OwnID != (c.op == record.Delete) || w.Guard.Offset != 1<<40 {
			t.Errorf("%+v: %+v", c.o, w)
		}
	}
}

func TestConvert_Metadata_StandsBeforeTheGuard(t *testing.T) {
	t.Parallel()
	head := bson.D{
		{Key: "topic", Value: "orders"},
		{Key: "partition", Value: int32(3)},
		{Key: "offset", Value: int64(1 << 40)},
		{Key: "timestamp", Value: bson.DateTime(1700000007000)},
	}
	guard := bson.E{Key: "_tidemark", Value: stored}
	coordinates := bson.E{Key: "_id", Value: "orders@2/3/1099511627776"}
	meta := func(key any, headers bson.A) bson.E {
		return bson.E{Key: "kafka", Value: append(append(bson.D{}, head...), bson.E{Key: "key", Value: key}, bson.E{Key: "headers", Value: headers})}
	}
	deep := strings.Repeat(`{"a":`, 178) + `{}` + strings.Repeat(`}`, 178)
	for _, c := range []struct {
		name    string
		o       Options
		rec     record.Record
		headers []record.Header
		want    bson.D
	}{
		{"null key", Options{}, keyed("-", `{"a":1}`), nil, bson.D{coordinates, {Key: "a", Value: int32(1)}, meta(nil, bson.A{})}},
		{"string key", Options{}, keyed("k", `{}`), nil, bson.D{coordinates, meta("k", bson.A{})}},
		{"own id", Options{}, keyed("k", `{"a":1,"_id":7}`), nil, bson.D{{Key: "_id", Value: int32(7)}, {Key: "a", Value: int32(1)}, meta("k", bson.A{}), guard}},
		{"a field of that name", Options{}, keyed("k", `{"kafka":{"forged":1},"a":1,"kafka":2}`), nil, bson.D{coordinates, {Key: "a", Value: int32(1)}, meta("k", bson.A{})}},
		{"both names", Options{}, keyed("k", `{"_tidemark":1,"kafka":2}`), nil, bson.D{coordinates, meta("k", bson.A{}), guard}},
		{"unreadable key", Options{}, keyed("\xff", `{}`), nil, bson.D{coordinates, meta(bson.Binary{Data: []byte("\xff")}, bson.A{})}},
		{"unreadable JSON key", Options{KeyFormat: JSON}, keyed(`{"a":[{"x"`, `{}`), nil, bson.D{coordinates, meta(bson.Binary{Data: []byte(`{"a":[{"x"`)}, bson.A{})}},
		{"JSON key", Options{KeyFormat: JSON}, keyed(`{"a":[1]}`, `{}`), nil, bson.D{coordinates, meta(bson.D{{Key: "a", Value: bson.A{int32(1)}}}, bson.A{})}},
		{"key too deep there", Options{KeyFormat: JSON, Mode: record.Upsert}, keyed(deep, `{}`), nil, nil},
		{"keyed", Options{Mode: record.Upsert}, keyed("k", `{"a":1}`), nil, bson.D{{Key: "_id", Value: "k"}, {Key: "a", Value: int32(1)}, meta("k", bson.A{}), guard}},
		{
			"headers",
			Options{},
			keyed("k", `{}`),
			[]record.Header{{Key: "a", Value: []byte("é")}, {Key: "a", Value: []byte{0xff}}, {Key: "", Value: nil}, {Key: "\xff", Value: []byte{}}},
			bson.D{coordinates, meta("k", bson.A{
				bson.D{{Key: "key", Value: "a"}, {Key: "value", Value: "é"}},
				bson.D{{Key: "key", Value: "a"}, {Key: "value", Value: bson.Binary{Data: []byte{0xff}}}},
				bson.D{{Key: "key", Value: ""}, {Key: "value", Value: nil}},
				bson.D{{Key: "key", Value: bson.Binary{Data: []byte{0xff}}}, {Key: "value", Value: ""}},
			})},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.Metadata = "kafka"
			c.rec.Headers = c.headers
			w, err := mustNew(t, c.o).Convert(&record.Arena{}, c.rec, origin)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == nil {
				if key := bson.Raw(w.Document).Lookup("kafka", "key"); key.Type != bson.TypeBinary || levels(t, w.Document) != maxLevels {
					t.Errorf("the key is a %v in %d levels", key.Type, levels(t, w.Document))
				}
			} else if !bytes.Equal(w.Document, encode(t, c.want)) {
				t.Errorf("got  %s\nwant %s", show(w.Document), show(encode(t, c.want)))
			}
		})
	}
}

// TestConvert_SizeLimit_CountsMetadataAndKey finds the longest text that fits beside them.
func TestConvert_SizeLimit_CountsMetadataAndKey(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Mode: record.Upsert, Format: String, Metadata: "m"})
	w, err := m.Convert(&record.Arena{}, keyed("k", ""), origin)
	if err != nil {
		t.Fatal(err)
	}
	fits := maxDocument - len(w.Document)
	for n, ok := range map[int]bool{fits: true, fits + 1: false} {
		w, err := m.Convert(&record.Arena{}, keyed("k", strings.Repeat("x", n)), origin)
		if !ok {
			checkPoison(t, err, "too-large")
		} else if err != nil || len(w.Document) != maxDocument {
			t.Errorf("%d bytes: %v", len(w.Document), err)
		}
	}
}

func TestConvert_Levels_CountWrapAndKey(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Mode: record.Upsert, KeyFormat: JSON, Wrap: "v"})
	nested := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ key, value, class string }{
		{nested(179), arrays(179), ""}, {nested(180), `{}`, "bad-key"}, {`1`, arrays(180), "too-deep"}, {`1`, nested(180), ""}, {`1`, nested(181), "too-deep"},
	} {
		w, err := m.Convert(&record.Arena{}, keyed(c.key, c.value), origin)
		if c.class != "" {
			checkPoison(t, err, c.class)
		} else if err != nil || levels(t, w.Document) != maxLevels {
			t.Errorf("%v", err)
		}
	}
}

func TestConvert_ErrorsHoldNothingOfTheKey(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Mode: record.Upsert, KeyFormat: JSON},
		{Mode: record.Upsert, KeyFormat: ExtJSON},
		{Mode: record.Upsert, KeyFormat: BSON},
		{Mode: record.Upsert, KeyFormat: JSON, ID: ID{From: FromKeyField, Field: "a"}},
		{Mode: record.Upsert},
	} {
		m := mustNew(t, o)
		for _, key := range []string{
			`SECRET`, `{"SECRET":SECRET}`, `["SECRET"]`, `{"$SECRET":1}`, `{"a":{"$SECRET":1}}`, `{"SECRET":{"$oid":"SECRET"}}`, "SECRET\xff", `{"SECRET":1}`,
		} {
			_, err := m.Convert(&record.Arena{}, keyed(key, `{"_id":"SECRET2"}`), origin)
			if fault.KindOf(err) != fault.Poison || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v %q: %v", o.KeyFormat, key, err)
			}
		}
	}
}

func TestNew_RefusesModesThatCannotWork(t *testing.T) {
	t.Parallel()
	keyField := ID{From: FromKeyField, Field: "a"}
	for _, o := range []Options{
		{Format: "avro"},
		{KeyFormat: "avro"},
		{Mode: "replace"},
		{Tombstones: "keep"},
		{ID: ID{From: "random"}},
		{Mode: record.Upsert, ID: ID{From: FromCoordinates}},
		{Mode: record.Update, ID: ID{From: FromCoordinates}},
		{Tombstones: Delete},
		{Tombstones: Delete, ID: ID{From: FromKey}},
		{Mode: record.Upsert, Tombstones: Delete, ID: ID{From: FromFields, Fields: []string{"a"}}},
		{Metadata: "_id"},
		{Metadata: "_tidemark"},
		{Metadata: "a.b"},
		{Metadata: "$a"},
		{Metadata: "a\x00"},
		{Metadata: "g", GuardField: "g"},
		{Metadata: "v", Wrap: "v"},
		{Metadata: "value", Format: String},
		{GuardField: "value", Format: Bytes},
		{Metadata: "m", Dates: []string{"m.at"}},
		{Format: String, Dates: []string{"value"}},
		{ID: keyField},
		{ID: keyField, KeyFormat: Bytes},
		{ID: ID{From: FromKeyField}, KeyFormat: JSON},
		{ID: ID{From: FromKeyField, Field: "a..b"}, KeyFormat: JSON},
		{ID: ID{From: FromKeyField, Field: "\xff"}, KeyFormat: JSON},
		{ID: ID{From: FromFields}},
		{ID: ID{From: FromFields, Fields: []string{""}}},
		{ID: ID{From: FromFields, Fields: []string{"a", "b."}}},
		{ID: ID{From: FromFields, Fields: []string{"a", "b.a"}}},
		{ID: ID{From: FromFields, Fields: []string{"_tidemark.x"}}},
		{Metadata: "m", ID: ID{From: FromFields, Fields: []string{"m"}}},
		{ID: ID{From: FromFields, Fields: []string{"$a", "b"}}},
		{Mode: record.Upsert, Wrap: "$v"},
		{Mode: record.Upsert, Wrap: "_id"},
		{Mode: record.Update, Wrap: "a.b"},
	} {
		if _, err := New(o); fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != "bad-mapping" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []Options{
		{Mode: record.Upsert},
		{Mode: record.Update, Tombstones: Delete, KeyFormat: Bytes, Metadata: "kafka"},
		{ID: keyField, KeyFormat: ExtJSON},
		{Mode: record.Upsert, ID: ID{From: FromFields, Fields: []string{"a.b", "c"}}, Tombstones: Ignore},
		{Format: Bytes, Wrap: "a.b"},
		{Format: BSON, Wrap: "v"},
	} {
		if _, err := New(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
