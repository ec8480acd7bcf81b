package window_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// planCases is how many cases testdata/cases/plan.json has: a file that shrinks is noticed.
const planCases = 33

type planCase struct {
	ID             string
	From           string
	Why            string
	Kind           string
	Input          caseInput
	Ranges         map[string]map[int32][2]int64
	Gaps           []caseGap
	Resets         []caseReset
	After          map[string]caseTopic
	Undecided      map[string]map[int32]int64
	Error          string
	At             *caseAt
	ArrivalsPerRun map[string]map[int32]int64
	Runs           int
	Expect         struct {
		TotalPerRun                                   int64
		EveryPartitionWithRecordsProgressesWithinRuns int
	}
}

type caseInput struct {
	Topics          []string
	Checkpoint      map[string]caseTopic
	Log             map[string]caseLog
	StartingOffsets json.RawMessage
	Policy          string
	MaxRecords      int64
	MinPerPartition int64
}

type caseTopic struct {
	TopicID *string
	Offsets map[int32]int64
}

type caseLog struct {
	TopicID    string
	Partitions map[int32]struct {
		Start, End         int64
		HighWatermark      *int64
		OffsetForTimestamp *int64
	}
}

type caseGap struct {
	Topic     string
	Partition int32
	From, To  int64
}

type caseReset struct{ Topic, From, To string }

type caseAt struct {
	Topic                      string
	Partition                  *int32
	Offset, LogStart, LogEnd   int64
	CheckpointTopicID, TopicID string
}

func TestMake_Cases(t *testing.T) {
	t.Parallel()
	cases := readCases(t)
	if len(cases) != planCases {
		t.Fatalf("plan.json has %d cases, want %d", len(cases), planCases)
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			switch {
			case c.Kind == "consecutive-runs":
				checkRuns(t, c)
			case c.Kind != "":
				t.Fatalf("unknown kind %q", c.Kind)
			case c.Error != "":
				checkRefused(t, c)
			default:
				checkPlanned(t, c)
			}
		})
	}
}

func readCases(t *testing.T) []planCase {
	t.Helper()
	text, err := os.ReadFile("../../testdata/cases/plan.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []planCase
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func checkPlanned(t *testing.T, c planCase) {
	t.Helper()
	in := c.Input.build(t)
	plan, err := window.Make(in)
	if err != nil {
		t.Fatalf("%v\nwhy: %s", err, c.Why)
	}
	ranges := map[string]map[int32][2]int64{}
	for _, r := range plan.Ranges {
		put(ranges, r.Partition, [2]int64{r.From, r.To})
	}
	gaps := []caseGap{}
	for _, g := range plan.Gaps {
		gaps = append(gaps, caseGap{g.Partition.Topic, g.Partition.ID, g.From, g.To})
	}
	var resets []caseReset
	for _, r := range plan.Resets {
		resets = append(resets, caseReset{r.Topic, r.From, r.To})
	}
	var undecided map[string]map[int32]int64
	for part, n := range plan.Undecided {
		if undecided == nil {
			undecided = map[string]map[int32]int64{}
		}
		put(undecided, part, n)
	}
	after := map[string]caseTopic{}
	next := complete(in.Checkpoint, plan, in.Now)
	for topic, known := range next.Topics {
		after[topic] = caseTopic{TopicID: &known.ID, Offsets: map[int32]int64{}}
	}
	for part, pos := range next.Offsets {
		after[part.Topic].Offsets[part.ID] = pos.Offset
	}
	for _, d := range []struct{ what, diff string }{
		{"ranges", cmp.Diff(c.Ranges, ranges)},
		{"gaps", cmp.Diff(c.Gaps, gaps)},
		{"resets", cmp.Diff(c.Resets, resets)},
		{"undecided", cmp.Diff(c.Undecided, undecided)},
		{"after", cmp.Diff(c.After, after)},
	} {
		if d.diff != "" {
			t.Errorf("%s (-want +got):\n%s\nwhy: %s", d.what, d.diff, c.Why)
		}
	}
}

func checkRefused(t *testing.T, c planCase) {
	t.Helper()
	plan, err := window.Make(c.Input.build(t))
	if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != c.Error {
		t.Fatalf("got %v (%v, class %q), want a fatal %s\nwhy: %s", err, fault.KindOf(err), fault.ClassOf(err), c.Error, c.Why)
	}
	got, ok := errors.AsType[*window.LossError](err)
	if !ok {
		t.Fatalf("%v is no LossError", err)
	}
	want := window.LossError{
		Class:     c.Error,
		Partition: record.Partition{Topic: c.At.Topic, ID: -1},
		Starting:  c.Input.Checkpoint == nil, // without a checkpoint only startingOffsets can be wrong
		Offset:    c.At.Offset, LogStart: c.At.LogStart, LogEnd: c.At.LogEnd,
		CheckpointTopicID: c.At.CheckpointTopicID, TopicID: c.At.TopicID,
	}
	if c.At.Partition != nil {
		want.Partition.ID = *c.At.Partition
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("at (-want +got):\n%s\nwhy: %s", diff, c.Why)
	}
	if diff := cmp.Diff(window.Plan{}, plan); diff != "" {
		t.Errorf("the checkpoint must stay, but there is a plan (-want +got):\n%s", diff)
	}
}

func checkRuns(t *testing.T, c planCase) {
	t.Helper()
	in := c.Input.build(t)
	waited := map[record.Partition]int{}
	for run := range c.Runs {
		for topic, arrivals := range c.ArrivalsPerRun {
			for id, n := range arrivals {
				grow(in.Log, record.Partition{Topic: topic, ID: id}, n)
			}
		}
		in.Now = in.Now.Add(time.Minute)
		plan, err := window.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := total(plan); got != c.Expect.TotalPerRun {
			t.Errorf("run %d reads %d records, want %d", run, got, c.Expect.TotalPerRun)
		}
		checkWaiting(t, waited, in, plan, c.Expect.EveryPartitionWithRecordsProgressesWithinRuns)
		in.Checkpoint = complete(in.Checkpoint, plan, in.Now)
	}
}

func (c caseInput) build(t *testing.T) window.Input {
	t.Helper()
	in := window.Input{
		Now:        time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Topics:     c.Topics,
		Log:        record.Log{Topics: map[string]record.TopicLog{}},
		Starting:   c.starting(t),
		Resume:     c.Policy == "resume",
		MaxRecords: c.MaxRecords, MinPerPartition: c.MinPerPartition,
	}
	for topic, known := range c.Checkpoint {
		id := ""
		if known.TopicID != nil {
			id = *known.TopicID
		}
		setTopic(&in.Checkpoint, topic, record.Topic{ID: id})
		for partition, offset := range known.Offsets {
			setOffset(&in.Checkpoint, record.Partition{Topic: topic, ID: partition}, offset)
		}
	}
	for topic, log := range c.Log {
		partitions := map[int32]record.Bounds{}
		for id, b := range log.Partitions {
			bounds := record.Bounds{Start: b.Start, End: b.End, HighWatermark: b.End, AtTimestamp: record.Unknown, LeaderEpoch: -1}
			if b.HighWatermark != nil {
				bounds.HighWatermark = *b.HighWatermark
			}
			if in.Starting.Mode == record.StartTimestamp {
				bounds.AtTimestamp = b.End // a Source answers the end where no record is newer
				if b.OffsetForTimestamp != nil {
					bounds.AtTimestamp = *b.OffsetForTimestamp
				}
			}
			partitions[id] = bounds
		}
		in.Log.Topics[topic] = record.TopicLog{ID: log.TopicID, Partitions: partitions}
	}
	return in
}

func (c caseInput) starting(t *testing.T) record.StartingOffsets {
	t.Helper()
	if len(c.StartingOffsets) == 0 {
		return record.StartingOffsets{Mode: record.StartEarliest}
	}
	var word string
	if json.Unmarshal(c.StartingOffsets, &word) == nil {
		modes := []record.StartMode{record.StartEarliest, record.StartLatest, record.StartNone}
		if !slices.Contains(modes, record.StartMode(word)) {
			t.Fatalf("unknown startingOffsets %q", word)
		}
		return record.StartingOffsets{Mode: record.StartMode(word)}
	}
	var stamp struct{ Timestamp int64 }
	if json.Unmarshal(c.StartingOffsets, &stamp) == nil && stamp.Timestamp > 0 {
		return record.StartingOffsets{Mode: record.StartTimestamp, Timestamp: time.UnixMilli(stamp.Timestamp)}
	}
	var named map[string]map[string]int64
	if err := json.Unmarshal(c.StartingOffsets, &named); err != nil {
		t.Fatal(err)
	}
	starting := record.StartingOffsets{Mode: record.StartOffsets, Offsets: map[record.Partition]int64{}}
	for topic, offsets := range named {
		for id, offset := range offsets {
			n, err := strconv.ParseInt(id, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			starting.Offsets[record.Partition{Topic: topic, ID: int32(n)}] = offset
		}
	}
	return starting
}

func put[V any](to map[string]map[int32]V, part record.Partition, v V) {
	if to[part.Topic] == nil {
		to[part.Topic] = map[int32]V{}
	}
	to[part.Topic][part.ID] = v
}
