package mongosink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func TestNew_OpensNoConnection_UntilSomethingIsWritten(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	w := newWorld(t, func(o *mongosink.Options) {
		o.PoolMonitor = &event.PoolMonitor{Event: func(e *event.PoolEvent) {
			if e.Type == event.ConnectionCreated || e.Type == event.ConnectionPoolCreated {
				opened.Add(1)
			}
		}}
	})
	expect(t, 0, 0, "")(write(t, w.sink))
	if err := w.sink.Bury(t.Context(), "run", nil); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 0 {
		t.Fatalf("%d pools and connections before anything was written, expected none", n)
	}
	expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkWrite(t, at(1))))
	if opened.Load() == 0 {
		t.Fatal("the monitor sees nothing: the check above proves nothing")
	}
}

func TestClose_LetsALaterWriteConnectAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkWrite(t, at(1))))
	for range 2 {
		if err := w.sink.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, 0, 1, "")(write(t, w.sink, pulltest.SinkWrite(t, at(1))))
}

// document returns a write whose document has exactly so many bytes.
func document(tb testing.TB, offset int64, size int) record.Write {
	tb.Helper()
	w := record.Write{Guard: at(offset), Record: record.Record{Partition: record.Partition{Topic: "orders"}, Offset: offset}}
	raw, err := bson.Marshal(bson.D{field("_id", bson.NewObjectID()), field("s", "")})
	if err != nil {
		tb.Fatal(err)
	}
	raw, err = bson.Marshal(bson.D{field("_id", bson.NewObjectID()), field("s", strings.Repeat("x", size-len(raw)))})
	if err != nil {
		tb.Fatal(err)
	}
	if len(raw) != size {
		tb.Fatalf("built %d bytes, expected %d", len(raw), size)
	}
	w.Document = raw
	return w
}

func TestWrite_TheLargestDocumentGoesThrough_AndTheNextByteIsOneReject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const limit = 16 << 20
	got, err := w.sink.Write(t.Context(), []record.Write{
		document(t, 0, 100), document(t, 1, limit), document(t, 2, limit+1), document(t, 3, limit-1), document(t, 4, 100), document(t, 5, 9<<20), document(t, 6, 9<<20),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Written != 6 || len(got.Rejected) != 1 || got.Rejected[0].Class != "too-large" || got.Rejected[0].Record.Offset != 2 {
		t.Fatalf("written %d, rejected %d, expected 6 and offset 2 as too-large", got.Written, len(got.Rejected))
	}
}

func TestWrite_MoreDocumentsThanOneCommandTakes_AreAllWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	writes := make([]record.Write, 100_002)
	for i := range writes {
		writes[i] = document(t, int64(i), 40)
	}
	expect(t, int64(len(writes)), 0, "")(write(t, w.sink, writes...))
}

func TestWrite_ADocumentThatBreaksTheWholeCommand_IsFoundAndTakesNoneAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	nested := func(offset int64, levels int) record.Write {
		d := bson.D{field("x", int32(1))}
		for range levels - 1 {
			d = bson.D{field("d", d)}
		}
		return pulltest.SinkWrite(t, at(offset), d...)
	}
	broken := pulltest.SinkWrite(t, at(3))
	broken.Document = append(bytes.Clone(broken.Document[:len(broken.Document)-1]), 'x')
	writes := []record.Write{
		nested(0, 180), nested(1, 181), nested(2, 260), broken, nested(4, 2), nested(5, 260), nested(6, 1),
	}
	for _, counts := range [][2]int64{{3, 0}, {0, 3}} {
		expect(t, counts[0], counts[1], "1 too-deep, 2 too-deep, 3 malformed-bson, 5 too-deep")(write(t, w.sink, writes...))
	}
}

func TestWrite_AnIDThatIsEqualByValue_IsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkWrite(t, at(1), field("_id", int32(1)))))
	again := []record.Write{
		pulltest.SinkWrite(t, at(1), field("_id", int32(1))),
		pulltest.SinkWrite(t, at(2), field("_id", 1.0)),
		pulltest.SinkWrite(t, at(3), field("_id", int64(1))),
		pulltest.SinkWrite(t, at(1), field("_id", 1.0)),
	}
	// The guard of the last one names the same record, but that record would have brought the same bytes.
	expect(t, 0, 1, "2 duplicate-key, 3 duplicate-key, 1 duplicate-key")(write(t, w.sink, again...))
}

// collated is a default collation under which the ids of other records are equal.
type collated struct {
	name      string
	collation bson.D
	topic     string
	partition int32
	offset    int64
}

// equalToOrders1Offset11 are coordinates that a collation takes for those of orders/1, offset 11.
func equalToOrders1Offset11() []collated {
	return []collated{
		{"punctuation", bson.D{field("locale", "en"), field("strength", 3), field("alternate", "shifted")}, "orders", 11, 1},
		{"case", bson.D{field("locale", "en"), field("strength", 2)}, "Orders", 1, 11},
	}
}

// inspected returns a world whose sink has inspected its collections already: a collection that is created afterwards
// is nobody's promise.
func inspected(t *testing.T) world {
	t.Helper()
	w := newWorld(t, nil)
	expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkWrite(t, at(1))))
	w.run(t, bson.D{field("drop", documents)})
	return w
}

func TestWrite_AnIDThatIsEqualByCollation_NeverPassesForTheSameRecord(t *testing.T) {
	t.Parallel()
	for _, c := range equalToOrders1Offset11() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := inspected(t)
			w.run(t, bson.D{field("create", documents), field("collation", c.collation)})
			first := mapped(t, "orders", 1, 11)
			second := mapped(t, c.topic, c.partition, c.offset)
			expect(t, 1, 0, "")(write(t, w.sink, first))
			again := fmt.Sprintf("%d duplicate-key", c.offset)
			expect(t, 0, 0, again)(write(t, w.sink, second))
			expect(t, 0, 1, again)(write(t, w.sink, first, second))
		})
	}
}

// mapped returns the write of a record as package mapping makes it: its _id is made of its coordinates.
func mapped(t *testing.T, topic string, partition int32, offset int64) record.Write {
	t.Helper()
	m, err := mapping.New(mapping.Options{GuardField: pulltest.SinkGuardField})
	if err != nil {
		t.Fatal(err)
	}
	w, err := m.Convert(&record.Arena{}, record.Record{Partition: record.Partition{Topic: topic, ID: partition}, Offset: offset, Value: []byte(`{"n":1}`)}, record.Topic{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func letter(partition int32, offset int64) record.DeadLetter {
	return record.DeadLetter{
		Record: record.Record{Partition: record.Partition{Topic: "orders", ID: partition}, Offset: offset, Value: []byte("x")},
		Class:  "malformed-json", Reason: "reason",
	}
}

func TestBury_AnIDThatIsEqualByCollation_IsNoLetterThatIsThere(t *testing.T) {
	t.Parallel()
	for _, c := range equalToOrders1Offset11() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := inspected(t)
			w.run(t, bson.D{field("create", letters), field("collation", c.collation)})
			other := letter(c.partition, c.offset)
			other.Record.Partition.Topic = c.topic
			for range 2 {
				if err := w.sink.Bury(t.Context(), "run", []record.DeadLetter{letter(1, 11)}); err != nil {
					t.Error(err)
				}
				expectFault(t, w.sink.Bury(t.Context(), "run", []record.DeadLetter{letter(1, 11), other}), fault.Fatal, "dead-letter-refused")
			}
			if n := len(w.all(t, letters)); n != 1 {
				t.Errorf("%d letters, expected 1", n)
			}
		})
	}
}

func TestWrite_IgnoringDuplicates_DropsAndCountsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *mongosink.Options) { o.IgnoreDuplicates = true })
	w.unique(t, bson.D{field("mail", 1)}, true)
	writes := []record.Write{
		pulltest.SinkWrite(t, at(1), field("mail", "m")), pulltest.SinkWrite(t, at(2), field("mail", "m")),
		pulltest.SinkWrite(t, at(3), field("_id", "A")), pulltest.SinkWrite(t, at(4), field("_id", "A")),
	}
	for _, want := range []record.WriteResult{{Written: 2, Ignored: 2}, {Duplicates: 2, Ignored: 2}} {
		if got, err := w.sink.Write(t.Context(), writes); err != nil || !reflect.DeepEqual(want, got) {
			t.Errorf("the result is %+v (%v), want %+v", got, err, want)
		}
	}
}

func TestWrite_WhatIndexesRefuse_HasAClassOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.run(t, bson.D{field("createIndexes", documents), field("indexes", bson.A{
		bson.D{field("key", bson.D{field("place", "2dsphere")}), field("name", "geo")},
		bson.D{field("key", bson.D{field("old", "2d")}), field("name", "geo2d")},
		bson.D{field("key", bson.D{field("hash", "hashed")}), field("name", "hash")},
		bson.D{field("key", bson.D{field("text", "text")}), field("name", "text")},
		bson.D{field("key", bson.D{field("a", 1), field("b", 1)}), field("name", "pair")},
	})})
	point := bson.D{field("type", "Point"), field("coordinates", bson.A{500, 500})}
	writes := []record.Write{
		pulltest.SinkWrite(t, at(1), field("place", "text")), pulltest.SinkWrite(t, at(2), field("place", point)),
		pulltest.SinkWrite(t, at(3), field("old", bson.A{500, 500})),
		pulltest.SinkWrite(t, at(4), field("hash", bson.A{1, 2})),
		pulltest.SinkWrite(t, at(5), field("text", "x"), field("language", "klingon")),
		pulltest.SinkWrite(t, at(6), field("text", "x"), field("language", 5)),
		pulltest.SinkWrite(t, at(7), field("a", bson.A{1}), field("b", bson.A{1})),
		pulltest.SinkWrite(t, at(8), field("_id", bson.A{1})), pulltest.SinkWrite(t, at(9), field("_id", bson.Regex{Pattern: "x"})),
		pulltest.SinkWrite(t, at(10), field("old", bson.D{field("x", "y")})),
		pulltest.SinkWrite(t, at(11)),
	}
	expect(t, 1, 0, "1 bad-geometry, 2 bad-geometry, 3 bad-geometry, 4 hashed-array, 5 bad-text-language, 6 bad-text-language, "+
		"7 parallel-arrays, 8 bad-id, 9 bad-id, 10 bad-geometry")(write(t, w.sink, writes...))
}

func expectFault(t *testing.T, err error, kind fault.Kind, class string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || fault.ClassOf(err) != class {
		t.Errorf("error = %v (%v, class %q), expected %v, class %q", err, fault.KindOf(err), fault.ClassOf(err), kind, class)
	}
}

func TestBury_WhereTheCollectionRefusesLetters_IsFatal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.run(t, bson.D{field("create", letters), field("validator", bson.D{field("nothing", "fits")})})
	err := w.sink.Bury(t.Context(), "run", []record.DeadLetter{{Class: "x", Reason: "secret reason"}})
	expectFault(t, err, fault.Fatal, "dead-letter-refused")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q holds a value", err)
	}
}

func TestBury_KeepsTheReasonShortAndOnOneLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	reason := "bad \xff\nline " + strings.Repeat("é", 1000)
	if err := w.sink.Bury(t.Context(), "run", []record.DeadLetter{{Class: "x", Reason: reason}}); err != nil {
		t.Fatal(err)
	}
	got := w.buried(t)[0].Reason
	if len(got) > 1024 || len(got) < 1022 || !strings.HasPrefix(got, "bad \uFFFD line éé") || !strings.HasSuffix(got, "é") {
		t.Errorf("reason of %d bytes: %.40q", len(got), got)
	}
}

func TestWrite_ADeadlineThatPasses_IsTransientAndCountsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(3*time.Millisecond))
	defer cancel()
	writes := make([]record.Write, 50_000)
	for i := range writes {
		writes[i] = document(t, int64(i), 100)
	}
	r, err := w.sink.Write(ctx, writes)
	expectFault(t, err, fault.Transient, "")
	if !errors.Is(err, context.DeadlineExceeded) || r.Written != 0 {
		t.Errorf("written %d, error %v, expected nothing and a passed deadline", r.Written, err)
	}
	n, d, rejected := write(t, w.sink, writes...)
	if n+d != int64(len(writes)) || rejected != "" {
		t.Errorf("written %d, duplicates %d, rejected %q, expected %d in all", n, d, rejected, len(writes))
	}
}
