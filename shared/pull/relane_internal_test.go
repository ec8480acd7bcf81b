package pull

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// drawPipeline is what the lanes of a pipeline may know after any number of runs.
func drawPipeline(t *rapid.T, lanes int) record.Pipeline {
	p := record.Pipeline{Layout: 1, Identity: map[string]string{"sink": "shop.orders"}}
	for lane := range lanes {
		p.Lanes = append(p.Lanes, record.Checkpoint{
			Schema: record.Schema, Lane: lane, Lanes: lanes, Layout: 1, Seq: rapid.Int64Range(0, 99).Draw(t, "seq"),
			Lease:    record.Lease{Epoch: rapid.Int64Range(0, 9).Draw(t, "epoch")},
			Identity: map[string]string{"sink": "shop.orders"}, Topics: map[string]record.Topic{},
			Offsets: map[record.Partition]record.Position{}, Missing: map[record.Partition]record.Missing{},
			GapRecords: rapid.Int64Range(0, 1000).Draw(t, "forgotten"), Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 0,
		})
	}
	for i := range rapid.IntRange(0, 40).Draw(t, "partitions") {
		partition := record.Partition{Topic: fmt.Sprint("topic-", i%3), ID: int32(i / 3)}
		doc := &p.Lanes[partition.Lane(lanes)]
		doc.Topics[partition.Topic] = record.Topic{ID: "id-" + partition.Topic, Incarnation: int64(i % 3)}
		doc.Offsets[partition] = record.Position{Offset: rapid.Int64Range(0, 1e6).Draw(t, "offset"), LeaderEpoch: int32(i)}
		if rapid.IntRange(0, 5).Draw(t, "missing") == 0 {
			doc.Missing[partition] = record.Missing{Runs: i}
		}
		if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
			keepGaps(doc, []record.Gap{{Range: record.Range{Partition: partition, From: 1, To: int64(i + 2)}, SeenAt: time.Unix(int64(i), 0)}})
		}
		doc.Rejects = append(doc.Rejects, record.RejectCount{Records: 10, Rejected: int64(i % 2)})
	}
	return p
}

// known is what must be the same before and after, whoever has it.
type known struct {
	Offsets    map[record.Partition]record.Position
	Missing    map[record.Partition]record.Missing
	Gaps       map[string]int
	GapRecords int64
	Paused     bool
	Topics     map[record.Partition]record.Topic // as the lane of the partition has it
}

func everything(p record.Pipeline) known {
	k := known{
		Offsets: map[record.Partition]record.Position{}, Missing: map[record.Partition]record.Missing{},
		Gaps: map[string]int{}, Topics: map[record.Partition]record.Topic{},
	}
	for _, doc := range p.Lanes {
		for partition, position := range doc.Offsets {
			k.Offsets[partition] = position
			k.Topics[partition] = doc.Topics[partition.Topic]
		}
		for partition, missing := range doc.Missing {
			k.Missing[partition] = missing
		}
		for _, gap := range doc.Gaps {
			k.Gaps[gap.String()]++
		}
		k.GapRecords += doc.GapRecords
		k.Paused = k.Paused || doc.Paused
	}
	return k
}

func TestRelane_KeepsWhatIsKnownWithTheLaneThatOwnsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.IntRange(1, 9).Draw(t, "from"), rapid.IntRange(1, 9).Draw(t, "to")
		before := drawPipeline(t, from)
		untouched := before.Clone()
		after, err := relane(before, to, 2, "run")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(untouched, before); diff != "" {
			t.Fatalf("it changed what it was given (-was +is):\n%s", diff)
		}
		if err := after.Consistent(); err != nil || after.Layout != 2 {
			t.Fatalf("layout %d: %v", after.Layout, err)
		}
		if diff := cmp.Diff(everything(before), everything(after)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		for lane, doc := range after.Lanes {
			for partition := range doc.Offsets {
				if partition.Lane(to) != lane {
					t.Errorf("%s is in lane %d of %d", partition, lane, to)
				}
			}
			if err := doc.Check(); err != nil {
				t.Error(err)
			}
			checkFences(t, before, doc)
		}
	})
}

// checkFences holds a new lane to be above every old one, to know every topic, and to be paused if one was.
func checkFences(t *rapid.T, before record.Pipeline, doc record.Checkpoint) {
	for _, old := range before.Lanes {
		if doc.Seq <= old.Seq || doc.Lease.Epoch <= old.Lease.Epoch || doc.Lease.Holder != "" {
			t.Errorf("lane %d: seq %d and epoch %d are not above %d and %d", doc.Lane, doc.Seq, doc.Lease.Epoch, old.Seq, old.Lease.Epoch)
		}
		if old.Paused && !doc.Paused {
			t.Errorf("lane %d is not paused, and one before it was", doc.Lane)
		}
		for name := range old.Topics {
			if _, ok := doc.Topics[name]; !ok {
				t.Errorf("lane %d does not know topic %s: its partitions would be started anew", doc.Lane, name)
			}
		}
	}
}

func TestRelane_RejectsStayAShareOfTheRecentPast(t *testing.T) {
	t.Parallel()
	p := record.Pipeline{Layout: 1, Lanes: []record.Checkpoint{
		{Lane: 0, Lanes: 2, Layout: 1, Rejects: []record.RejectCount{{Records: 100, Rejected: 1}, {Records: 10, Rejected: 5}}},
		{Lane: 1, Lanes: 2, Layout: 1, Rejects: []record.RejectCount{{Records: 40}}},
	}}
	one, err := relane(p, 1, 2, "run")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]record.RejectCount{{Records: 100, Rejected: 1}, {Records: 50, Rejected: 5}}, one.Lanes[0].Rejects); diff != "" {
		t.Errorf("two in one (-want +got):\n%s", diff)
	}
	four, err := relane(p, 4, 2, "run")
	if err != nil {
		t.Fatal(err)
	}
	for lane, doc := range four.Lanes {
		if diff := cmp.Diff(p.Lanes[lane%2].Rejects, doc.Rejects); diff != "" {
			t.Errorf("lane %d of 4 has partitions of lane %d of 2 only (-want +got):\n%s", lane, lane%2, diff)
		}
	}
}

// orders/0 and orders/2 are in lane 0 of 2, orders/1 in lane 1.
func disagreeing(a, b record.Topic) record.Pipeline {
	at := func(ids ...int32) map[record.Partition]record.Position {
		offsets := map[record.Partition]record.Position{}
		for _, id := range ids {
			offsets[record.Partition{Topic: "orders", ID: id}] = record.Position{Offset: 5}
		}
		return offsets
	}
	return record.Pipeline{Layout: 1, Lanes: []record.Checkpoint{
		{Lane: 0, Lanes: 2, Layout: 1, Topics: map[string]record.Topic{"orders": a}, Offsets: at(0, 2)},
		{Lane: 1, Lanes: 2, Layout: 1, Topics: map[string]record.Topic{"orders": b}, Offsets: at(1)},
	}}
}

func TestRelane_LanesThatDisagree_AreNotMadeOne(t *testing.T) {
	t.Parallel()
	twice := disagreeing(record.Topic{}, record.Topic{})
	twice.Lanes[1].Offsets[record.Partition{Topic: "orders", ID: 0}] = record.Position{Offset: 7}
	identity := disagreeing(record.Topic{}, record.Topic{})
	identity.Lanes[0].Identity = map[string]string{"sink": "shop.orders"}
	identity.Lanes[1].Identity = map[string]string{"sink": "shop.other"}
	for name, test := range map[string]struct {
		p     record.Pipeline
		parts []string
	}{
		"incarnation": {disagreeing(record.Topic{ID: "x"}, record.Topic{ID: "x", Incarnation: 1}), []string{"topic orders", "incarnation 0", "incarnation 1", "multiple of 2"}},
		"rewrite":     {disagreeing(record.Topic{}, record.Topic{Rewrite: 1}), []string{"rewrite 0", "rewrite 1"}},
		"id":          {disagreeing(record.Topic{ID: "x"}, record.Topic{ID: "y"}), []string{`"x"`, `"y"`}},
		"position":    {twice, []string{"orders/0", "lane 0", "lane 1", "5 and 7"}},
		"identity":    {identity, []string{"shop.orders", "shop.other"}},
	} {
		_, err := relane(test.p, 1, 2, "run")
		if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != "lanes-disagree" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range test.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
	}
}

// A multiple of the lanes never brings two old lanes together, so what they say differently may stay so.
func TestRelane_LanesThatDisagree_MayBeSplit(t *testing.T) {
	t.Parallel()
	p := disagreeing(record.Topic{ID: "x"}, record.Topic{ID: "x", Incarnation: 1})
	four, err := relane(p, 4, 2, "run")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(everything(p).Topics, everything(four).Topics); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	// One that does not know the id leaves it to the one that does.
	one, err := relane(disagreeing(record.Topic{}, record.Topic{ID: "x"}), 1, 2, "run")
	if err != nil || one.Lanes[0].Topics["orders"].ID != "x" {
		t.Errorf("%+v, %v", one.Lanes, err)
	}
}

func TestRelane_KeepsTheLatestGapsAndTheTotalOfAll(t *testing.T) {
	t.Parallel()
	p := record.Pipeline{Layout: 1, Lanes: []record.Checkpoint{{Lane: 0, Lanes: 2, Layout: 1}, {Lane: 1, Lanes: 2, Layout: 1}}}
	for i := range 2 * keptGaps {
		gap := record.Gap{Range: record.Range{Partition: record.Partition{Topic: "orders", ID: int32(i % 2)}, From: 0, To: 3}, SeenAt: time.Unix(int64(i), 0)}
		keepGaps(&p.Lanes[i%2], []record.Gap{gap})
	}
	one, err := relane(p, 1, 2, "run")
	if err != nil {
		t.Fatal(err)
	}
	doc := one.Lanes[0]
	if len(doc.Gaps) != keptGaps || doc.Gaps[0].SeenAt != time.Unix(keptGaps, 0) || doc.GapRecords != 2*keptGaps*3 {
		t.Errorf("%d gaps from %s on, %d records in all", len(doc.Gaps), doc.Gaps[0].SeenAt, doc.GapRecords)
	}
}
