package pulltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// SourceConfig is what a test of a Source may set.
type SourceConfig struct {
	Topics          []string
	Assign          map[string][]int32
	Pattern         *regexp.Regexp
	ReadUncommitted bool
}

// SourceHarness is one Kafka, real or not, and how to act on it. A nil function says that this one cannot do it: the
// tests that need it are skipped.
type SourceHarness struct {
	// Open makes a source; the harness closes it after the test.
	Open        func(t *testing.T, c SourceConfig) pull.Source
	CreateTopic func(t *testing.T, topic string, partitions int32)
	// Produce appends records, in one batch where there are batches.
	Produce func(t *testing.T, topic string, partition int32, recs ...record.Record)
	// Transact appends records of an open transaction, which end ends with one control record.
	Transact      func(t *testing.T, topic string, partition int32, recs ...record.Record) (end func(commit bool))
	DeleteRecords func(t *testing.T, topic string, partition int32, before int64)
	// Recreate deletes a topic and creates it under the same name.
	Recreate func(t *testing.T, topic string, partitions int32)
	// CreateInternal creates a topic that Kafka calls internal, under an innocent name.
	CreateInternal func(t *testing.T, topic string)
	// CreateCompacted creates a topic of one partition from which records are removed that have a newer one of their key,
	// except in its last batch. Compact asks for that; it may happen within a minute.
	CreateCompacted func(t *testing.T, topic string)
	Compact         func(t *testing.T, topic string)
	// WithoutTopicIDs says that this Kafka is older than 2.8.
	WithoutTopicIDs bool
}

// has tells whether the harness can do what a test needs.
func (h SourceHarness) has(need string) bool {
	switch need {
	case "Transact":
		return h.Transact != nil
	case "DeleteRecords":
		return h.DeleteRecords != nil
	case "Recreate":
		return h.Recreate != nil
	case "CreateInternal":
		return h.CreateInternal != nil
	case "Compact":
		return h.CreateCompacted != nil && h.Compact != nil
	case "topic ids":
		return !h.WithoutTopicIDs
	}
	return false
}

// TestSource checks that a Source keeps the contract of package pull. open makes a harness for each test; topics get
// names of their own, so that one Kafka may serve them all. What the harness says that its Kafka cannot do is not asked
// of it, and logged.
func TestSource(t *testing.T, open func(t *testing.T) SourceHarness) {
	t.Helper()
	able := open(t)
	for _, test := range []struct {
		name  string
		needs []string
		run   func(t *testing.T, k sourceTest)
	}{
		{"Bounds_EachPartitionBelongsToOneLane", nil, lanesShareOut},
		{"Bounds_EmptyPartitionIsZeroToZero", nil, emptyBounds},
		{"Bounds_WithoutPositionHaveStartAndEnd", nil, startAndEnd},
		{"Bounds_AtTheEndHaveNoStart", nil, boundsAtEnd},
		{"Bounds_UnknownTopicIsLeftOut", nil, unknownTopic},
		{"Bounds_CountAllPartitionsOfTheTopic", nil, countAll},
		{"Bounds_OnlyAssignedPartitions", nil, assignedOnly},
		{"Bounds_UnknownAssignedPartitionIsFatal", nil, unknownAssigned},
		{"Bounds_TimestampIsFirstNotOlderOrTheEnd", nil, timestamps},
		{"Bounds_OpenTransactionHoldsTheEnd", []string{"Transact"}, openTransaction},
		{"Bounds_TimestampIsNeverAboveTheEnd", []string{"Transact"}, timestampInTransaction},
		{"Bounds_DeletedRecordsMoveTheStart", []string{"DeleteRecords"}, deletedStart},
		{"Bounds_UncommittedGoToTheHighWatermark", []string{"Transact"}, uncommittedBounds},
		{"Bounds_RecreatedTopicHasAnotherID", []string{"Recreate", "topic ids"}, recreatedID},
		{"Bounds_EndedContextIsTransient", nil, cancelledBounds},
		{"Pattern_MatchesWholeNames", nil, patternMatches},
		{"Pattern_LeavesUnderscoredTopicsOut", nil, patternUnderscored},
		{"Pattern_LeavesInternalTopicsOut", []string{"CreateInternal"}, patternInternal},
		{"Pattern_SeesNewTopicsAndForgetsGoneOnes", nil, patternChanges},
		{"Pattern_Reads", nil, patternReads},
		{"TopicIDs_AreThoseOfBounds", nil, topicIDsAsBounds},
		{"TopicIDs_RecreatedTopicHasAnother", []string{"Recreate", "topic ids"}, topicIDsRecreated},
		{"TopicIDs_EndedContextIsTransient", nil, cancelledTopicIDs},
		{"Read_YieldsWhatWasProduced", nil, readAll},
		{"Read_NullIsNotEmpty", nil, nullAndEmpty},
		{"Read_NothingOutsideTheWindow", nil, windowOnly},
		{"Read_NothingThatCameLater", nil, nothingLater},
		{"Read_ManyPartitionsAndTopics", nil, manyTopics},
		{"Read_NothingToReadIsEOF", nil, nothingToRead},
		{"Read_AbortedReachesNobody", []string{"Transact"}, abortedRecords},
		{"Read_InterleavedTransactions", []string{"Transact"}, interleaved},
		{"Read_WindowOfNoRecordsReachesItsEnd", []string{"Transact"}, controlOnly},
		{"Read_UncommittedYieldsAborted", []string{"Transact"}, uncommitted},
		{"Read_CommittedEndsBeforeAnOpenTransaction", []string{"Transact"}, committedBeforeOpen},
		{"Read_CompactedAwayMovesThePosition", []string{"Compact"}, compacted},
		{"Read_BelowTheLogStartIsFatal", []string{"DeleteRecords"}, belowStart},
		{"Read_BeyondTheLogEndIsFatal", nil, beyondEnd},
		{"Read_RecreatedTopicIsFatal", []string{"Recreate", "topic ids"}, recreatedRead},
		{"Read_AnotherTopicThanPlannedIsFatal", []string{"Recreate", "topic ids"}, anotherThanPlanned},
		{"Read_EndNotReachedIsNeverEOF", nil, endNotReached},
		{"Read_EndedContextIsTransient", nil, cancelledRead},
		{"Close_EndsNextAndMayBeRepeated", nil, closeReader},
	} {
		if lacks := slices.IndexFunc(test.needs, func(need string) bool { return !able.has(need) }); lacks >= 0 {
			t.Logf("%s is left out: this Kafka has no %s", test.name, test.needs[lacks])
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			// Unique also on a Kafka that remembers the last test run.
			name := strings.ToLower(test.name) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
			test.run(t, sourceTest{SourceHarness: h, topic: name})
		})
	}
}

// sourceTest is one test's harness, with a topic name that nobody else uses.
type sourceTest struct {
	SourceHarness
	topic string
}

func lanesShareOut(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 7)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	owners := map[int32]int{}
	for lane := range 3 {
		for id := range mustBounds(t, src, record.BoundsQuery{Lane: lane, Lanes: 3}).Topics[k.topic].Partitions {
			if _, twice := owners[id]; twice {
				t.Errorf("partition %d belongs to lanes %d and %d", id, owners[id], lane)
			}
			owners[id] = lane
		}
	}
	for id := range int32(7) {
		if want := (record.Partition{Topic: k.topic, ID: id}).Lane(3); owners[id] != want {
			t.Errorf("partition %d belongs to lane %d, want %d", id, owners[id], want)
		}
	}
}

func emptyBounds(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	b := k.bounds(t, k.Open(t, SourceConfig{Topics: []string{k.topic}}), record.BoundsQuery{})
	if b.Start != 0 || b.End != 0 || b.HighWatermark != 0 || b.AtTimestamp != record.Unknown {
		t.Errorf("bounds are %+v", b)
	}
}

func startAndEnd(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 5)
	for _, positions := range []map[record.Partition]int64{nil, {k.at(0): 4}} {
		if b := k.bounds(t, src, record.BoundsQuery{Positions: positions}); b.Start != 0 || b.End != 5 || b.HighWatermark != 5 {
			t.Errorf("bounds for positions %v are %+v", positions, b)
		}
	}
}

func boundsAtEnd(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	for _, uncommitted := range []bool{false, true} {
		src := k.Open(t, SourceConfig{Topics: []string{k.topic}, ReadUncommitted: uncommitted})
		k.awaitEnd(t, src, 5)
		for _, position := range []int64{5, 9} {
			b := k.bounds(t, src, record.BoundsQuery{Positions: map[record.Partition]int64{k.at(0): position}})
			if b.Start != record.Unknown || b.End != 5 || b.HighWatermark != 5 {
				t.Errorf("bounds at %d are %+v", position, b)
			}
		}
	}
}

func unknownTopic(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	log := mustBounds(t, k.Open(t, SourceConfig{Topics: []string{k.topic, k.topic + "-absent"}}), record.BoundsQuery{})
	if _, ok := log.Topics[k.topic]; !ok || len(log.Topics) != 1 {
		t.Errorf("topics are %+v", log.Topics)
	}
}

func countAll(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 5)
	src := k.Open(t, SourceConfig{Assign: map[string][]int32{k.topic: {1, 3}}})
	for lane := range 2 {
		if topic := mustBounds(t, src, record.BoundsQuery{Lane: lane, Lanes: 2}).Topics[k.topic]; topic.Count != 5 {
			t.Errorf("lane %d is told of %d partitions, want 5: %+v", lane, topic.Count, topic)
		}
	}
}

func assignedOnly(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 4)
	log := mustBounds(t, k.Open(t, SourceConfig{Assign: map[string][]int32{k.topic: {1, 3}}}), record.BoundsQuery{})
	if p := log.Topics[k.topic].Partitions; len(p) != 2 || p[1].End != 0 || p[3].End != 0 {
		t.Errorf("partitions are %+v", p)
	}
}

func unknownAssigned(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	_, err := k.Open(t, SourceConfig{Assign: map[string][]int32{k.topic: {0, 1}}}).Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
	wantKind(t, err, fault.Fatal, "unknown-partition")
}

func timestamps(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 5)
	for ms, want := range map[int64]int64{firstMillis - 1: 0, firstMillis + 2: 2, firstMillis + 99: 5} {
		q := record.BoundsQuery{Timestamp: ms, TimestampTopics: map[string]bool{k.topic: true}}
		if b := k.bounds(t, src, q); b.AtTimestamp != want || b.Start != 0 || b.End != 5 {
			t.Errorf("bounds at timestamp %d are %+v, want offset %d", ms, b, want)
		}
	}
	q := record.BoundsQuery{Timestamp: firstMillis, TimestampTopics: map[string]bool{"another": true}}
	if b := k.bounds(t, src, q); b.AtTimestamp != record.Unknown {
		t.Errorf("bounds without a timestamp are %+v", b)
	}
}

func openTransaction(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(2)...)
	end := k.Transact(t, k.topic, 0, numbered(3)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	at := func(position int64) record.BoundsQuery {
		return record.BoundsQuery{Positions: map[record.Partition]int64{k.at(0): position}}
	}
	k.awaitEnd(t, src, 2)
	if b := k.bounds(t, src, at(1)); b.Start != 0 || b.End != 2 || b.HighWatermark != 2 {
		t.Errorf("bounds below the end are %+v", b)
	}
	if b := k.bounds(t, src, at(2)); b.Start != record.Unknown || b.End != 2 || b.HighWatermark != 5 {
		t.Errorf("bounds at the end are %+v", b)
	}
	end(true)
	k.awaitEnd(t, src, 6)
}

func timestampInTransaction(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(2)...)
	defer k.Transact(t, k.topic, 0, numbered(5)...)(false)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 2)
	q := record.BoundsQuery{Timestamp: firstMillis + 4, TimestampTopics: map[string]bool{k.topic: true}}
	if b := k.bounds(t, src, q); b.AtTimestamp != 2 || b.End != 2 {
		t.Errorf("bounds are %+v", b)
	}
}

func deletedStart(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	k.DeleteRecords(t, k.topic, 0, 3)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	await(t, "the log start", func() bool {
		b := k.bounds(t, src, record.BoundsQuery{})
		return b.Start == 3 && b.End == 5
	})
}

func uncommittedBounds(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(2)...)
	defer k.Transact(t, k.topic, 0, numbered(3)...)(true)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}, ReadUncommitted: true})
	k.awaitEnd(t, src, 5)
	for _, position := range []int64{1, 2, 5} {
		b := k.bounds(t, src, record.BoundsQuery{Positions: map[record.Partition]int64{k.at(0): position}})
		if b.End != 5 || b.HighWatermark != 5 {
			t.Errorf("bounds at %d are %+v", position, b)
		}
	}
}

func recreatedID(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	id := func() string { return mustBounds(t, src, record.BoundsQuery{}).Topics[k.topic].ID }
	var before string
	await(t, "the topic id", func() bool { before = id(); return before != "" })
	if len(before) != 22 || id() != before {
		t.Errorf("topic id is %q, then %q", before, id())
	}
	k.Recreate(t, k.topic, 1)
	await(t, "another topic id", func() bool { after := id(); return after != "" && after != before })
}

func cancelledBounds(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.Open(t, SourceConfig{Topics: []string{k.topic}}).Bounds(ctx, record.BoundsQuery{Lanes: 1})
	wantKind(t, err, fault.Transient, "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v does not tell of the cancel", err)
	}
}

func readAll(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	want := numbered(250)
	want[7].Headers = []record.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}
	k.Produce(t, k.topic, 0, want[:100]...)
	k.Produce(t, k.topic, 0, want[100:]...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 250)
	planned := map[string]string{k.topic: mustBounds(t, src, record.BoundsQuery{}).Topics[k.topic].ID}
	got, err := readAs(t, src, planned, k.rng(0, 250))
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, placed(k.at(0), 0, want...), got[k.at(0)])
}

func nullAndEmpty(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	want := numbered(4)
	want[0].Key, want[1].Key = nil, []byte{}
	want[2].Value, want[3].Value = nil, []byte{}
	k.Produce(t, k.topic, 0, want...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 4)
	wantRecords(t, placed(k.at(0), 0, want...), mustReadSource(t, src, k.rng(0, 4))[k.at(0)])
}

func windowOnly(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	recs := numbered(40)
	for i := range 4 {
		k.Produce(t, k.topic, 0, recs[i*10:i*10+10]...)
	}
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 40)
	for _, w := range [][2]int64{{5, 25}, {10, 20}, {19, 21}, {39, 40}, {0, 1}} {
		wantRecords(t, placed(k.at(0), w[0], recs[w[0]:w[1]]...), mustReadSource(t, src, k.rng(w[0], w[1]))[k.at(0)])
	}
}

func nothingLater(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	recs := numbered(6)
	k.Produce(t, k.topic, 0, recs[:3]...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 3)
	k.Produce(t, k.topic, 0, recs[3:]...)
	k.awaitEnd(t, src, 6)
	wantRecords(t, placed(k.at(0), 0, recs[:3]...), mustReadSource(t, src, k.rng(0, 3))[k.at(0)])
}

func manyTopics(t *testing.T, k sourceTest) {
	topics := []string{k.topic + "-a", k.topic + "-b"}
	want := map[record.Partition][]record.Record{}
	var ranges []record.Range
	for n, topic := range topics {
		k.CreateTopic(t, topic, 3)
		for id := range int32(3) {
			p, recs := record.Partition{Topic: topic, ID: id}, numbered(20+10*n+int(id))
			k.Produce(t, topic, id, recs...)
			want[p] = placed(p, 0, recs...)
			ranges = append(ranges, record.Range{Partition: p, To: int64(len(recs))})
		}
	}
	src := k.Open(t, SourceConfig{Topics: topics})
	for _, rng := range ranges {
		await(t, rng.String(), func() bool {
			return mustBounds(t, src, record.BoundsQuery{}).Topics[rng.Partition.Topic].Partitions[rng.Partition.ID].End == rng.To
		})
	}
	got := mustReadSource(t, src, ranges...)
	for p := range want {
		wantRecords(t, want[p], got[p])
	}
}

func nothingToRead(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	for _, ranges := range [][]record.Range{nil, {k.rng(0, 0)}} {
		r := src.Open(t.Context(), ranges, nil)
		if batch, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("reading %v yields %+v, %v", ranges, batch, err)
		}
		r.Close()
	}
}

func abortedRecords(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	recs := numbered(12)
	k.Produce(t, k.topic, 0, recs[:2]...)          // 0, 1
	k.Transact(t, k.topic, 0, recs[2:4]...)(false) // 2, 3, marker 4
	k.Transact(t, k.topic, 0, recs[4:6]...)(true)  // 5, 6, marker 7
	k.Transact(t, k.topic, 0, recs[6:8]...)(false) // 8, 9, marker 10
	k.Produce(t, k.topic, 0, recs[8:10]...)        // 11, 12
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 13)
	want := slices.Concat(placed(k.at(0), 0, recs[:2]...), placed(k.at(0), 5, recs[4:6]...), placed(k.at(0), 11, recs[8:10]...))
	wantRecords(t, want, mustReadSource(t, src, k.rng(0, 13))[k.at(0)])
	// A window may begin inside a transaction and end before its marker.
	wantRecords(t, placed(k.at(0), 5, recs[4:6]...), mustReadSource(t, src, k.rng(3, 9))[k.at(0)])
	wantRecords(t, placed(k.at(0), 11, recs[8]), mustReadSource(t, src, k.rng(9, 12))[k.at(0)])
}

func interleaved(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	recs := numbered(8)
	a := k.Transact(t, k.topic, 0, recs[:2]...)  // 0, 1
	b := k.Transact(t, k.topic, 0, recs[2:4]...) // 2, 3
	k.Produce(t, k.topic, 0, recs[4])            // 4
	b(false)                                     // marker 5 or 6
	a(true)
	k.Produce(t, k.topic, 0, recs[5]) // 7
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 8)
	got := mustReadSource(t, src, k.rng(0, 8))[k.at(0)]
	// A real broker writes markers when it gets to it, so the last record may stand before them.
	if n := len(got); n > 0 && got[n-1].Offset >= 5 && got[n-1].Offset < 8 {
		got[n-1].Offset = 7
	}
	wantRecords(t, slices.Concat(placed(k.at(0), 0, recs[:2]...), placed(k.at(0), 4, recs[4]), placed(k.at(0), 7, recs[5])), got)
}

func controlOnly(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(1)...)
	k.Transact(t, k.topic, 0, numbered(2)...)(false) // 1, 2, marker 3
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 4)
	for _, w := range [][2]int64{{1, 4}, {3, 4}, {1, 3}, {2, 3}} {
		wantRecords(t, nil, mustReadSource(t, src, k.rng(w[0], w[1]))[k.at(0)])
	}
}

func uncommitted(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	recs := numbered(4)
	k.Transact(t, k.topic, 0, recs[:2]...)(false)      // 0, 1, marker 2
	defer k.Transact(t, k.topic, 0, recs[2:]...)(true) // 3, 4 still open
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}, ReadUncommitted: true})
	k.awaitEnd(t, src, 5)
	want := slices.Concat(placed(k.at(0), 0, recs[:2]...), placed(k.at(0), 3, recs[2:]...))
	wantRecords(t, want, mustReadSource(t, src, k.rng(0, 5))[k.at(0)])
	wantRecords(t, nil, mustReadSource(t, src, k.rng(2, 3))[k.at(0)]) // the marker
	wantRecords(t, placed(k.at(0), 1, recs[1]), mustReadSource(t, src, k.rng(1, 3))[k.at(0)])
}

func committedBeforeOpen(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	recs := numbered(5)
	k.Produce(t, k.topic, 0, recs[:2]...)          // 0, 1
	end := k.Transact(t, k.topic, 0, recs[2:4]...) // 2, 3, marker 5
	k.Produce(t, k.topic, 0, recs[4])              // 4
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 2)
	wantRecords(t, placed(k.at(0), 0, recs[:2]...), mustReadSource(t, src, k.rng(0, 2))[k.at(0)])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := src.Open(ctx, []record.Range{k.rng(2, 5)}, nil)
	defer r.Close()
	waiting, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if batch, err := r.Next(waiting); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("while the transaction is open, Next returns %+v, %v", batch, err)
	}
	end(true)
	k.awaitEnd(t, src, 6)
	wantRecords(t, placed(k.at(0), 2, recs[2:]...), mustReadSource(t, src, k.rng(2, 5))[k.at(0)])
}

// compacted reads windows that begin, end and lie in what was compacted away.
func compacted(t *testing.T, k sourceTest) {
	k.CreateCompacted(t, k.topic)
	const n = 40
	recs := numbered(n)
	for i := range recs {
		recs[i].Key = fmt.Appendf(nil, "k%d", i%3)
		recs[i].Timestamp = time.Now().Add(time.Duration(i-n) * time.Second).UnixMilli() // each batch rolls a short segment
	}
	recs[0].Key = []byte("first") // keeps the log start where it is
	for i := range n / 4 {
		k.Produce(t, k.topic, 0, recs[4*i:4*i+4]...)
	}
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, n)
	want := placed(k.at(0), 0, recs...)
	var got []record.Record
	k.Compact(t, k.topic)
	awaitFor(t, "the compaction", time.Minute, func() bool {
		got = mustReadSource(t, src, k.rng(0, n))[k.at(0)]
		return len(got) <= n/2
	})
	if !subset(got, want) || len(got) == 0 || got[0].Offset != 0 || got[len(got)-1].Offset != n-1 {
		t.Errorf("after the compaction these are read: %v", got)
	}
	for from := int64(0); from < n; from += 3 {
		for to := from + 1; to <= n; to += 7 {
			part := mustReadSource(t, src, k.rng(from, to))[k.at(0)]
			if !subset(part, want[from:to]) {
				t.Errorf("[%d, %d) yields %v", from, to, part)
			}
		}
	}
}

// subset tells whether all records are of the list, as they stand there.
func subset(recs, of []record.Record) bool {
	for _, rec := range recs {
		i := rec.Offset - of[0].Offset
		if i < 0 || i >= int64(len(of)) || !gocmp.Equal(rec, of[i], gocmp.Comparer(sameBytes)) {
			return false
		}
	}
	return true
}

func belowStart(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 5)
	k.DeleteRecords(t, k.topic, 0, 3)
	await(t, "the log start", func() bool { return k.bounds(t, src, record.BoundsQuery{}).Start == 3 })
	got, err := read(t, src, k.rng(1, 5))
	wantKind(t, err, fault.Fatal, "offset-before-log-start")
	wantRecords(t, nil, got[k.at(0)])
}

func beyondEnd(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 5)
	got, err := read(t, src, k.rng(7, 9))
	wantKind(t, err, fault.Fatal, "checkpoint-beyond-log-end")
	wantRecords(t, nil, got[k.at(0)])
}

func recreatedRead(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 5)
	planned := k.topicIDs(t, src)
	k.Recreate(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(9)...)
	got, err := readAs(t, src, planned, k.rng(2, 5))
	wantKind(t, err, fault.Fatal, "topic-recreated")
	wantRecords(t, nil, got[k.at(0)])
}

// anotherThanPlanned: a source is shared by the calls of an instance, and what it told one is no news to the other.
func anotherThanPlanned(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(5)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 5)
	planned := k.topicIDs(t, src)
	k.Recreate(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(9)...)
	k.awaitEnd(t, src, 9) // another call
	got, err := readAs(t, src, planned, k.rng(2, 5))
	wantKind(t, err, fault.Fatal, "topic-recreated")
	wantRecords(t, nil, got[k.at(0)])
	wantRecords(t, placed(k.at(0), 2, numbered(9)[2:5]...), mustReadSource(t, src, k.rng(2, 5))[k.at(0)])
}

func endNotReached(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(3)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := src.Open(ctx, []record.Range{k.rng(0, 4)}, nil)
	defer r.Close()
	batch, err := r.Next(t.Context())
	if err != nil || batch.Next != 3 {
		t.Fatalf("the first batch is %+v, %v", batch, err)
	}
	cancel()
	if batch, err = r.Next(t.Context()); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("one offset before the end, Next returns %+v, %v", batch, err)
	}
	wantKind(t, err, fault.Transient, "")
}

func cancelledRead(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(3)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 3)
	r := src.Open(t.Context(), []record.Range{k.rng(3, 4)}, nil)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Next(ctx)
	wantKind(t, err, fault.Transient, "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v does not tell of the cancel", err)
	}
}

func closeReader(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	k.Produce(t, k.topic, 0, numbered(3)...)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitEnd(t, src, 3)
	r := src.Open(t.Context(), []record.Range{k.rng(3, 4)}, nil)
	ended := make(chan error)
	go func() {
		_, err := r.Next(context.WithoutCancel(t.Context()))
		ended <- err
	}()
	r.Close()
	if err := <-ended; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a closed reader's Next returns %v", err)
	}
	r.Close()
}

// firstMillis is the timestamp of a numbered record 0.
const firstMillis = 1_700_000_000_000

// numbered makes records with key, value and timestamp.
func numbered(n int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Timestamp: firstMillis + int64(i), Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return recs
}

// placed gives records their partition and consecutive offsets.
func placed(p record.Partition, first int64, recs ...record.Record) []record.Record {
	recs = slices.Clone(recs)
	for i := range recs {
		recs[i].Partition, recs[i].Offset = p, first+int64(i)
	}
	return recs
}

// topicIDs returns the ids that a run would plan with.
func (k sourceTest) topicIDs(t *testing.T, src pull.Source) map[string]string {
	t.Helper()
	id := mustBounds(t, src, record.BoundsQuery{}).Topics[k.topic].ID
	if id == "" {
		t.Fatalf("topic %s has no id", k.topic)
	}
	return map[string]string{k.topic: id}
}

func (k sourceTest) at(id int32) record.Partition { return record.Partition{Topic: k.topic, ID: id} }

func (k sourceTest) rng(from, to int64) record.Range {
	return record.Range{Partition: k.at(0), From: from, To: to}
}

// bounds asks, as a single lane, for partition 0.
func (k sourceTest) bounds(t *testing.T, src pull.Source, q record.BoundsQuery) record.Bounds {
	t.Helper()
	b, ok := mustBounds(t, src, q).Topics[k.topic].Partitions[0]
	if !ok {
		t.Fatalf("%s/0 has no bounds", k.topic)
	}
	return b
}

func mustBounds(t *testing.T, src pull.Source, q record.BoundsQuery) record.Log {
	t.Helper()
	q.Lanes = max(q.Lanes, 1)
	log, err := src.Bounds(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// awaitEnd waits until partition 0 can be read up to the offset: a real broker ends transactions after its answer.
func (k sourceTest) awaitEnd(t *testing.T, src pull.Source, end int64) {
	t.Helper()
	await(t, fmt.Sprintf("end %d", end), func() bool {
		return mustBounds(t, src, record.BoundsQuery{}).Topics[k.topic].Partitions[0].End == end
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	awaitFor(t, what, 15*time.Second, ok)
}

func awaitFor(t *testing.T, what string, patience time.Duration, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s took too long", what)
		}
	}
}

func mustReadSource(t *testing.T, src pull.Source, ranges ...record.Range) map[record.Partition][]record.Record {
	t.Helper()
	got, err := read(t, src, ranges...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// read reads topics as they come.
func read(t *testing.T, src pull.Source, ranges ...record.Range) (map[record.Partition][]record.Record, error) {
	t.Helper()
	return readAs(t, src, nil, ranges...)
}

// readAs reads the ranges to their ends and checks what a Reader promises of its batches.
func readAs(t *testing.T, src pull.Source, topicIDs map[string]string, ranges ...record.Range) (map[record.Partition][]record.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := src.Open(ctx, ranges, topicIDs)
	defer r.Close()
	next, to := map[record.Partition]int64{}, map[record.Partition]int64{}
	for _, rng := range ranges {
		next[rng.Partition], to[rng.Partition] = rng.From, rng.To
	}
	got := map[record.Partition][]record.Record{}
	for {
		batch, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			for p := range next {
				if next[p] != to[p] {
					t.Errorf("EOF came at %d of %s, which ends at %d", next[p], p, to[p])
				}
			}
			return got, nil
		}
		if err != nil {
			return got, err
		}
		p := batch.Partition
		position := next[p]
		for _, rec := range batch.Records {
			if rec.Partition != p || rec.Offset < position || rec.Offset >= batch.Next {
				t.Errorf("record %s@%d stands in a batch of %s between %d and %d", rec.Partition, rec.Offset, p, position, batch.Next)
			}
			position = rec.Offset + 1
		}
		if batch.Next <= next[p] || batch.Next > to[p] {
			t.Errorf("batch of %s goes from %d to %d, the range ends at %d", p, next[p], batch.Next, to[p])
		}
		next[p] = batch.Next
		got[p] = append(got[p], batch.Records...)
	}
}

func wantRecords(t *testing.T, want, got []record.Record) {
	t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if diff := gocmp.Diff(want, got, gocmp.Comparer(sameBytes)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }
