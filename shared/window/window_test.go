package window_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func orders(id int32) record.Partition { return record.Partition{Topic: "orders", ID: id} }

func bounds(start, end int64) record.Bounds {
	return record.Bounds{Start: start, End: end, HighWatermark: end, AtTimestamp: record.Unknown, LeaderEpoch: -1}
}

// known returns an input in which orders has the id A1 and a checkpoint for each of the offsets.
func known(offsets ...int64) window.Input {
	in := window.Input{
		Now:      noon(),
		Topics:   []string{"orders"},
		Starting: record.StartingOffsets{Mode: record.StartEarliest},
	}
	setTopic(&in.Checkpoint, "orders", record.Topic{ID: "A1"})
	for id, offset := range offsets {
		setOffset(&in.Checkpoint, orders(int32(id)), offset)
	}
	setLog(&in, "A1", nil)
	return in
}

// first returns an input without a checkpoint.
func first(mode record.StartMode, partitions map[int32]record.Bounds) window.Input {
	in := window.Input{Now: noon(), Topics: []string{"orders"}, Starting: record.StartingOffsets{Mode: mode}}
	setLog(&in, "A1", partitions)
	return in
}

func setLog(in *window.Input, id string, partitions map[int32]record.Bounds) {
	in.Log = record.Log{Topics: map[string]record.TopicLog{"orders": {ID: id, Partitions: partitions}}}
}

// counted returns the input with a topic that has so many partitions by its metadata.
func counted(in window.Input, count int32) window.Input {
	log := in.Log.Topics["orders"]
	log.Count = count
	in.Log.Topics["orders"] = log
	return in
}

func mustMake(t *testing.T, in window.Input) window.Plan {
	t.Helper()
	plan, err := window.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestMake_RefusesWhatItWouldHaveToGuess(t *testing.T) {
	t.Parallel()
	named := func(offsets map[int32]int64, partitions map[int32]record.Bounds) window.Input {
		in := first(record.StartOffsets, partitions)
		in.Starting.Offsets = map[record.Partition]int64{}
		for id, offset := range offsets {
			in.Starting.Offsets[orders(id)] = offset
		}
		return in
	}
	stamped := record.Bounds{Start: 0, End: 9, HighWatermark: 9, AtTimestamp: 5}
	withLog := func(in window.Input, id string, b record.Bounds) window.Input {
		setLog(&in, id, map[int32]record.Bounds{0: b})
		return in
	}
	resume := func(in window.Input) window.Input { in.Resume = true; return in }
	epoch := func(in window.Input, e int32) window.Input {
		pos := in.Checkpoint.Offsets[orders(0)]
		pos.LeaderEpoch = e
		in.Checkpoint.Offsets[orders(0)] = pos
		return in
	}
	const (
		unknown = record.Unknown
		fatal   = fault.Fatal
		again   = fault.Transient
	)
	for name, c := range map[string]struct {
		in    window.Input
		kind  fault.Kind
		class string
	}{
		"topic that nobody knows":              {window.Input{Topics: []string{"orders"}}, fatal, "unknown-topic"},
		"topic that nobody knows under resume": {resume(window.Input{Topics: []string{"orders"}}), fatal, "unknown-topic"},
		"unknown form of startingOffsets":      {first("", map[int32]record.Bounds{0: bounds(0, 9)}), fatal, "no-starting-offset"},
		"end not answered":                     {withLog(known(5), "A1", bounds(0, unknown)), again, ""},
		"start not answered below the end":     {withLog(known(5), "A1", bounds(unknown, 9)), again, ""},
		"watermark not answered below the checkpoint": {
			withLog(known(5), "A1", record.Bounds{Start: unknown, End: 3, HighWatermark: unknown}), again, "",
		},
		"start of a new partition not answered": {withLog(known(), "A1", bounds(unknown, 0)), again, ""},
		"end of a new partition not answered":   {withLog(known(), "A1", bounds(0, unknown)), again, ""},
		"start of a recreated topic not answered": {
			resume(withLog(known(500), "A2", bounds(unknown, 30))), again, "",
		},
		"first run, start not answered": {first("earliest", map[int32]record.Bounds{0: bounds(unknown, 9)}), again, ""},
		"first run, end not answered":   {first("latest", map[int32]record.Bounds{0: bounds(0, unknown)}), again, ""},
		"first run, timestamp not answered": {
			first("timestamp", map[int32]record.Bounds{0: bounds(0, 9)}), again, "",
		},
		"first run at latest, a partition without an answer": {
			first("latest", map[int32]record.Bounds{0: bounds(0, 9), 2: bounds(0, 9)}), again, "",
		},
		"first run at latest, no answer at all": {first("latest", nil), again, ""},
		"first run at latest, the highest partition without an answer": {
			counted(first("latest", map[int32]record.Bounds{0: bounds(0, 9), 1: bounds(0, 9)}), 3), again, "",
		},
		"first run at a timestamp, the highest partition without an answer": {
			counted(first("timestamp", map[int32]record.Bounds{0: stamped, 1: stamped}), 3), again, "",
		},
		"named start of a partition without an answer": {
			counted(named(map[int32]int64{0: 4, 1: 4}, map[int32]record.Bounds{0: bounds(0, 9)}), 2), again, "",
		},
		"named start leaves out a partition without an answer": {
			counted(named(map[int32]int64{0: 4}, map[int32]record.Bounds{0: bounds(0, 9)}), 2), again, "",
		},
		"named start of a partition that there is not": {
			counted(named(map[int32]int64{0: 4, 2: 4}, map[int32]record.Bounds{0: bounds(0, 9)}), 1), fatal, "unknown-partition",
		},
		"named start of a partition below 0": {
			named(map[int32]int64{0: 4, -1: 4}, map[int32]record.Bounds{0: bounds(0, 9)}), fatal, "unknown-partition",
		},
		"named start, log start not answered": {
			named(map[int32]int64{0: 4}, map[int32]record.Bounds{0: bounds(unknown, 9)}), again, "",
		},
		"named start below the log start": {
			named(map[int32]int64{0: 4}, map[int32]record.Bounds{0: bounds(5, 9)}), fatal, "offset-before-log-start",
		},
		"named start one above the high watermark": {
			named(map[int32]int64{0: 12}, map[int32]record.Bounds{0: {Start: 0, End: 9, HighWatermark: 11}}),
			fatal, "starting-offset-beyond-log-end",
		},
		"named start above the end, high watermark not asked for": {
			named(map[int32]int64{0: 10}, map[int32]record.Bounds{0: {Start: 0, End: 9, HighWatermark: unknown}}),
			fatal, "starting-offset-beyond-log-end",
		},
		"named start that is no offset": {
			resume(named(map[int32]int64{0: -7}, map[int32]record.Bounds{0: bounds(0, 9)})), fatal, "offset-before-log-start",
		},
		"leader epoch went back without topic ids": {
			resume(epoch(withLog(known(5), "", record.Bounds{Start: 0, End: 9, HighWatermark: 9, LeaderEpoch: 2}), 3)),
			fatal, "leader-epoch-went-back",
		},
		"truncated without topic ids": {withLog(known(5), "", bounds(0, 4)), fatal, "checkpoint-beyond-log-end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := window.Make(c.in)
			if err == nil {
				t.Fatalf("planned %+v, want an error", plan)
			}
			if fault.KindOf(err) != c.kind || fault.ClassOf(err) != c.class {
				t.Errorf("got %v (%v, class %q), want %v, class %q", err, fault.KindOf(err), fault.ClassOf(err), c.kind, c.class)
			}
		})
	}
}

func TestMake_Planned(t *testing.T) {
	t.Parallel()
	lane := func(in window.Input, owned ...int32) window.Input {
		in.Owns = func(p record.Partition) bool { return slices.Contains(owned, p.ID) }
		return in
	}
	withLog := func(in window.Input, id string, partitions map[int32]record.Bounds) window.Input {
		setLog(&in, id, partitions)
		return in
	}
	named := func(in window.Input, offsets map[record.Partition]int64) window.Input {
		in.Starting.Offsets = offsets
		return in
	}
	resume := func(in window.Input) window.Input { in.Resume = true; return in }
	const unknown = record.Unknown
	for name, c := range map[string]struct {
		in      window.Input
		ranges  []record.Range
		offsets map[int32]int64
		gaps    int
		changed bool
	}{
		"nothing above the checkpoint needs no log start": {
			in:      withLog(known(9), "A1", map[int32]record.Bounds{0: bounds(unknown, 9)}),
			offsets: map[int32]int64{0: 9},
		},
		"all that was left is deleted": {
			in:      resume(withLog(known(3), "A1", map[int32]record.Bounds{0: bounds(9, 9)})),
			offsets: map[int32]int64{0: 9}, gaps: 1, changed: true,
		},
		"one lost record is a gap": {
			in:      resume(withLog(known(3), "A1", map[int32]record.Bounds{0: bounds(4, 9)})),
			ranges:  []record.Range{{Partition: orders(0), From: 4, To: 9}},
			offsets: map[int32]int64{0: 4}, gaps: 1, changed: true,
		},
		"log without id is never recreated": {
			in:      withLog(known(3), "", map[int32]record.Bounds{0: bounds(0, 5)}),
			ranges:  []record.Range{{Partition: orders(0), From: 3, To: 5}},
			offsets: map[int32]int64{0: 3},
		},
		"lane without a partition stores the topic": {
			in:      lane(first("latest", map[int32]record.Bounds{0: bounds(0, 5)})),
			offsets: map[int32]int64{}, changed: true,
		},
		"partition of a topic that the lane only knew by name starts at its earliest": {
			in: func() window.Input {
				in := withLog(known(), "A1", map[int32]record.Bounds{7: bounds(2, 5)})
				in.Starting.Mode = record.StartNone
				return lane(in, 7)
			}(),
			ranges:  []record.Range{{Partition: orders(7), From: 2, To: 5}},
			offsets: map[int32]int64{7: 2}, changed: true,
		},
		"partitions of other lanes are left alone": {
			in:      lane(withLog(known(3), "A1", map[int32]record.Bounds{0: bounds(0, 5), 1: bounds(0, 5)}), 0),
			ranges:  []record.Range{{Partition: orders(0), From: 3, To: 5}},
			offsets: map[int32]int64{0: 3},
		},
		"named start speaks of partitions of other lanes": {
			in: lane(named(first("offsets", map[int32]record.Bounds{1: bounds(0, 5)}),
				map[record.Partition]int64{orders(0): 4, orders(1): 2, orders(9): 0}), 1),
			ranges:  []record.Range{{Partition: orders(1), From: 2, To: 5}},
			offsets: map[int32]int64{1: 2}, changed: true,
		},
		"named start below the log start is a gap under resume": {
			in: resume(named(first("offsets", map[int32]record.Bounds{0: bounds(4, 9)}),
				map[record.Partition]int64{orders(0): 1})),
			ranges:  []record.Range{{Partition: orders(0), From: 4, To: 9}},
			offsets: map[int32]int64{0: 4}, gaps: 1, changed: true,
		},
		"named start in an open transaction waits for it": {
			in: named(first("offsets", map[int32]record.Bounds{0: {Start: 0, End: 9, HighWatermark: 11}}),
				map[record.Partition]int64{orders(0): 11}),
			offsets: map[int32]int64{0: 11}, changed: true,
		},
		"named start at the end without the high watermark": {
			in: named(first("offsets", map[int32]record.Bounds{0: {Start: 0, End: 9, HighWatermark: unknown}}),
				map[record.Partition]int64{orders(0): 9}),
			offsets: map[int32]int64{0: 9}, changed: true,
		},
		"position of another lane's partition is not missing": {
			in:      lane(withLog(known(5, 9), "A1", map[int32]record.Bounds{0: bounds(0, 5)}), 0),
			offsets: map[int32]int64{0: 5, 1: 9},
		},
		"first run at earliest goes without a partition that has no answer": {
			in:      first("earliest", map[int32]record.Bounds{1: bounds(0, 5)}),
			ranges:  []record.Range{{Partition: orders(1), From: 0, To: 5}},
			offsets: map[int32]int64{1: 0}, changed: true,
		},
		"first run at earliest goes without the highest partition": {
			in:      counted(first("earliest", map[int32]record.Bounds{0: bounds(0, 5)}), 2),
			ranges:  []record.Range{{Partition: orders(0), From: 0, To: 5}},
			offsets: map[int32]int64{0: 0}, changed: true,
		},
		"first run at latest needs no answer for partitions of other lanes": {
			in:      lane(counted(first("latest", map[int32]record.Bounds{1: bounds(0, 5)}), 4), 1),
			offsets: map[int32]int64{1: 5}, changed: true,
		},
		"first run at latest of a lane without a partition needs no answer": {
			in:      lane(counted(first("latest", nil), 4)),
			offsets: map[int32]int64{}, changed: true,
		},
		"topic named twice is planned once": {
			in: func() window.Input {
				in := withLog(known(3), "A1", map[int32]record.Bounds{0: bounds(0, 5)})
				in.Topics = []string{"orders", "orders"}
				return in
			}(),
			ranges:  []record.Range{{Partition: orders(0), From: 3, To: 5}},
			offsets: map[int32]int64{0: 3},
		},
		"positions of a topic that is no longer subscribed stay": {
			in: func() window.Input {
				in := known(3)
				in.Topics = nil
				return in
			}(),
			offsets: map[int32]int64{0: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := mustMake(t, c.in)
			offsets := map[int32]int64{}
			for part, pos := range plan.Offsets {
				offsets[part.ID] = pos.Offset
			}
			if diff := cmp.Diff(c.ranges, plan.Ranges); diff != "" {
				t.Errorf("ranges (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.offsets, offsets); diff != "" {
				t.Errorf("offsets (-want +got):\n%s", diff)
			}
			if len(plan.Gaps) != c.gaps || plan.Changed != c.changed {
				t.Errorf("%d gaps, changed %v; want %d, %v", len(plan.Gaps), plan.Changed, c.gaps, c.changed)
			}
		})
	}
}

func TestMake_OtherBoundsAreNoChange(t *testing.T) {
	t.Parallel()
	in := known(9)
	setLog(&in, "A1", map[int32]record.Bounds{0: bounds(4, 9)})
	plan := mustMake(t, in)
	if !plan.Idle() {
		t.Errorf("not idle: %+v", plan)
	}
	want := record.Position{Offset: 9, LeaderEpoch: -1, LogStart: 4, LogEnd: 9, SeenAt: noon()}
	if diff := cmp.Diff(want, plan.Offsets[orders(0)]); diff != "" {
		t.Errorf("bounds are not kept as seen (-want +got):\n%s", diff)
	}
}
