package window_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

func TestMake_GapIsNoProgress(t *testing.T) {
	t.Parallel()
	in := known(0, 0)
	moved := in.Checkpoint.Offsets[orders(1)]
	moved.MovedAt = noon().Add(-time.Hour)
	in.Checkpoint.Offsets[orders(1)] = moved
	in.Resume, in.MaxRecords = true, 1
	setLog(&in, "A1", map[int32]record.Bounds{0: bounds(0, 9), 1: bounds(3, 9)})
	plan := mustMake(t, in)
	pos := plan.Offsets[orders(1)]
	if pos.Offset != 3 || !pos.MovedAt.Equal(moved.MovedAt) {
		t.Errorf("position behind the gap is %+v, want offset 3 and the time of the last progress", pos)
	}
	if want := (record.Gap{
		Range: record.Range{Partition: orders(1), From: 0, To: 3}, Reason: "retention", SeenAt: noon(),
	}); !slices.Equal(plan.Gaps, []record.Gap{want}) {
		t.Errorf("gaps are %+v, want %+v", plan.Gaps, want)
	}
}

func TestMake_RecreatedTopicIsTheNextIncarnation(t *testing.T) {
	t.Parallel()
	in := known(5)
	setTopic(&in.Checkpoint, "orders", record.Topic{ID: "A1", Incarnation: 2, Rewrite: 1})
	in.Checkpoint.Offsets[orders(0)] = record.Position{Offset: 5, LogEnd: 12, LeaderEpoch: 4}
	in.Checkpoint.Missing = map[record.Partition]record.Missing{orders(0): {Runs: 1, Since: noon()}}
	in.Resume = true
	setLog(&in, "A2", map[int32]record.Bounds{0: bounds(0, 3)})
	if got := window.Stale(in.Checkpoint, in.Log); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("stale topics are %v", got)
	}
	plan := mustMake(t, in)
	if want := []window.Reset{{Topic: "orders", From: "A1", To: "A2", Incarnation: 3}}; !slices.Equal(plan.Resets, want) {
		t.Errorf("resets are %+v, want %+v", plan.Resets, want)
	}
	if want := (record.Topic{ID: "A2", Incarnation: 3, Rewrite: 1}); plan.Topics["orders"] != want {
		t.Errorf("topic is %+v, want %+v", plan.Topics["orders"], want)
	}
	if pos := plan.Offsets[orders(0)]; pos.LeaderEpoch != -1 || len(plan.Missing) != 0 {
		t.Errorf("something of the old log is kept: %+v, missing %v", pos, plan.Missing)
	}
	if len(plan.Notices) != 1 || !strings.Contains(plan.Notices[0], "7 offsets") {
		t.Errorf("the tail that was not read is not named: %q", plan.Notices)
	}
}

func TestStale_NeedsBothIDs(t *testing.T) {
	t.Parallel()
	checkpoint := record.Checkpoint{Topics: map[string]record.Topic{
		"imported": {}, "old-broker": {ID: "B1"}, "same": {ID: "C1"}, "gone": {ID: "D1"}, "z": {ID: "Z1"}, "a": {ID: "E1"},
	}}
	log := record.Log{Topics: map[string]record.TopicLog{
		"imported": {ID: "A1"}, "old-broker": {}, "same": {ID: "C1"}, "z": {ID: "Z2"}, "a": {ID: "E2"}, "new": {ID: "F1"},
	}}
	if got := window.Stale(checkpoint, log); !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("got %v, want [a z]", got)
	}
}

func TestMake_MissingPartition(t *testing.T) {
	t.Parallel()
	gone := map[int32]record.Bounds{0: bounds(0, 5)}
	back := map[int32]record.Bounds{0: bounds(0, 5), 1: bounds(0, 9)}
	since := noon()
	for name, c := range map[string]struct {
		resume bool
		stored record.Missing // Runs 0: none
		log    map[int32]record.Bounds
		want   record.Missing // Runs 0: none
		fatal  bool
		change bool
	}{
		"first time":             {log: gone, want: record.Missing{Runs: 1, Since: since}, change: true},
		"second time":            {stored: record.Missing{Runs: 1, Since: since.Add(-time.Hour)}, log: gone, want: record.Missing{Runs: 2, Since: since.Add(-time.Hour)}, change: true},
		"three quick runs":       {stored: record.Missing{Runs: 2, Since: since.Add(-time.Minute)}, log: gone, want: record.Missing{Runs: 3, Since: since.Add(-time.Minute)}, change: true},
		"more is not counted":    {stored: record.Missing{Runs: 3, Since: since.Add(-time.Minute)}, log: gone, want: record.Missing{Runs: 3, Since: since.Add(-time.Minute)}},
		"three runs, 10 minutes": {stored: record.Missing{Runs: 2, Since: since.Add(-10 * time.Minute)}, log: gone, fatal: true},
		"resume goes on":         {resume: true, stored: record.Missing{Runs: 3, Since: since.Add(-time.Hour)}, log: gone, want: record.Missing{Runs: 3, Since: since.Add(-time.Hour)}},
		"back again":             {stored: record.Missing{Runs: 3, Since: since.Add(-time.Hour)}, log: back, change: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := known(5, 9)
			in.Resume = c.resume
			if c.stored.Runs > 0 {
				in.Checkpoint.Missing = map[record.Partition]record.Missing{orders(1): c.stored}
			}
			setLog(&in, "A1", c.log)
			plan, err := window.Make(in)
			if c.fatal {
				lost, ok := errors.AsType[*window.LossError](err)
				if !ok || fault.ClassOf(err) != "partition-missing" || lost.Partition != orders(1) || lost.Offset != 9 {
					t.Fatalf("got %v, want partition-missing of orders/1", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Missing[orders(1)]; got != c.want {
				t.Errorf("missing is %+v, want %+v", got, c.want)
			}
			if got := plan.Offsets[orders(1)].Offset; got != 9 {
				t.Errorf("position is %d, want 9 as before", got)
			}
			if plan.Changed != c.change || len(plan.Gaps) > 0 {
				t.Errorf("changed %v, gaps %v; want %v, none", plan.Changed, plan.Gaps, c.change)
			}
			if wantNotice := c.want.Runs > 0; (len(plan.Notices) == 1) != wantNotice {
				t.Errorf("notices %q, want one: %v", plan.Notices, wantNotice)
			}
		})
	}
}

// assign was narrowed, the topic recreated, and assign widened again: the position of the partition that was not read in
// between is one of the old log, and the new log is read whole.
func TestMake_RecreatedTopicForgetsPartitionsThatAreNotOwnedToo(t *testing.T) {
	t.Parallel()
	in := known(500, 500)
	setTopic(&in.Checkpoint, "bills", record.Topic{ID: "B1"})
	bills := record.Partition{Topic: "bills", ID: 1}
	setOffset(&in.Checkpoint, bills, 70)
	in.Owns = func(p record.Partition) bool { return p.ID == 0 }
	in.Resume = true
	setLog(&in, "A2", map[int32]record.Bounds{0: bounds(0, 1000)})
	plan := mustMake(t, in)
	if pos, kept := plan.Offsets[orders(1)]; kept {
		t.Errorf("orders/1 keeps the position %d of the old log", pos.Offset)
	}
	if got := plan.Offsets[bills].Offset; got != 70 {
		t.Errorf("the position of another topic is %d, want 70 as before", got)
	}

	in.Checkpoint = complete(in.Checkpoint, plan, in.Now)
	in.Owns, in.Resume = nil, false
	setLog(&in, "A2", map[int32]record.Bounds{0: bounds(0, 1000), 1: bounds(0, 1000)})
	plan = mustMake(t, in)
	if want := []record.Range{{Partition: orders(1), From: 0, To: 1000}}; !slices.Equal(plan.Ranges, want) {
		t.Errorf("widened again it reads %v, want %v", plan.Ranges, want)
	}
}

func TestMake_TopicThatIsGoneIsAllItsPartitionsMissing(t *testing.T) {
	t.Parallel()
	in := known(5, 9)
	in.Log = record.Log{}
	if plan := mustMake(t, in); len(plan.Missing) != 2 || len(plan.Notices) != 1 {
		t.Errorf("missing %v, notices %q; want both partitions and one line", plan.Missing, plan.Notices)
	}
	long := record.Missing{Runs: 3, Since: noon().Add(-time.Hour)}
	in.Checkpoint.Missing = map[record.Partition]record.Missing{orders(0): long, orders(1): long}
	_, err := window.Make(in)
	lost, ok := errors.AsType[*window.LossError](err)
	if !ok || lost.Class != window.ClassPartitionMissing || lost.Partition != orders(0) || lost.More != 1 || !lost.TopicGone {
		t.Errorf("got %v, want partition-missing of orders/0 and one more", err)
	}
	in = known()
	in.Log = record.Log{}
	if plan := mustMake(t, in); !plan.Idle() || len(plan.Notices) != 1 {
		t.Errorf("a lane without a partition of it should idle with a notice: %+v", plan)
	}
}

func TestMake_BeforeTopicIDs_SaysSoOnce(t *testing.T) {
	t.Parallel()
	in := first("earliest", map[int32]record.Bounds{0: bounds(0, 5)})
	setLog(&in, "", in.Log.Topics["orders"].Partitions)
	plan := mustMake(t, in)
	if len(plan.Notices) != 1 || !slices.Equal(plan.FirstRun, []string{"orders"}) {
		t.Errorf("notices %q, first run of %v", plan.Notices, plan.FirstRun)
	}
	in.Checkpoint = complete(in.Checkpoint, plan, in.Now)
	if plan := mustMake(t, in); len(plan.Notices) != 0 || !plan.Idle() {
		t.Errorf("second run: notices %q, idle %v", plan.Notices, plan.Idle())
	}
}
