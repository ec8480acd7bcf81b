package pulltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/record"
)

// keyedCase is one promise of the keyed modes.
type keyedCase struct {
	name string
	run  func(*testing.T, SinkHarness)
}

func testKeyed(t *testing.T, open func(t *testing.T, setup SinkSetup) SinkHarness) {
	t.Helper()
	both := []keyedCase{
		{"nothing to write is a success", nothingToWrite},
		{"a new key is stored as it is", keyedStoredAsItIs},
		{"the same again is a duplicate", keyedAgain},
		{"the last of a key in one batch stays", keyedOrder},
		{"an older record of the partition is without effect", keyedOlder},
		{"in one partition the offset decides, and the timestamp only rises", keyedClockBack},
		{"between partitions the timestamp decides, then the name", keyedPartitions},
		{"three partitions end the same in every order", keyedThreePartitions},
		{"a higher incarnation, then a higher rewrite wins", keyedEpochs},
		{"a document without a guard is older than any record", keyedNoGuard},
		{"ids that are equal by value are one key, in order", keyedEqualIDs},
		{"one bad record among many is rejected alone", keyedOneBad},
		{"a refused record leaves the one before it", keyedRefusedLast},
		{"what a refused record leaves takes effect before what follows", keyedRefusedBetween},
		{"a taken unique field rejects that record only", keyedUnique},
		{"an _id that no server stores is rejected", keyedBadID},
		{"a cancelled call stores and counts nothing", cancelledWrite},
		{"any suffix again changes nothing", keyedSuffix},
	}
	deletes := []keyedCase{
		{"a deletion removes the document", deleteRemoves},
		{"a deletion of a key that is not there is a success", deleteNothing},
		{"what is older than a deletion does not come back", deleteThenOlder},
		{"what is newer than a deletion is stored", deleteThenNewer},
		{"a deletion that is older than the document is without effect", deleteOlder},
		{"put, delete, put in one batch leaves the last put", deleteBetween},
		{"a deletion hands its partition's timestamp on", deleteTimestamp},
	}
	for _, mode := range []record.Mode{record.Upsert, record.Update} {
		own := keyedCase{"a record replaces the whole document", upsertReplaces}
		if mode == record.Update {
			own = keyedCase{"a record sets its fields and leaves the others", updateSets}
		}
		for _, setup := range []SinkSetup{{Mode: mode}, {Mode: mode, Deletes: true}} {
			cases := append(slices.Clone(both), own)
			if setup.Deletes {
				cases = append(cases, deletes...)
			}
			for _, c := range cases {
				t.Run(fmt.Sprintf("%s, deletions %t/%s", setup.Mode, setup.Deletes, c.name), func(t *testing.T) {
					t.Parallel()
					c.run(t, open(t, setup))
				})
			}
		}
	}
}

// of returns a guard of a partition and an offset at a time in seconds.
func of(partition int32, offset, seconds int64) record.Guard {
	return record.Guard{Topic: "orders", Partition: partition, Offset: offset, Timestamp: 1_700_000_000_000 + 1000*seconds}
}

// put is a write of key "k" that names itself.
func put(t *testing.T, g record.Guard, fields ...bson.E) record.Write {
	t.Helper()
	return SinkWrite(t, g, append([]bson.E{field("_id", "k"), field("v", fmt.Sprintf("%d/%d", g.Partition, g.Offset))}, fields...)...)
}

func keyedStoredAsItIs(t *testing.T, h SinkHarness) {
	w := SinkWrite(t, at(1), field("_id", "k"), field("s", bson.D{field("$x", int32(1)), field("a.b", nil)}))
	other := SinkWrite(t, at(2), field("_id", bson.D{field("a", int32(1)), field("b", "x")}), field(SinkIntField, int32(1)))
	expect(t, write(t, h.Sink, w, other), outcome{Written: 2})
	expectStored(t, h, w, other)
}

func keyedAgain(t *testing.T, h SinkHarness) {
	ids := []any{"A-1", int32(1), int64(1) << 40, bson.D{field("a", int32(1))}, nil, true, bson.Binary{Data: []byte{1}}, 0.1}
	var writes []record.Write
	for i, id := range ids {
		writes = append(writes, SinkWrite(t, at(int64(i)), field("_id", id)))
	}
	n := int64(len(writes))
	expect(t, write(t, h.Sink, writes...), outcome{Written: n})
	expect(t, write(t, h.Sink, writes...), outcome{Duplicates: n})
	// The first call of a sink may have learnt that keys are new: now most of them are not.
	expect(t, write(t, h.Sink, append(writes, put(t, at(99)))...), outcome{Written: 1, Duplicates: n})
	expectStored(t, h, append(writes, put(t, at(99)))...)
}

func keyedOrder(t *testing.T, h SinkHarness) {
	var writes []record.Write
	for i := range int64(20) {
		writes = append(writes, put(t, of(0, i, i)), SinkWrite(t, of(0, 100+i, i), field("_id", i)))
	}
	expect(t, write(t, h.Sink, writes...), outcome{Written: 40})
	want := []record.Write{put(t, of(0, 19, 19))}
	for i := range int64(20) {
		want = append(want, writes[2*i+1])
	}
	expectStored(t, h, want...)
}

func keyedOlder(t *testing.T, h SinkHarness) {
	first, second := put(t, of(0, 1, 1)), put(t, of(0, 2, 2))
	expect(t, write(t, h.Sink, first), outcome{Written: 1})
	expect(t, write(t, h.Sink, second), outcome{Written: 1})
	for range 2 {
		expect(t, write(t, h.Sink, first), outcome{Duplicates: 1})
	}
	expectStored(t, h, second)
}

func keyedClockBack(t *testing.T, h SinkHarness) {
	expect(t, write(t, h.Sink, put(t, of(0, 1, 9)), put(t, of(0, 2, 4))), outcome{Written: 2})
	lifted := of(0, 2, 9)
	expectStored(t, h, put(t, lifted))
	expect(t, write(t, h.Sink, put(t, of(1, 7, 8))), outcome{Duplicates: 1})
	expectStored(t, h, put(t, lifted))
}

func keyedPartitions(t *testing.T, h SinkHarness) {
	newest := put(t, of(3, 0, 8))
	expect(t, write(t, h.Sink, newest, put(t, of(0, 950, 2))), outcome{Written: 1, Duplicates: 1})
	expectStored(t, h, newest)
	expect(t, write(t, h.Sink, put(t, of(2, 951, 8))), outcome{Duplicates: 1})
	expect(t, write(t, h.Sink, put(t, of(4, 0, 8))), outcome{Written: 1})
	renamed := of(0, 0, 8)
	renamed.Topic = "orders.eu"
	expect(t, write(t, h.Sink, put(t, renamed)), outcome{Written: 1})
	expectStored(t, h, put(t, renamed))
}

func keyedThreePartitions(t *testing.T, h SinkHarness) {
	// A key of its own for each order that keeps those of partition 0.
	a, b, c := of(0, 1, 9), of(1, 5, 5), of(0, 2, 2)
	orders := [][]record.Guard{{a, b, c}, {a, c, b}, {b, a, c}}
	var want, all []record.Write
	for i, order := range orders {
		for _, g := range order {
			all = append(all, SinkWrite(t, g, field("_id", int32(i)), field("v", g.Offset)))
		}
		last := c
		last.Timestamp = a.Timestamp
		want = append(want, SinkWrite(t, last, field("_id", int32(i)), field("v", c.Offset)))
	}
	write(t, h.Sink, all...)
	expectStored(t, h, want...)
	for i, order := range orders {
		for _, g := range order {
			write(t, h.Sink, SinkWrite(t, g, field("_id", int32(i+len(orders))), field("v", g.Offset)))
		}
		last := c
		last.Timestamp = a.Timestamp
		want = append(want, SinkWrite(t, last, field("_id", int32(i+len(orders))), field("v", c.Offset)))
	}
	expectStored(t, h, want...)
}

func keyedEpochs(t *testing.T, h SinkHarness) {
	old, rewritten, recreated := of(0, 950, 9), of(0, 1, 1), of(0, 0, 0)
	rewritten.Rewrite, recreated.Incarnation = 1, 1
	for _, g := range []record.Guard{old, rewritten, recreated} {
		expect(t, write(t, h.Sink, put(t, g)), outcome{Written: 1})
		expectStored(t, h, put(t, g))
	}
	for _, g := range []record.Guard{old, rewritten, recreated} {
		expect(t, write(t, h.Sink, put(t, g)), outcome{Duplicates: 1})
	}
	expectStored(t, h, put(t, recreated))
}

func keyedNoGuard(t *testing.T, h SinkHarness) {
	for i, guard := range []any{nil, "text", bson.D{field("topic", "orders"), field("incarnation", "first")}, bson.A{int32(1)}} {
		raw, err := bson.Marshal(bson.D{field("_id", int32(i)), field("v", "old"), field(SinkGuardField, guard)})
		if err != nil {
			t.Fatal(err)
		}
		h.Store(t, raw)
		expect(t, write(t, h.Sink, SinkWrite(t, of(0, 0, 0), field("_id", int32(i)), field("v", "new"))), outcome{Written: 1})
	}
	for _, d := range h.Documents(t) {
		if v := d.Lookup("v").StringValue(); v != "new" {
			t.Errorf("%v is still there", d)
		}
	}
}

func keyedEqualIDs(t *testing.T, h SinkHarness) {
	decimal, err := bson.ParseDecimal128("1.00")
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range [][]any{
		{int32(1), 1.0, decimal, int64(1)},
		{"s", bson.Symbol("s")},
		{bson.D{field("a", int32(1))}, bson.D{field("a", 1.0)}},
		{int64(1) << 60, float64(1 << 60)},
		{math.Copysign(0, -1), int32(0)},
	} {
		var writes []record.Write
		for i, id := range ids {
			writes = append(writes, SinkWrite(t, of(0, int64(i), int64(i)), field("_id", id), field("v", int32(i))))
		}
		first, _ := h.Sink.Order(writes[0])
		last, matters := h.Sink.Order(writes[len(writes)-1])
		if first != last || !matters {
			t.Errorf("%v and %v have the orders %d and %d", ids[0], ids[len(ids)-1], first, last)
		}
		expect(t, write(t, h.Sink, writes...), outcome{Written: int64(len(writes))})
		for _, w := range writes[:len(writes)-1] {
			expect(t, write(t, h.Sink, w), outcome{Duplicates: 1})
		}
	}
	newest := map[string]int32{}
	for _, d := range h.Documents(t) {
		newest[valueKey(d.Lookup("_id"))] = d.Lookup("v").Int32()
	}
	want := map[string]int32{"n1": 3, valueKeyOf(t, "s"): 1, valueKeyOf(t, bson.D{field("a", int32(1))}): 1, "n1152921504606846976": 1, "n0": 1}
	if diff := gocmp.Diff(want, newest); diff != "" {
		t.Errorf("collection (-want +got):\n%s", diff)
	}
}

func valueKeyOf(t *testing.T, v any) string {
	t.Helper()
	kind, raw, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return valueKey(bson.RawValue{Type: kind, Value: raw})
}

func keyedOneBad(t *testing.T, h SinkHarness) {
	var writes, good []record.Write
	for i := range int64(10) {
		value := any(i)
		if i == 4 {
			value = "text"
		}
		writes = append(writes, SinkWrite(t, of(0, i, i), field("_id", i), field(SinkIntField, value)))
		if i != 4 {
			good = append(good, writes[i])
		}
	}
	for _, counts := range [][2]int64{{9, 0}, {0, 9}} {
		expect(t, write(t, h.Sink, writes...), outcome{Written: counts[0], Duplicates: counts[1], Rejected: []string{"orders/0/4 validation"}})
	}
	expectStored(t, h, good...)
}

func keyedRefusedLast(t *testing.T, h SinkHarness) {
	n := func(v any) bson.E { return field(SinkIntField, v) }
	writes := []record.Write{
		put(t, of(0, 1, 1), n(int32(1))), put(t, of(0, 2, 2), n(int32(2))), put(t, of(0, 3, 3), n("three")), put(t, of(0, 4, 4), n("four")),
		put(t, of(1, 9, 0), n("other")),
	}
	for range 2 {
		r := write(t, h.Sink, writes...)
		if got := r.Rejected; !slices.Contains(got, "orders/0/3 validation") || !slices.Contains(got, "orders/0/4 validation") {
			t.Errorf("rejected %v, want the offsets 3 and 4", got)
		}
		expectStored(t, h, writes[1])
	}
}

func keyedRefusedBetween(t *testing.T, h SinkHarness) {
	for i, size := range []int{4, 1} {
		of := func(partition int32, offset, seconds int64, n any) record.Write {
			return SinkWrite(t, of(partition, offset, seconds), field("_id", int32(i)), field(SinkIntField, n))
		}
		writes := []record.Write{of(0, 1, 9, int32(1)), of(0, 2, 9, "bad"), of(1, 7, 5, int32(7)), of(0, 3, 2, int32(3))}
		for batch := range slices.Chunk(writes, size) {
			write(t, h.Sink, batch...)
		}
	}
	for _, d := range h.Documents(t) {
		guard, _ := readGuard(d.Lookup(SinkGuardField))
		if d.Lookup(SinkIntField).Int32() != 3 || guard != of(0, 3, 9) {
			t.Errorf("%v is there, want offset 3 with the timestamp of offset 1", d)
		}
	}
}

func keyedUnique(t *testing.T, h SinkHarness) {
	first := SinkWrite(t, of(0, 1, 1), field("_id", "a"), field(SinkUniqueField, "m1"))
	second := SinkWrite(t, of(0, 2, 2), field("_id", "b"), field(SinkUniqueField, "m1"))
	third := SinkWrite(t, of(0, 3, 3), field("_id", "c"), field(SinkUniqueField, "m3"))
	expect(t, write(t, h.Sink, first, second, third), outcome{Written: 2, Rejected: []string{"orders/0/2 duplicate-key"}})
	expect(t, write(t, h.Sink, first, third), outcome{Duplicates: 2})
	expectStored(t, h, first, third)
}

func keyedBadID(t *testing.T, h SinkHarness) {
	good := put(t, of(0, 9, 9))
	expect(t, write(t, h.Sink, good,
		SinkWrite(t, of(0, 1, 1), field("_id", bson.A{int32(1)})), SinkWrite(t, of(0, 2, 2), field("_id", bson.Regex{Pattern: "k"})),
		SinkWrite(t, of(0, 3, 3), field("_id", bson.D{field("$gt", "")})),
	), outcome{Written: 1, Rejected: []string{"orders/0/1 bad-id", "orders/0/2 bad-id", "orders/0/3 bad-id"}})
	expectStored(t, h, good)
}

func keyedSuffix(t *testing.T, h SinkHarness) {
	var writes []record.Write
	for i := range int64(24) {
		writes = append(writes, SinkWrite(t, of(int32(i%3), i, (i*7)%5), field("_id", (i*5)%4), field("v", i)))
	}
	write(t, h.Sink, writes...)
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

func upsertReplaces(t *testing.T, h SinkHarness) {
	write(t, h.Sink, put(t, of(0, 1, 1), field("a", int32(1)), field("b", int32(1))))
	last := put(t, of(0, 2, 2), field("a", int32(2)))
	expect(t, write(t, h.Sink, last), outcome{Written: 1})
	expectStored(t, h, last)
}

func updateSets(t *testing.T, h SinkHarness) {
	first := SinkWrite(t, of(0, 1, 1), field("_id", "k"), field("a", int32(1)), field("s", bson.D{field("x", int32(1)), field("$y", "$a")}))
	second := SinkWrite(t, of(0, 2, 2), field("_id", "k"), field("s", bson.D{field("z", int32(2))}), field("b", "$a"))
	third := SinkWrite(t, of(0, 3, 3), field("_id", "k"), field("c", int32(3)))
	older := SinkWrite(t, of(1, 1, 1), field("_id", "k"), field("old", int32(1)))
	expect(t, write(t, h.Sink, first, second, third, older), outcome{Written: 3, Duplicates: 1})
	want := record.Write{}
	raw, err := bson.Marshal(bson.D{
		field("_id", "k"), field("a", int32(1)), field("s", bson.D{field("z", int32(2))}), field(SinkGuardField, guardDocument(of(0, 3, 3))),
		field("b", "$a"), field("c", int32(3)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want.Document = raw
	expectStored(t, h, want)
}

func deleteRemoves(t *testing.T, h SinkHarness) {
	write(t, h.Sink, put(t, of(0, 1, 1)), SinkWrite(t, of(0, 2, 2), field("_id", "other")))
	gone := SinkDelete(t, of(0, 3, 3), "k")
	expect(t, write(t, h.Sink, gone), outcome{Written: 1})
	expect(t, write(t, h.Sink, gone), outcome{Duplicates: 1})
	expectStored(t, h, SinkWrite(t, of(0, 2, 2), field("_id", "other")))
}

func deleteNothing(t *testing.T, h SinkHarness) {
	expect(t, write(t, h.Sink, SinkDelete(t, of(0, 3, 3), "k"), SinkDelete(t, of(0, 4, 4), int32(7))), outcome{Written: 2})
	expectStored(t, h)
}

func deleteThenOlder(t *testing.T, h SinkHarness) {
	puts := []record.Write{put(t, of(0, 1, 1)), put(t, of(0, 2, 2))}
	write(t, h.Sink, puts...)
	write(t, h.Sink, SinkDelete(t, of(0, 3, 3), "k"))
	for _, w := range append(puts, put(t, of(1, 7, 2))) {
		expect(t, write(t, h.Sink, w), outcome{Duplicates: 1})
	}
	write(t, h.Sink, puts...)
	expectStored(t, h)
	equal := SinkWrite(t, of(0, 1, 1), field("_id", bson.Symbol("k")))
	expect(t, write(t, h.Sink, equal), outcome{Duplicates: 1})
	expectStored(t, h)
}

func deleteThenNewer(t *testing.T, h SinkHarness) {
	write(t, h.Sink, put(t, of(0, 1, 1), field("old", int32(1))))
	write(t, h.Sink, SinkDelete(t, of(0, 3, 3), "k"))
	last := put(t, of(0, 4, 4))
	expect(t, write(t, h.Sink, last), outcome{Written: 1})
	expect(t, write(t, h.Sink, SinkDelete(t, of(0, 3, 3), "k")), outcome{Duplicates: 1})
	expectStored(t, h, last)
}

func deleteOlder(t *testing.T, h SinkHarness) {
	stays := put(t, of(0, 5, 5))
	write(t, h.Sink, stays)
	expect(t, write(t, h.Sink, SinkDelete(t, of(0, 4, 4), "k"), SinkDelete(t, of(1, 4, 4), "k")), outcome{Duplicates: 2})
	expectStored(t, h, stays)
}

func deleteBetween(t *testing.T, h SinkHarness) {
	last := put(t, of(0, 3, 3), field("b", int32(3)))
	writes := []record.Write{put(t, of(0, 1, 1), field("a", int32(1))), SinkDelete(t, of(0, 2, 2), "k"), last}
	expect(t, write(t, h.Sink, writes...), outcome{Written: 3})
	expectStored(t, h, last)
	write(t, h.Sink, SinkDelete(t, of(0, 9, 9), "k"))
	write(t, h.Sink, writes...)
	expectStored(t, h)
}

func deleteTimestamp(t *testing.T, h SinkHarness) {
	write(t, h.Sink, put(t, of(0, 1, 9)))
	write(t, h.Sink, SinkDelete(t, of(0, 2, 2), "k"))
	expect(t, write(t, h.Sink, put(t, of(1, 1, 5))), outcome{Duplicates: 1})
	expect(t, write(t, h.Sink, put(t, of(0, 3, 3))), outcome{Written: 1})
	expectStored(t, h, put(t, of(0, 3, 9)))
}
