package pulltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// SinkUniqueField has a unique index in the collection that a SinkHarness opens; documents may be without it.
	SinkUniqueField = "mail"
	// SinkIntField is an integer, or the collection refuses the document with class "validation"; documents may be
	// without it.
	SinkIntField = "n"
	// SinkGuardField is the field of the guard.
	SinkGuardField = "_tidemark"
)

// SinkSetup is how a SinkHarness is wanted.
type SinkSetup struct {
	Mode    record.Mode
	Deletes bool
}

// SinkHarness is a sink with an empty collection, and what is in it.
type SinkHarness struct {
	Sink pull.Sink
	// Documents returns all documents, Letters all dead letters, in any order.
	Documents func(t *testing.T) []bson.Raw
	Letters   func(t *testing.T) []Buried
	// Store stores a document beside the sink, as another program would.
	Store func(t *testing.T, doc bson.Raw)
}

// TestSink holds a sink to the contract of pull.Sink in every mode. Open is called once a case, each time for an empty
// collection with the fields named above.
func TestSink(t *testing.T, open func(t *testing.T, setup SinkSetup) SinkHarness) {
	t.Helper()
	t.Run("insert", func(t *testing.T) {
		t.Parallel()
		testInsert(t, func(t *testing.T) SinkHarness {
			t.Helper()
			return open(t, SinkSetup{Mode: record.Insert})
		})
	})
	testKeyed(t, open)
}

func testInsert(t *testing.T, open func(t *testing.T) SinkHarness) {
	t.Helper()
	cases := []struct {
		name string
		run  func(*testing.T, SinkHarness)
	}{
		{"nothing to write is a success", nothingToWrite},
		{"a written document is stored as it is", storedAsItIs},
		{"the same again is a duplicate", sameAgain},
		{"the same twice in a batch is written once", sameTwiceInABatch},
		{"any suffix again changes nothing", suffixChangesNothing},
		{"an own id is kept and its replay is a duplicate", ownIDReplay},
		{"another record with a taken id is rejected", ownIDTaken},
		{"a taken id inside one batch rejects the later record", ownIDTakenInABatch},
		{"the first of a list that is not refused takes the id", firstThatIsNotRefused},
		{"the same offset of another incarnation is another record", otherIncarnation},
		{"an own id that looks like coordinates hides no record", ownIDLikeCoordinates},
		{"a taken unique field rejects that record only", uniqueFieldTaken},
		{"a replay is a duplicate although it violates a unique index", replayWithUniqueField},
		{"a refused document rejects that record only", refusedDocument},
		{"a cancelled call stores and counts nothing", cancelledWrite},
		{"a buried letter is kept whole", buriedWhole},
		{"burying again is a success and keeps the first", buriedAgain},
		{"letters of two incarnations are two", buriedIncarnations},
		{"a large letter is kept whole", buriedLarge},
		{"a cancelled burial is an error", cancelledBury},
		{"concurrent writers of one record write it once", concurrentWriters},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

// SinkWrite returns a write of a record that carries the fields. The _id is the record's own, where the first field is
// one, else its coordinates.
func SinkWrite(tb testing.TB, g record.Guard, fields ...bson.E) record.Write {
	tb.Helper()
	own := len(fields) > 0 && fields[0].Key == "_id"
	doc := bson.D{}
	if !own {
		topic := g.Topic
		if g.Incarnation > 0 {
			topic = fmt.Sprintf("%s@%d", g.Topic, g.Incarnation)
		}
		doc = append(doc, bson.E{Key: "_id", Value: fmt.Sprintf("%s/%d/%d", topic, g.Partition, g.Offset)})
	}
	doc = append(doc, fields...)
	if own {
		doc = append(doc, bson.E{Key: SinkGuardField, Value: guardDocument(g)})
	}
	raw, err := bson.Marshal(doc)
	if err != nil {
		tb.Fatalf("encoding a document: %v", err)
	}
	return record.Write{Record: recordAt(g), Guard: g, Document: raw, OwnID: own}
}

// SinkDelete returns a deletion of the _id.
func SinkDelete(tb testing.TB, g record.Guard, id any) record.Write {
	tb.Helper()
	w := SinkWrite(tb, g, bson.E{Key: "_id", Value: id})
	w.Op, w.Record.Value = record.Delete, nil
	return w
}

func recordAt(g record.Guard) record.Record {
	return record.Record{
		Partition: record.Partition{Topic: g.Topic, ID: g.Partition}, Offset: g.Offset, Timestamp: g.Timestamp,
		Value: fmt.Appendf(nil, "value of %d", g.Offset),
	}
}

func at(offset int64) record.Guard {
	return record.Guard{Topic: "orders", Offset: offset, Timestamp: 1_700_000_000_000 + offset}
}

func field(key string, value any) bson.E { return bson.E{Key: key, Value: value} }

// outcome is a result in a form that is compared.
type outcome struct {
	Written, Duplicates int64
	Rejected            []string // "topic/partition/offset class"
}

func write(t *testing.T, s pull.Sink, writes ...record.Write) outcome {
	t.Helper()
	r, err := s.Write(t.Context(), writes)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	if sum := r.Written + r.Duplicates + r.Ignored + int64(len(r.Rejected)); sum != int64(len(writes)) {
		t.Errorf("Write accounts for %d of %d writes", sum, len(writes))
	}
	o := outcome{Written: r.Written, Duplicates: r.Duplicates}
	for _, l := range r.Rejected {
		if l.Reason == "" {
			t.Errorf("%s/%d is rejected without a reason", l.Record.Partition, l.Record.Offset)
		}
		o.Rejected = append(o.Rejected, fmt.Sprintf("%s/%d %s", l.Record.Partition, l.Record.Offset, l.Class))
	}
	return o
}

func expect(t *testing.T, got, want outcome) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// stored returns the documents as text, sorted, so that two states can be compared.
func stored(t *testing.T, h SinkHarness) []string {
	t.Helper()
	docs := []string{}
	for _, d := range h.Documents(t) {
		docs = append(docs, d.String())
	}
	slices.Sort(docs)
	return docs
}

func expectStored(t *testing.T, h SinkHarness, writes ...record.Write) {
	t.Helper()
	want := []string{}
	for _, w := range writes {
		want = append(want, bson.Raw(w.Document).String())
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, stored(t, h)); diff != "" {
		t.Errorf("collection (-want +got):\n%s", diff)
	}
}

func nothingToWrite(t *testing.T, h SinkHarness) {
	expect(t, write(t, h.Sink), outcome{})
	if err := h.Sink.Bury(t.Context(), "run", nil); err != nil {
		t.Errorf("Bury of nothing: %v", err)
	}
	expectStored(t, h)
}

func storedAsItIs(t *testing.T, h SinkHarness) {
	w := SinkWrite(t, at(1), field(SinkIntField, int32(1)), field("a.b", "dotted"), field("$x", int64(1)<<40), field("", nil))
	expect(t, write(t, h.Sink, w), outcome{Written: 1})
	expectStored(t, h, w)
}

func sameAgain(t *testing.T, h SinkHarness) {
	writes := []record.Write{SinkWrite(t, at(1)), SinkWrite(t, at(2)), SinkWrite(t, at(3))}
	expect(t, write(t, h.Sink, writes[:2]...), outcome{Written: 2})
	expect(t, write(t, h.Sink, writes...), outcome{Written: 1, Duplicates: 2})
	expect(t, write(t, h.Sink, writes...), outcome{Duplicates: 3})
	expectStored(t, h, writes...)
}

func sameTwiceInABatch(t *testing.T, h SinkHarness) {
	plain, own := SinkWrite(t, at(1)), SinkWrite(t, at(2), field("_id", "A-1"))
	expect(t, write(t, h.Sink, plain, own, plain, own), outcome{Written: 2, Duplicates: 2})
	expectStored(t, h, plain, own)
}

func suffixChangesNothing(t *testing.T, h SinkHarness) {
	writes := []record.Write{
		SinkWrite(t, at(0)),
		SinkWrite(t, at(1), field("_id", int32(7))),
		SinkWrite(t, at(2), field("_id", int32(7))),
		SinkWrite(t, at(3), field(SinkUniqueField, "m1")),
		SinkWrite(t, at(4), field(SinkUniqueField, "m1")),
		SinkWrite(t, at(5), field(SinkIntField, "text")),
		SinkWrite(t, at(6), field(SinkUniqueField, "m2")),
	}
	expect(t, write(t, h.Sink, writes...), outcome{
		Written: 4, Rejected: []string{"orders/0/2 duplicate-key", "orders/0/4 duplicate-key", "orders/0/5 validation"},
	})
	want := stored(t, h)
	for from := range writes {
		write(t, h.Sink, writes[from:]...)
		for _, w := range writes[from:] {
			write(t, h.Sink, w)
		}
		if diff := gocmp.Diff(want, stored(t, h)); diff != "" {
			t.Fatalf("after the suffix from %d again (-want +got):\n%s", from, diff)
		}
	}
}

func ownIDReplay(t *testing.T, h SinkHarness) {
	ids := []any{"A-1", int32(1), int64(1) << 40, bson.D{field("a", int32(1)), field("b", "x")}, nil, true, bson.Binary{Data: []byte{1}}}
	var writes []record.Write
	for i, id := range ids {
		writes = append(writes, SinkWrite(t, at(int64(i)), field("_id", id), field(SinkIntField, int32(i))))
	}
	n := int64(len(writes))
	expect(t, write(t, h.Sink, writes...), outcome{Written: n})
	expect(t, write(t, h.Sink, writes...), outcome{Duplicates: n})
	expectStored(t, h, writes...)
}

func ownIDTaken(t *testing.T, h SinkHarness) {
	first := SinkWrite(t, at(1), field("_id", "A-1"), field(SinkIntField, int32(1)))
	second := SinkWrite(t, at(2), field("_id", "A-1"), field(SinkIntField, int32(2)))
	expect(t, write(t, h.Sink, first), outcome{Written: 1})
	for range 2 {
		expect(t, write(t, h.Sink, second), outcome{Rejected: []string{"orders/0/2 duplicate-key"}})
	}
	expectStored(t, h, first)
}

func ownIDTakenInABatch(t *testing.T, h SinkHarness) {
	first, second := SinkWrite(t, at(1), field("_id", "A-1")), SinkWrite(t, at(2), field("_id", "A-1"))
	expect(t, write(t, h.Sink, first, second, SinkWrite(t, at(3))), outcome{Written: 2, Rejected: []string{"orders/0/2 duplicate-key"}})
	expectStored(t, h, first, SinkWrite(t, at(3)))
}

func firstThatIsNotRefused(t *testing.T, h SinkHarness) {
	writes := []record.Write{
		SinkWrite(t, at(1), field("_id", int32(1)), field(SinkIntField, "text")),
		SinkWrite(t, at(2), field("_id", int64(1)), field(SinkIntField, "text")),
		SinkWrite(t, at(3), field("_id", 1.0)), SinkWrite(t, at(4), field("_id", int32(1))), SinkWrite(t, at(3), field("_id", 1.0)),
	}
	rejected := []string{"orders/0/1 validation", "orders/0/2 validation", "orders/0/4 duplicate-key"}
	expect(t, write(t, h.Sink, writes...), outcome{Written: 1, Duplicates: 1, Rejected: rejected})
	expectStored(t, h, writes[2])
}

func otherIncarnation(t *testing.T, h SinkHarness) {
	old, recreated := at(0), at(0)
	recreated.Incarnation = 1
	plain := []record.Write{SinkWrite(t, old), SinkWrite(t, recreated)}
	expect(t, write(t, h.Sink, plain...), outcome{Written: 2})
	old.Offset, recreated.Offset = 1, 1
	first, second := SinkWrite(t, old, field("_id", "A")), SinkWrite(t, recreated, field("_id", "A"))
	expect(t, write(t, h.Sink, first, second), outcome{Written: 1, Rejected: []string{"orders/0/1 duplicate-key"}})
	expectStored(t, h, append(plain, first)...)
}

func ownIDLikeCoordinates(t *testing.T, h SinkHarness) {
	forged, plain := SinkWrite(t, at(1), field("_id", "orders/0/5")), SinkWrite(t, at(5))
	expect(t, write(t, h.Sink, forged, plain), outcome{Written: 1, Rejected: []string{"orders/0/5 duplicate-key"}})
	later := SinkWrite(t, at(8), field("_id", "orders/0/7"))
	expect(t, write(t, h.Sink, SinkWrite(t, at(7)), later), outcome{Written: 1, Rejected: []string{"orders/0/8 duplicate-key"}})
	expectStored(t, h, forged, SinkWrite(t, at(7)))
}

func uniqueFieldTaken(t *testing.T, h SinkHarness) {
	writes := []record.Write{
		SinkWrite(t, at(1), field(SinkUniqueField, "m1")), SinkWrite(t, at(2), field(SinkUniqueField, "m1")),
		SinkWrite(t, at(3), field(SinkUniqueField, "m2")),
	}
	expect(t, write(t, h.Sink, writes...), outcome{Written: 2, Rejected: []string{"orders/0/2 duplicate-key"}})
	expectStored(t, h, writes[0], writes[2])
}

func replayWithUniqueField(t *testing.T, h SinkHarness) {
	writes := []record.Write{
		SinkWrite(t, at(1), field(SinkUniqueField, "m1")), SinkWrite(t, at(2), field("_id", 1.5), field(SinkUniqueField, "m2")),
	}
	expect(t, write(t, h.Sink, writes...), outcome{Written: 2})
	expect(t, write(t, h.Sink, writes...), outcome{Duplicates: 2})
	expectStored(t, h, writes...)
}

func refusedDocument(t *testing.T, h SinkHarness) {
	writes := []record.Write{
		SinkWrite(t, at(1), field(SinkIntField, int32(1))), SinkWrite(t, at(2), field(SinkIntField, "two")),
		SinkWrite(t, at(3), field(SinkIntField, int32(3))),
	}
	expect(t, write(t, h.Sink, writes...), outcome{Written: 2, Rejected: []string{"orders/0/2 validation"}})
	expectStored(t, h, writes[0], writes[2])
}

func cancelledWrite(t *testing.T, h SinkHarness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := h.Sink.Write(ctx, []record.Write{SinkWrite(t, at(1))})
	if !errors.Is(err, context.Canceled) || fault.KindOf(err) != fault.Transient {
		t.Errorf("error = %v of kind %v, want a transient context.Canceled", err, fault.KindOf(err))
	}
	if r.Written != 0 || r.Duplicates != 0 || len(r.Rejected) != 0 {
		t.Errorf("result = %+v beside an error, want nothing", r)
	}
	expectStored(t, h)
}

func letter(offset int64) record.DeadLetter {
	r := recordAt(at(offset))
	r.Key = []byte{0xff, 0}
	r.Headers = []record.Header{{Key: "h", Value: []byte("v")}, {Key: "h", Value: nil}, {Key: "empty", Value: []byte{}}}
	return record.DeadLetter{Record: r, Class: "malformed-json", Reason: "no value"}
}

func buriedWhole(t *testing.T, h SinkHarness) {
	full, empty := letter(1), record.DeadLetter{Record: recordAt(at(2)), Class: "null-value", Reason: "null"}
	empty.Record.Value = nil
	odd := letter(3)
	odd.Record.Key, odd.Record.Headers = []byte{}, nil
	odd.Reason = "two\nlines \xff" + strings.Repeat("é", 2000)
	if err := h.Sink.Bury(t.Context(), "run-1", []record.DeadLetter{full, empty, odd}); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	expectBuried(t, h, "run-1", full, empty, odd)
}

// expectBuried compares everything but the reason, which a sink may shorten.
func expectBuried(t *testing.T, h SinkHarness, run string, want ...record.DeadLetter) {
	t.Helper()
	got := h.Letters(t)
	slices.SortFunc(got, func(a, b Buried) int { return int(a.Record.Offset - b.Record.Offset) })
	expected := []Buried{}
	for _, l := range want {
		expected = append(expected, Buried{DeadLetter: l, Run: run})
	}
	// A whole value in the report of a difference would be megabytes.
	sameBytes := gocmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })
	if !gocmp.Equal(expected, got, sameBytes, cmpopts.IgnoreFields(record.DeadLetter{}, "Reason")) {
		t.Errorf("letters = %.2000v, want %.2000v", fmt.Sprint(got), fmt.Sprint(expected))
	}
}

func buriedAgain(t *testing.T, h SinkHarness) {
	if err := h.Sink.Bury(t.Context(), "run-1", []record.DeadLetter{letter(1), letter(1), letter(2)}); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	if err := h.Sink.Bury(t.Context(), "run-2", []record.DeadLetter{letter(2), letter(1)}); err != nil {
		t.Fatalf("Bury again: %v", err)
	}
	expectBuried(t, h, "run-1", letter(1), letter(2))
}

func buriedIncarnations(t *testing.T, h SinkHarness) {
	old, recreated := letter(1), letter(1)
	recreated.Incarnation = 1
	if err := h.Sink.Bury(t.Context(), "run", []record.DeadLetter{old, recreated}); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	if got := h.Letters(t); len(got) != 2 {
		t.Errorf("%d letters, want 2", len(got))
	}
}

func buriedLarge(t *testing.T, h SinkHarness) {
	large := letter(1)
	large.Record.Value = bytes.Repeat([]byte("0123456789"), 1_700_001)
	for range 2 {
		if err := h.Sink.Bury(t.Context(), "run", []record.DeadLetter{letter(0), large, letter(2)}); err != nil {
			t.Fatalf("Bury: %v", err)
		}
	}
	expectBuried(t, h, "run", letter(0), large, letter(2))
}

func cancelledBury(t *testing.T, h SinkHarness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Sink.Bury(ctx, "run", []record.DeadLetter{letter(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

func concurrentWriters(t *testing.T, h SinkHarness) {
	var writes []record.Write
	for i := range int64(50) {
		writes = append(writes, SinkWrite(t, at(2*i)), SinkWrite(t, at(2*i+1), field("_id", i)))
	}
	const writers = 4
	results := make([]record.WriteResult, writers)
	errs := make([]error, writers)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { results[i], errs[i] = h.Sink.Write(t.Context(), writes) })
	}
	group.Wait()
	var total record.WriteResult
	for i, r := range results {
		if errs[i] != nil {
			t.Fatalf("Write: %v", errs[i])
		}
		total.Written += r.Written
		total.Duplicates += r.Duplicates
		total.Rejected = append(total.Rejected, r.Rejected...)
	}
	if total.Written != 100 || total.Duplicates != 300 || len(total.Rejected) != 0 {
		t.Errorf("written %d, duplicates %d, rejected %d, want 100, 300, 0", total.Written, total.Duplicates, len(total.Rejected))
	}
	expectStored(t, h, writes...)
}
