package pull_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// matching is a world whose pipeline reads every topic there is; there is none.
func matching(t *testing.T, w *world) {
	t.Helper()
	*w = *emptyWorld(t)
	w.source.RemoveTopic("orders")
	w.settings.Topics, w.settings.Pattern = nil, "orders.*"
}

func (w *world) produce(topic string, from, to int, at func(int) int64) {
	for i := from; i < to; i++ {
		w.source.Produce(topic, int32(i%2), record.Record{Timestamp: at(i), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
}

func anyTime(int) int64 { return 0 }

func TestRun_Pattern_MatchingNothingIsRefused(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		matching(t, w)
		_, err := w.run(clean())
		wantFatal(t, err, "no-topic-matches", "orders.*")
	})
}

func TestRun_Pattern_TopicThatComesLaterIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		matching(t, w)
		w.settings.Starting, w.settings.StartingText = record.StartingOffsets{Mode: record.StartLatest}, "latest"
		w.source.AddTopic("orders-1", 2)
		w.produce("orders-1", 0, 10, anyTime)
		if report := w.mustRun(); report.Read != 0 {
			t.Errorf("a first run at latest read %d", report.Read)
		}
		w.source.AddTopic("orders-2", 2)
		w.produce("orders-2", 0, 8, anyTime)
		w.produce("orders-1", 10, 13, anyTime)
		if report := w.mustRun(); report.Written != 11 {
			t.Errorf("wrote %d, want the 3 that were added to the old topic and all 8 of the new one", report.Written)
		}
		wantOutcome(t, w.mustRun(), record.Idle, "")
	})
}

// A topic that one answer leaves out is not lost: its positions stay, and it goes on where it was.
func TestRun_Pattern_TopicWithoutAnAnswerKeepsItsPlace(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		matching(t, w)
		w.source.AddTopic("orders-1", 2)
		w.source.AddTopic("orders-2", 2)
		w.produce("orders-1", 0, 10, anyTime)
		w.mustRun()
		w.source.Topics = []string{"orders-2"}
		if report := w.mustRun(); report.Unanswered != 2 || report.Outcome != record.Done {
			t.Errorf("%d partitions without an answer, %s", report.Unanswered, report.Outcome)
		}
		w.source.Topics = nil
		w.produce("orders-1", 10, 14, anyTime)
		if report := w.mustRun(); report.Written != 4 || report.Duplicates != 0 {
			t.Errorf("wrote %d and %d again, want the 4 new ones", report.Written, report.Duplicates)
		}
	})
}

// The names are not known before the first answer, so the timestamps are asked for with a second question, once.
func TestRun_Pattern_StartsAtATimestamp(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		matching(t, w)
		w.settings.Starting, w.settings.StartingText = record.StartingOffsets{Mode: record.StartTimestamp, Timestamp: time.UnixMilli(6)}, "timestamp"
		w.source.AddTopic("orders-1", 2)
		w.produce("orders-1", 0, 10, func(i int) int64 { return int64(i) })
		inject := clean()
		report, err := w.run(inject)
		if err != nil || report.Written != 4 {
			t.Errorf("wrote %d, %v, want the 4 that are not older", report.Written, err)
		}
		if asked := inject.Counts()[pulltest.EffectBounds]; asked != 2 {
			t.Errorf("Kafka was asked %d times", asked)
		}
		inject = clean()
		if report, err := w.run(inject); err != nil || report.Outcome != record.Idle || inject.Counts()[pulltest.EffectBounds] != 1 {
			t.Errorf("%s, %v: an idle run asked Kafka %d times", report.Outcome, err, inject.Counts()[pulltest.EffectBounds])
		}
	})
}
