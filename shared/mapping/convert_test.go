package mapping

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

func recordOf(value string) record.Record {
	return record.Record{
		Partition: record.Partition{Topic: "orders", ID: 3}, Offset: 1 << 40, Timestamp: 1700000007000, Value: []byte(value),
	}
}

// origin is the topic, and stored the guard, of recordOf.
var (
	origin = record.Topic{Incarnation: 2, Rewrite: 1}
	stored = bson.D{
		{Key: "topic", Value: "orders"},
		{Key: "incarnation", Value: int64(2)},
		{Key: "rewrite", Value: int64(1)},
		{Key: "partition", Value: int32(3)},
		{Key: "offset", Value: int64(1 << 40)},
		{Key: "timestamp", Value: int64(1700000007000)},
	}
)

func TestConvert_Document_HasIDFirstAndGuardLast(t *testing.T) {
	t.Parallel()
	coordinates := bson.E{Key: "_id", Value: "orders@2/3/1099511627776"}
	guard := bson.E{Key: "_tidemark", Value: stored}
	a, b := bson.E{Key: "a", Value: int32(1)}, bson.E{Key: "b", Value: "x"}
	for _, c := range []struct {
		name, value string
		want        bson.D
		ownID       bool
	}{
		{"no id", `{"a":1,"b":"x"}`, bson.D{coordinates, a, b}, false},
		{"empty", `{}`, bson.D{coordinates}, false},
		{"id inside a sub-document is none", `{"a":{"_id":1}}`, bson.D{coordinates, {Key: "a", Value: bson.D{{Key: "_id", Value: int32(1)}}}}, false},
		{"id first", `{"_id":7,"a":1}`, bson.D{{Key: "_id", Value: int32(7)}, a, guard}, true},
		{"id last", `{"a":1,"b":"x","_id":"k"}`, bson.D{{Key: "_id", Value: "k"}, a, b, guard}, true},
		{"id in the middle", `{"a":1,"_id":null,"b":"x"}`, bson.D{{Key: "_id", Value: nil}, a, b, guard}, true},
		{"id only", `{"_id":{}}`, bson.D{{Key: "_id", Value: bson.D{}}, guard}, true},
		{"id escaped", `{"a":1,"\u005fid":true}`, bson.D{{Key: "_id", Value: true}, a, guard}, true},
		{"id repeated", `{"a":1,"_id":[],"b":"x","_id":"k","a":1}`, bson.D{{Key: "_id", Value: "k"}, a, b, guard}, true},
		{"id longer than coordinates", `{"a":1,"_id":"` + strings.Repeat("k", 1000) + `"}`, bson.D{{Key: "_id", Value: strings.Repeat("k", 1000)}, a, guard}, true},
		{"guard's name beside an id", `{"_tidemark":{"topic":"forged"},"_id":"k","a":1}`, bson.D{{Key: "_id", Value: "k"}, a, guard}, true},
		{"guard's name without an id", `{"a":1,"_tidemark":1,"b":"x"}`, bson.D{coordinates, a, b, guard}, false},
		{"guard's name repeated", `{"_tidemark":1,"a":1,"_tidemark":2}`, bson.D{coordinates, a, guard}, false},
		{"guard's name only", `{"_tidemark":1}`, bson.D{coordinates, guard}, false},
		{"guard's name inside a sub-document is data", `{"a":{"_tidemark":1}}`, bson.D{coordinates, {Key: "a", Value: bson.D{{Key: "_tidemark", Value: int32(1)}}}}, false},
		{"names repeated", `{"b":1,"a":2,"a":1,"b":"x"}`, bson.D{coordinates, b, a}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := recordOf(c.value)
			w, err := mustNew(t, Options{}).Convert(&record.Arena{}, rec, origin)
			if err != nil {
				t.Fatal(err)
			}
			want := record.Write{
				Record:   rec,
				Guard:    record.Guard{Topic: "orders", Incarnation: 2, Rewrite: 1, Partition: 3, Offset: 1 << 40, Timestamp: 1700000007000},
				Document: encode(t, c.want),
				OwnID:    c.ownID,
			}
			if !bytes.Equal(w.Document, want.Document) {
				t.Errorf("got  %s\nwant %s", show(w.Document), show(want.Document))
			}
			if diff := cmp.Diff(want, w); diff != "" {
				t.Errorf("write (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvert_GuardField_IsTheConfiguredOne(t *testing.T) {
	t.Parallel()
	w, err := mustNew(t, Options{GuardField: "origin"}).Convert(&record.Arena{}, recordOf(`{"_tidemark":1,"origin":2,"_id":3}`), origin)
	if err != nil {
		t.Fatal(err)
	}
	want := bson.D{{Key: "_id", Value: int32(3)}, {Key: "_tidemark", Value: int32(1)}, {Key: "origin", Value: stored}}
	if !bytes.Equal(w.Document, encode(t, want)) {
		t.Errorf("got %s", show(w.Document))
	}
}

func TestConvert_Coordinates_NameTheIncarnationFromOneOn(t *testing.T) {
	t.Parallel()
	for incarnation, want := range map[int64]string{0: "a.b-c/0/0", 1: "a.b-c@1/0/0", 12: "a.b-c@12/0/0"} {
		rec := record.Record{Partition: record.Partition{Topic: "a.b-c"}, Value: []byte(`{}`)}
		w, err := mustNew(t, Options{}).Convert(&record.Arena{}, rec, record.Topic{Incarnation: incarnation, Rewrite: 9})
		if err != nil {
			t.Fatal(err)
		}
		if got := bson.Raw(w.Document).Lookup("_id").StringValue(); got != want {
			t.Errorf("incarnation %d: %q, want %q", incarnation, got, want)
		}
	}
}

func TestConvert_WrappedValue_IsAFieldLikeOthers(t *testing.T) {
	t.Parallel()
	for wrap, want := range map[string]bson.D{
		"v":   {{Key: "_id", Value: "orders@2/3/1099511627776"}, {Key: "v", Value: bson.DateTime(5)}},
		"_id": {{Key: "_id", Value: bson.DateTime(5)}, {Key: "_tidemark", Value: stored}},
	} {
		w, err := mustNew(t, Options{Wrap: wrap, Dates: []string{wrap}}).Convert(&record.Arena{}, recordOf(" 5"), origin)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w.Document, encode(t, want)) {
			t.Errorf("wrap %s: got %s", wrap, show(w.Document))
		}
	}
}

func TestConvert_RefusesWhatCanNeverBeStored(t *testing.T) {
	t.Parallel()
	null, empty := recordOf(""), recordOf("")
	null.Value = nil
	for _, c := range []struct {
		name, class string
		rec         record.Record
	}{
		{"null", "null-value", null},
		{"empty", "malformed-json", empty},
		{"the word null", "not-a-document", recordOf(`null`)},
		{"array id", "bad-id", recordOf(`{"_id":[]}`)},
		{"dollar id", "bad-id", recordOf(`{"a":1,"_id":{"$a":1}}`)},
		{"dollar deep in the id", "bad-id", recordOf(`{"_id":{"a":[1,{"b":[[{"$":1}]]}]}}`)},
		{"dollar in an id that replaces another", "bad-id", recordOf(`{"_id":1,"_id":{"$a":1}}`)},
		{"too deep in the guard's field", "too-deep", recordOf(`{"_tidemark":` + strings.Repeat("[", 180) + strings.Repeat("]", 180) + `}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, err := mustNew(t, Options{}).Convert(&record.Arena{}, c.rec, origin)
			checkPoison(t, err, c.class)
			if w.Document != nil {
				t.Error("a document beside the error")
			}
		})
	}
	for _, value := range []string{`{"_id":{"a$":1,"":{"b.c":["$x"]}}}`, `{"_id":{"a":[[],{}]}}`} {
		if _, err := mustNew(t, Options{}).Convert(&record.Arena{}, recordOf(value), origin); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestConvert_SizeLimit_CountsTheStoredDocument finds the longest text by the value alone and shows that _id and guard
// count too.
func TestConvert_SizeLimit_CountsTheStoredDocument(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{})
	for _, c := range []struct {
		prefix string
		doc    bson.D
	}{
		{`{"s":"`, bson.D{{Key: "_id", Value: "orders@2/3/1099511627776"}, {Key: "s", Value: ""}}},
		{`{"_id":1,"s":"`, bson.D{{Key: "_id", Value: int32(1)}, {Key: "s", Value: ""}, {Key: "_tidemark", Value: stored}}},
	} {
		fits := maxDocument - len(encode(t, c.doc))
		for n, ok := range map[int]bool{fits: true, fits + 1: false} {
			w, err := m.Convert(&record.Arena{}, recordOf(c.prefix+strings.Repeat("x", n)+`"}`), origin)
			if !ok {
				checkPoison(t, err, "too-large")
			} else if err != nil || len(w.Document) != maxDocument {
				t.Errorf("%d bytes: %v", len(w.Document), err)
			}
		}
	}
}

// TestConvert_Documents_StayWhatTheyWere converts in several goroutines through many chunks, and looks at all documents
// at the end.
func TestConvert_Documents_StayWhatTheyWere(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{})
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			var writes []record.Write
			for i := range 600 {
				value := fmt.Sprintf(`{"n":%d,"s":"%s"}`, i, strings.Repeat("\\n", i*7%900))
				if i%5 == 0 {
					value = value[:len(value)-1] + `,"_id":"k"}`
				}
				if i%97 == 0 {
					value = fmt.Sprintf(`{"n":%d,"s":"%s","l":[%s0]}`, i, strings.Repeat("x", 40_000), strings.Repeat("0,", 3000))
				}
				if i%99 == 0 {
					value = fmt.Sprintf(`{"n":%d,"s":"%s"}`, i, strings.Repeat("\\u0041", 10_000))
				}
				rec := recordOf(value)
				rec.Partition.ID, rec.Offset = int32(worker), int64(i)
				w, err := m.Convert(&record.Arena{}, rec, record.Topic{})
				if err != nil {
					t.Error(err)
					return
				}
				writes = append(writes, w)
				if _, err := m.Convert(&record.Arena{}, recordOf(value[:len(value)-1]), record.Topic{}); fault.KindOf(err) != fault.Poison {
					t.Errorf("a cut value: %v", err)
				}
			}
			for i, w := range writes {
				if err := bson.Raw(w.Document).Validate(); err != nil {
					t.Errorf("%d: %v", i, err)
				}
				if n := bson.Raw(w.Document).Lookup("n").Int32(); int(n) != i {
					t.Errorf("%d: the document is that of %d", i, n)
				}
				if extra := cap(w.Document) - len(w.Document); extra != 0 {
					t.Errorf("%d: %d bytes behind the document can be appended to", i, extra)
				}
			}
		})
	}
	group.Wait()
}
