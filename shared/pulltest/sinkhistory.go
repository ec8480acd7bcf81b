package pulltest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/record"
)

// event is one record of a key.
type event struct {
	guard   record.Guard
	deletes bool
}

// history is what Kafka holds for one key: records of several partitions, those of one partition in order.
type history []event

const (
	historyBase = 1_700_000_000_000
	historyPack = 250
)

// TestSinkHistories delivers many small histories, each to a key of its own, in orders that keep those of a partition:
// in one batch, one by one, and cut anywhere; then a suffix again. The collection must end as a fold over the history
// says, which knows nothing of the order of delivery. Rounds is how many packs of histories are delivered; exhaustive
// adds all histories of three records.
func TestSinkHistories(t *testing.T, open func(t *testing.T, setup SinkSetup) SinkHarness, rounds int, exhaustive bool) {
	t.Helper()
	for _, setup := range []SinkSetup{
		{Mode: record.Upsert}, {Mode: record.Upsert, Deletes: true}, {Mode: record.Update}, {Mode: record.Update, Deletes: true},
	} {
		t.Run(fmt.Sprintf("%s, deletions %t", setup.Mode, setup.Deletes), func(t *testing.T) {
			t.Parallel()
			h := open(t, setup)
			pack := rapid.SliceOfN(drawHistory(setup), historyPack, historyPack)
			for round := range rounds {
				deliverPack(t, h, setup, uint64(round), pack.Example(round))
			}
			if exhaustive && setup.Mode == record.Upsert {
				deliverPack(t, h, setup, 1_000_000, allHistories(setup))
			}
		})
	}
}

// drawHistory draws 3 to 5 records of up to 3 partitions. An update is exact for keys that stay in one partition.
func drawHistory(setup SinkSetup) *rapid.Generator[history] {
	partitions := int32(3)
	if setup.Mode == record.Update {
		partitions = 1
	}
	return rapid.Custom(func(t *rapid.T) history {
		n := rapid.IntRange(3, 5).Draw(t, "records")
		h := make(history, 0, n)
		last := map[int32]record.Guard{}
		for range n {
			partition := rapid.Int32Range(0, partitions-1).Draw(t, "partition")
			g, known := last[partition]
			if !known {
				g = record.Guard{Topic: "orders", Partition: partition, Offset: rapid.Int64Range(-1, 3).Draw(t, "start")}
			}
			switch epoch := rapid.IntRange(0, 9).Draw(t, "epoch"); {
			case known && epoch == 0:
				g.Incarnation, g.Offset, g.Rewrite = g.Incarnation+1, 0, 0
			case known && epoch == 1:
				g.Rewrite++ // the same record again, as an operator asked
			default:
				g.Offset++
			}
			g.Timestamp = historyBase + rapid.Int64Range(1, 4).Draw(t, "timestamp")
			last[partition] = g
			h = append(h, event{g, setup.Deletes && rapid.IntRange(0, 2).Draw(t, "op") == 0})
		}
		return h
	})
}

// allHistories are all histories of three records of up to three partitions at up to three times.
func allHistories(setup SinkSetup) []history {
	ops := 1
	if setup.Deletes {
		ops = 2
	}
	choices := 3 * 3 * ops
	var all []history
	for n := range choices * choices * choices {
		h := make(history, 3)
		for i := range h {
			choice := n % choices
			n /= choices
			h[i] = event{record.Guard{
				Topic: "orders", Partition: int32(choice % 3), Offset: int64(i), Timestamp: historyBase + int64(choice/3%3),
			}, choice >= 9}
		}
		all = append(all, h)
	}
	return all
}

// deliverPack delivers each history to three keys, one for each way, and compares what is stored.
func deliverPack(t *testing.T, h SinkHarness, setup SinkSetup, seed uint64, pack []history) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	want := map[string]string{}
	origin := map[string]history{}
	var calls [12][]record.Write // the calls of Write, of which each takes a part of each history
	for i, one := range pack {
		for way := range 3 {
			id := fmt.Sprintf("%d/%d/%d", seed, i, way)
			order := shuffled(random, one)
			suffix := order[random.IntN(len(order)):]
			origin[id] = order
			if doc := folded(t, setup, id, one); doc != "" {
				want[id] = doc
			}
			for part, events := range [][]event{order, suffix} {
				at := cuts(random, way, len(events))
				for j, e := range events {
					call := 6*part + at[j]
					calls[call] = append(calls[call], e.write(t, id))
				}
			}
		}
	}
	for i, writes := range calls {
		write(t, h.Sink, writes...)
		// A suffix again could hide what went wrong before it.
		if i == len(calls)/2-1 || i == len(calls)-1 {
			comparePack(t, h, seed, want, origin)
		}
	}
}

func comparePack(t *testing.T, h SinkHarness, seed uint64, want map[string]string, origin map[string]history) {
	t.Helper()
	found := 0
	for _, d := range h.Documents(t) {
		id, ok := d.Lookup("_id").StringValueOK()
		if !ok || !strings.HasPrefix(id, fmt.Sprintf("%d/", seed)) {
			continue
		}
		if got := d.String(); got != want[id] {
			t.Errorf("%s, delivered as %v:\n got %s\nwant %s", id, origin[id], got, want[id])
		}
		found++
	}
	if found != len(want) {
		t.Errorf("%d documents of pack %d, want %d", found, seed, len(want))
	}
}

// shuffled returns an order that keeps those of the partitions.
func shuffled(random *rand.Rand, h history) history {
	left := slices.Clone(h)
	order := make(history, 0, len(h))
	for len(left) > 0 {
		partition := left[random.IntN(len(left))].guard.Partition
		next := slices.IndexFunc(left, func(e event) bool { return e.guard.Partition == partition })
		order = append(order, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return order
}

// cuts returns for each event the call that it is in: all in one, each in its own, or any.
func cuts(random *rand.Rand, way, n int) []int {
	at := make([]int, n)
	for i := 1; i < n; i++ {
		at[i] = at[i-1] + []int{0, 1, random.IntN(2)}[way]
	}
	return at
}

func (e event) write(t *testing.T, id string) record.Write {
	t.Helper()
	if e.deletes {
		return SinkDelete(t, e.guard, id)
	}
	g := e.guard
	return SinkWrite(t, g, field("_id", id), field(fmt.Sprintf("f%d", g.Offset%2), g.Offset), field("last", fmt.Sprint(g.Incarnation, g.Rewrite, g.Partition, g.Offset)))
}

// folded is the document that a history ends in, "" for none.
func folded(t *testing.T, setup SinkSetup, id string, h history) string {
	t.Helper()
	newest, found := event{}, false
	highest := map[record.Guard]int64{} // timestamp of each partition so far
	var doc bson.D
	for _, e := range h {
		partition := e.guard
		partition.Offset, partition.Timestamp = 0, 0
		highest[partition] = max(highest[partition], e.guard.Timestamp)
		e.guard.Timestamp = highest[partition]
		if found && compareHistory(e.guard, newest.guard) <= 0 {
			continue
		}
		newest, found = e, true
		if setup.Mode == record.Upsert || e.deletes {
			doc = nil
		}
		if !e.deletes {
			doc = setFields(doc, bson.Raw(e.write(t, id).Document))
		}
	}
	if newest.deletes {
		return ""
	}
	raw, err := bson.Marshal(setField(doc, field(SinkGuardField, guardDocument(newest.guard))))
	if err != nil {
		t.Fatal(err)
	}
	return bson.Raw(raw).String()
}

// compareHistory orders records by what a fold knows of them: the highest timestamp of their partition so far.
func compareHistory(a, b record.Guard) int {
	return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Rewrite, b.Rewrite), cmp.Compare(a.Timestamp, b.Timestamp),
		cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}
