package mapping

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// seed adds the values of the cases of a format.
func seed(f *testing.F, add func(value []byte), formats ...Format) {
	f.Helper()
	var cases []convertCase
	readCases(f, "convert.json", &cases)
	for _, c := range cases {
		if slices.Contains(formats, c.Format) && c.ValueBuild == nil {
			add(c.Value)
		}
	}
}

// beyondInt64 finds what may be an integer that the driver rounds to a double.
var beyondInt64 = regexp.MustCompile(`\d{19}`)

// FuzzExtJSON compares with the driver: what both accept without repeated names is the same, and what is accepted is
// written by the driver as canonical Extended JSON, which both read back as it was.
func FuzzExtJSON(f *testing.F) {
	seed(f, func(value []byte) { f.Add(value) }, ExtJSON, JSON)
	text, err := bson.MarshalExtJSON(everyType, true, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"a":{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"},"b":{"$date":"2031-03-04T05:06:07.5Z"},"c":{"$ref":"c","$id":{"$minKey":1}}}`))
	m, strict := mustNew(f, Options{Format: ExtJSON}), mustNew(f, Options{Format: ExtJSON, RejectDuplicateKeys: true})
	f.Fuzz(func(t *testing.T, value []byte) {
		if doc, err := strict.Value(nil, value); err == nil && !beyondInt64.Match(value) {
			var driver bson.D
			if err := bson.UnmarshalExtJSON(value, false, &driver); err == nil && !bytes.Equal(encode(t, driver), doc) {
				t.Fatalf("%q:\ngot    %s\ndriver %s", value, show(doc), show(encode(t, driver)))
			}
		}
		doc, err := m.Value(nil, value)
		if err != nil {
			checkPoison(t, err, fault.ClassOf(err))
			return
		}
		checkStored(t, doc)
		agreeExtJSON(t, m, doc)
	})
}

// FuzzBSON compares with the driver: what is accepted is valid for it, and what is stored of it is what the driver
// writes of what it read.
func FuzzBSON(f *testing.F) {
	seed(f, func(value []byte) { f.Add(value) }, BSON)
	f.Add(encode(f, everyType))
	f.Add([]byte(rawDoc("\x10a\x00\x01\x00\x00\x00", "\x03b\x00"+rawDoc("\x0aa\x00", "\x0aa\x00"), "\x0aa\x00")))
	plain, declared := mustNew(f, Options{Format: BSON}), mustNew(f, Options{
		Format: BSON, Dates: []string{"d", "l.d"}, EpochSeconds: []string{"s"}, ObjectIDs: []string{"o"}, Decimals: []string{"p"},
	})
	f.Fuzz(func(t *testing.T, value []byte) {
		doc, err := plain.Value(nil, value)
		if typed, err := declared.Value(nil, value); err == nil {
			checkStored(t, typed)
		}
		if err != nil {
			checkPoison(t, err, fault.ClassOf(err))
			return
		}
		checkStored(t, doc)
		var whole bson.D
		if err := bson.Unmarshal(value, &whole); err != nil {
			t.Fatalf("%x: the driver says %v", value, err)
		}
		if got, want := encode(t, reread(t, doc)), encode(t, lastOfEach(whole)); !bytes.Equal(got, want) {
			t.Fatalf("%x:\ngot  %s\nwant %s", value, show(got), show(want))
		}
	})
}

func reread(t *testing.T, doc []byte) bson.D {
	t.Helper()
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// lastOfEach keeps of fields with one name the last at the place of the first.
func lastOfEach(d bson.D) bson.D {
	out := bson.D{}
	for _, e := range d {
		e.Value = lastInside(e.Value)
		if i := slices.IndexFunc(out, func(o bson.E) bool { return o.Key == e.Key }); i >= 0 {
			out[i].Value = e.Value
		} else {
			out = append(out, e)
		}
	}
	return out
}

func lastInside(value any) any {
	switch v := value.(type) {
	case bson.D:
		return lastOfEach(v)
	case bson.A:
		for i := range v {
			v[i] = lastInside(v[i])
		}
	case bson.CodeWithScope:
		if scope, ok := v.Scope.(bson.D); ok {
			v.Scope = lastOfEach(scope)
		}
		return v
	}
	return value
}

// FuzzKey converts a key in every format. A key that a value's converter takes must be taken too.
func FuzzKey(f *testing.F) {
	seed(f, func(value []byte) { f.Add(value) }, JSON, ExtJSON, BSON, String, Bytes)
	for _, key := range []string{"", "42", `"42"`, "c7", `{"ref":61}`, `{"$gt":1}`, `{"no":2,"shop":1}`, `{"$oid":"64f0a1b2c3d4e5f601234567"}`, "null", "[1]"} {
		f.Add([]byte(key))
	}
	formats := []Format{JSON, ExtJSON, BSON, String, Bytes}
	var keys, values []*Mapper
	for _, format := range formats {
		keys = append(keys, mustNew(f, Options{Mode: record.Upsert, KeyFormat: format}))
		values = append(values, mustNew(f, Options{Format: format, Wrap: "w"}))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		rec := recordOf(`{}`)
		rec.Key = append([]byte{}, key...)
		for i, format := range formats {
			w, err := keys[i].Convert(&record.Arena{}, rec, origin)
			_, valueErr := values[i].Value(nil, rec.Key)
			if err == nil {
				checkStored(t, w.Document)
				continue
			}
			class := fault.ClassOf(err)
			if !slices.Contains([]string{"bad-key", "no-key", "bad-id"}, class) || class != "bad-key" && valueErr != nil && fault.ClassOf(valueErr) != "bad-extjson" {
				t.Fatalf("%s %q: %v, as a value %v", format, key, err, valueErr)
			}
		}
	})
}

// manyOptions are the combinations that FuzzConvert tries.
func manyOptions() []Options {
	var all []Options
	for _, format := range []Format{JSON, ExtJSON, BSON, String, Bytes} {
		for _, keyFormat := range []Format{String, JSON, ExtJSON, BSON, Bytes} {
			for _, mode := range []record.Mode{record.Insert, record.Upsert, record.Update} {
				for _, id := range []ID{{}, {From: FromKey}, {From: FromKeyField, Field: "a"}, {From: FromFields, Fields: []string{"a"}}, {From: FromFields, Fields: []string{"b.c", "a"}}} {
					o := Options{Format: format, KeyFormat: keyFormat, Mode: mode, ID: id}
					if len(all)%2 == 0 {
						o.Metadata = "m"
					}
					if format != String && format != Bytes {
						o.Wrap, o.Dates, o.Decimals = "w", []string{"d", "a.d"}, []string{"p"}
					}
					if _, err := New(o); err == nil {
						all = append(all, o)
					}
				}
			}
		}
	}
	return all
}

// FuzzConvert holds what is promised of every write, in every mode: a valid document within the limits with each name
// once, the _id first, the guard last, and the same bytes when it is converted again, as a record and as a value.
func FuzzConvert(f *testing.F) {
	seed(f, func(value []byte) { f.Add(uint16(len(value)), []byte(`{"a":1}`), value) }, JSON, ExtJSON, BSON, String, Bytes)
	options := manyOptions()
	for i := range options {
		f.Add(uint16(i), []byte("1"), []byte(`{"b":{"c":1},"m":1,"_tidemark":2,"a":1,"_id":1,"a":1}`))
	}
	var mappers []*Mapper
	for _, o := range options {
		mappers = append(mappers, mustNew(f, o))
	}
	f.Fuzz(func(t *testing.T, which uint16, key, value []byte) {
		i := int(which) % len(mappers)
		rec := recordOf(string(value))
		rec.Key = append([]byte{}, key...)
		rec.Headers = []record.Header{{Key: string(key), Value: value}}
		w, err := mappers[i].Convert(&record.Arena{}, rec, origin)
		again, errAgain := mappers[i].Convert(&record.Arena{}, rec, origin)
		if fault.ClassOf(err) != fault.ClassOf(errAgain) || !bytes.Equal(w.Document, again.Document) {
			t.Fatalf("%+v: %v and %v", options[i], err, errAgain)
		}
		if err != nil {
			checkPoison(t, err, fault.ClassOf(err))
			return
		}
		checkWrite(t, options[i], w)
	})
}

func checkWrite(t *testing.T, o Options, w record.Write) {
	t.Helper()
	checkStored(t, w.Document)
	elements, err := bson.Raw(w.Document).Elements()
	if err != nil || len(elements) == 0 || elements[0].Key() != "_id" {
		t.Fatalf("%+v: no _id in front: %s", o, show(w.Document))
	}
	names := map[string]int{}
	for i, e := range elements {
		if _, twice := names[e.Key()]; twice {
			t.Fatalf("%+v: %q stands twice: %s", o, e.Key(), show(w.Document))
		}
		names[e.Key()] = i
	}
	guard, guarded := names[DefaultGuardField]
	switch {
	case w.OwnID && !guarded, guarded && guard != len(elements)-1, !w.OwnID && o.Mode != "" && o.Mode != record.Insert:
		t.Fatalf("%+v: own id %v, guard at %d: %s", o, w.OwnID, guard, show(w.Document))
	}
	if o.Metadata != "" {
		last := len(elements) - 1
		if guarded {
			last--
		}
		if at, ok := names[o.Metadata]; !ok || at != last {
			t.Fatalf("%+v: metadata at %d: %s", o, at, show(w.Document))
		}
	}
}

// checkStored says whether a document is valid for the driver and for this package, which gives it back as it is.
func checkStored(t *testing.T, doc []byte) {
	t.Helper()
	if err := bson.Raw(doc).Validate(); err != nil {
		t.Fatalf("%s: %v", show(doc), err)
	}
	if deep := levels(t, doc); deep > maxLevels || len(doc) > maxDocument {
		t.Fatalf("%s levels, %d bytes", strconv.Itoa(deep), len(doc))
	}
	m, err := New(Options{Format: BSON, RejectDuplicateKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.Value(nil, doc); err != nil || !bytes.Equal(again, doc) {
		t.Fatalf("%s: as a value: %v", show(doc), err)
	}
}
