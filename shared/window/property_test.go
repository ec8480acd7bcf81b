package window_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// world draws an input. The log is consistent with itself, as far as it is answered; the checkpoint may be anywhere.
func world(t *rapid.T) window.Input {
	in := window.Input{
		Now:             noon(),
		Log:             record.Log{Topics: map[string]record.TopicLog{}},
		Starting:        record.StartingOffsets{Mode: record.StartEarliest},
		Resume:          rapid.Bool().Draw(t, "resume"),
		MaxRecords:      rapid.Int64Range(0, 120).Draw(t, "limit"),
		MinPerPartition: rapid.Int64Range(0, 9).Draw(t, "minimum"),
	}
	if rapid.Bool().Draw(t, "at latest") {
		in.Starting.Mode = record.StartLatest
	}
	ids := []string{"A1", "A1", "A1", "A2", ""}
	for _, topic := range []string{"b", "a", "c"}[:rapid.IntRange(1, 3).Draw(t, "topics")] {
		in.Topics = append(in.Topics, topic)
		knownTopic := rapid.Bool().Draw(t, "known")
		if knownTopic {
			setTopic(&in.Checkpoint, topic, record.Topic{ID: rapid.SampledFrom(ids).Draw(t, "stored id")})
		}
		partitions := map[int32]record.Bounds{}
		for id := range int32(rapid.IntRange(1, 5).Draw(t, "partitions")) {
			part := record.Partition{Topic: topic, ID: id}
			b := drawBounds(t)
			partitions[id] = b
			if !knownTopic {
				continue
			}
			switch rapid.IntRange(0, 9).Draw(t, "state") {
			case 0: // new
			case 1:
				delete(partitions, id)
				setOffset(&in.Checkpoint, part, 7)
			case 2:
				setOffset(&in.Checkpoint, part, rapid.Int64Range(0, 120).Draw(t, "anywhere"))
			default:
				setOffset(&in.Checkpoint, part, rapid.Int64Range(b.Start, b.HighWatermark).Draw(t, "inside"))
			}
			if pos, ok := in.Checkpoint.Offsets[part]; ok {
				pos.MovedAt = noon().Add(-time.Duration(rapid.IntRange(1, 4).Draw(t, "moved")) * time.Minute)
				in.Checkpoint.Offsets[part] = pos
				if b.End <= pos.Offset && rapid.Bool().Draw(t, "spared") && partitions[id] == b {
					b.Start = record.Unknown
					partitions[id] = b
				}
			}
		}
		in.Log.Topics[topic] = record.TopicLog{ID: rapid.SampledFrom(ids).Draw(t, "id"), Partitions: partitions}
	}
	return in
}

func drawBounds(t *rapid.T) record.Bounds {
	start := rapid.Int64Range(0, 50).Draw(t, "start")
	end := start + rapid.Int64Range(0, 60).Draw(t, "size")
	return record.Bounds{
		Start: start, End: end, HighWatermark: end + rapid.Int64Range(0, 3).Draw(t, "undecided"),
		AtTimestamp: record.Unknown, LeaderEpoch: -1,
	}
}

func cloneInput(in window.Input) window.Input {
	in.Checkpoint = in.Checkpoint.Clone()
	in.Topics = slices.Clone(in.Topics)
	in.Starting.Offsets = maps.Clone(in.Starting.Offsets)
	in.Log.Topics = maps.Clone(in.Log.Topics)
	for topic, log := range in.Log.Topics {
		log.Partitions = maps.Clone(log.Partitions)
		in.Log.Topics[topic] = log
	}
	return in
}

func TestMake_IsPure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		before := cloneInput(in)
		plan, err := window.Make(in)
		if diff := cmp.Diff(before, in); diff != "" {
			t.Fatalf("the input was changed (-before +after):\n%s", diff)
		}
		again, errAgain := window.Make(before)
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Fatalf("same input, other plan:\n%s", diff)
		}
		if fault.ClassOf(err) != fault.ClassOf(errAgain) {
			t.Fatalf("same input, other error: %v and %v", err, errAgain)
		}
	})
}

func TestMake_RangesAreBoundedContiguousMonotoneAndExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		plan, err := window.Make(in)
		if err != nil {
			if diff := cmp.Diff(window.Plan{}, plan); diff != "" {
				t.Fatalf("a plan beside the error %v:\n%s", err, diff)
			}
			return
		}
		if len(plan.Gaps)+len(plan.Resets) > 0 && !in.Resume {
			t.Fatalf("passed a loss under fail: %+v %+v", plan.Gaps, plan.Resets)
		}
		checkPositions(t, in, plan)
		checkRanges(t, in, plan)
		want := plan.Available
		if in.MaxRecords > 0 {
			want = min(want, in.MaxRecords)
		}
		if got := total(plan); got != want {
			t.Errorf("reads %d records, want exactly %d", got, want)
		}
		if plan.Limited != (want < plan.Available) {
			t.Errorf("limited is %v for %d of %d", plan.Limited, want, plan.Available)
		}
	})
}

// checkPositions: every position is where it was, behind a recorded gap, or that of another log.
func checkPositions(t *rapid.T, in window.Input, plan window.Plan) {
	t.Helper()
	reset := map[string]bool{}
	for _, r := range plan.Resets {
		reset[r.Topic] = true
	}
	gaps := map[record.Partition]record.Gap{}
	for _, g := range plan.Gaps {
		if g.From >= g.To {
			t.Errorf("gap %s is empty", g.Range)
		}
		gaps[g.Partition] = g
	}
	for part, stored := range in.Checkpoint.Offsets {
		if reset[part.Topic] {
			continue
		}
		pos, ok := plan.Offsets[part]
		gap, gapped := gaps[part]
		switch {
		case !ok:
			t.Errorf("%s lost its position", part)
		case gapped && (gap.From != stored.Offset || gap.To != pos.Offset):
			t.Errorf("%s went from %d to %d, but its gap is %s", part, stored.Offset, pos.Offset, gap.Range)
		case !gapped && pos.Offset != stored.Offset:
			t.Errorf("%s went from %d to %d without a gap", part, stored.Offset, pos.Offset)
		}
	}
}

func checkRanges(t *rapid.T, in window.Input, plan window.Plan) {
	t.Helper()
	byPartition := func(a, b record.Range) int { return a.Partition.Compare(b.Partition) }
	if !slices.IsSortedFunc(plan.Ranges, byPartition) {
		t.Errorf("ranges are not sorted: %v", plan.Ranges)
	}
	for _, r := range plan.Ranges {
		b := in.Log.Topics[r.Partition.Topic].Partitions[r.Partition.ID]
		if r.From < b.Start || r.From >= r.To || r.To > b.End {
			t.Errorf("%s is empty or not in [%d, %d)", r, b.Start, b.End)
		}
		if pos := plan.Offsets[r.Partition]; pos.Offset != r.From {
			t.Errorf("%s does not begin at the position %d", r, pos.Offset)
		}
	}
}

func TestMake_AgainAfterCompletionIsIdle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := world(t)
		in.MaxRecords = 0
		plan, err := window.Make(in)
		if err != nil || len(plan.Missing) > 0 { // missing partitions are counted in the next run too
			return
		}
		in.Checkpoint = complete(in.Checkpoint, plan, in.Now)
		in.Now = in.Now.Add(time.Minute)
		again, err := window.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if !again.Idle() {
			t.Fatalf("not idle: %+v", again)
		}
	})
}

func TestMake_LimitBelowPartitions_StarvesNobody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "partitions")
		in := first(record.StartEarliest, map[int32]record.Bounds{})
		in.MaxRecords = rapid.Int64Range(1, int64(n)-1).Draw(t, "limit")
		in.MinPerPartition = rapid.Int64Range(0, 3).Draw(t, "minimum")
		for id := range int32(n) {
			in.Log.Topics["orders"].Partitions[id] = bounds(0, rapid.Int64Range(0, 30).Draw(t, "size"))
		}
		waited := map[record.Partition]int{}
		for range 4 * n {
			in.Now = in.Now.Add(time.Minute)
			grow(in.Log, orders(int32(rapid.IntRange(0, n-1).Draw(t, "where"))), rapid.Int64Range(0, 50).Draw(t, "arrivals"))
			plan, err := window.Make(in)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(in.MaxRecords, plan.Available); total(plan) != want {
				t.Fatalf("reads %d records, want %d", total(plan), want)
			}
			checkWaiting(t, waited, in, plan, n)
			in.Checkpoint = complete(in.Checkpoint, plan, in.Now)
		}
	})
}
