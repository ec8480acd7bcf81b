package pull_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// watchedSink takes a time of its own for every call and notes what it sees of the order of writes.
type watchedSink struct {
	pull.Sink
	took func() time.Duration

	mu       sync.Mutex
	underWay map[uint64]int
	last     map[string]int64 // by order and partition
	problems []string
}

func watch(inner pull.Sink, took func() time.Duration) *watchedSink {
	return &watchedSink{Sink: inner, took: took, underWay: map[uint64]int{}, last: map[string]int64{}}
}

func (s *watchedSink) Write(ctx context.Context, writes []record.Write) (record.WriteResult, error) {
	orders := map[uint64]bool{}
	s.mu.Lock()
	for _, w := range writes {
		order, matters := s.Order(w)
		if !matters {
			continue
		}
		orders[order] = true
		place := fmt.Sprintf("%d in %s", order, w.Record.Partition)
		if last, known := s.last[place]; known && w.Record.Offset <= last {
			s.problems = append(s.problems, fmt.Sprintf("offset %d comes after %d of the same order", w.Record.Offset, last))
		}
		s.last[place] = w.Record.Offset
	}
	for order := range orders {
		if s.underWay[order]++; s.underWay[order] > 1 {
			s.problems = append(s.problems, fmt.Sprintf("order %d is in %d calls at once", order, s.underWay[order]))
		}
	}
	took := s.took()
	s.mu.Unlock()
	time.Sleep(took)
	result, err := s.Sink.Write(ctx, writes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for order := range orders {
		s.underWay[order]--
	}
	return result, err
}

// skipping drops records by config, as a converter does that ignores tombstones.
type skipping struct{ pull.Converter }

func (c skipping) Convert(arena *record.Arena, rec record.Record, topic record.Topic) (record.Write, error) {
	if rec.Value == nil {
		return record.Write{Op: record.Skip, Record: rec}, nil
	}
	return c.Converter.Convert(arena, rec, topic)
}

// TestRun_WritesOfOneOrder_StayInOrderAndAreNeverTwoAtOnce draws records with few own ids, with coordinates, dropped ones
// and malformed ones, over several writers and small chunks.
func TestRun_WritesOfOneOrder_StayInOrderAndAreNeverTwoAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(draw *rapid.T) {
		writers, chunk := rapid.IntRange(1, 5).Draw(draw, "writers"), rapid.IntRange(1, 6).Draw(draw, "chunk")
		inFlight, batch := rapid.Int64Range(1, 2000).Draw(draw, "in flight"), rapid.IntRange(1, 12).Draw(draw, "batch")
		waits := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 9).Draw(draw, "milliseconds of a write")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 120).Draw(draw, "records")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			w := emptyWorld(t)
			w.settings.Writers, w.settings.ChunkRecords, w.settings.InFlight = writers, chunk, inFlight
			w.source.MaxRecords = batch
			w.replaced = skipping{w.converter}
			calls := 0
			sink := watch(w.sink, func() time.Duration { calls++; return time.Duration(waits[calls%len(waits)]) * time.Millisecond })
			w.wrap = func(s pull.Sink) pull.Sink { sink.Sink = s; return sink }

			var skipped int64
			for i, kind := range kinds {
				rec := record.Record{Value: fmt.Appendf(nil, `{"_id":"k%d","n":%d}`, kind, i)}
				switch {
				case kind >= 8:
					rec.Value = fmt.Appendf(nil, `{"n":%d}`, i)
				case kind == 7:
					rec.Value = []byte(`{`)
				case kind == 6:
					rec.Value = nil
					skipped++
				}
				w.source.Produce("orders", int32(i%2), rec)
			}
			report := w.mustRun()
			problems = sink.problems
			total := report.Written + report.Duplicates + report.DeadLettered + report.Filtered
			if report.Outcome != record.Done || report.Read != int64(len(kinds)) || total != report.Read || report.Filtered != skipped {
				problems = append(problems, fmt.Sprintf("%d records, %d to be dropped: %+v", len(kinds), skipped, report))
			}
		})
		for _, problem := range problems {
			draw.Error(problem)
		}
	})
}

// emptyWorld has a topic of two empty partitions and takes any share of rejects.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.source.RemoveTopic("orders")
	w.source.AddTopic("orders", 2)
	w.settings.MaxRecords, w.settings.MaxRejectRatio = 0, 1
	return w
}

func TestRun_FirstOfAnOwnID_StaysWhateverTheWriters(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		*w = *emptyWorld(t)
		w.settings.Writers, w.settings.ChunkRecords = 4, 1
		for i := range 40 {
			w.source.Produce("orders", 0, record.Record{Value: fmt.Appendf(nil, `{"_id":%d,"n":%d}`, i%4, i)})
		}
		report := w.mustRun()
		if report.Written != 4 || report.DeadLettered != 36 {
			t.Errorf("%d written and %d dead letters, want the first 4 and the other 36", report.Written, report.DeadLettered)
		}
		for _, doc := range w.sink.Documents() {
			if id, n := doc.Lookup("_id").AsInt64(), doc.Lookup("n").AsInt64(); id != n {
				t.Errorf("_id %d has record %d", id, n)
			}
		}
	})
}

func TestRun_OnlyDroppedRecords_MoveTheCheckpointAndWriteNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		*w = *emptyWorld(t)
		w.replaced = skipping{w.converter}
		for range 10 {
			w.source.Produce("orders", 1, record.Record{})
		}
		inject := clean()
		report, err := w.run(inject)
		if err != nil || report.Filtered != 10 || report.Read != 10 || inject.Counts()[pulltest.EffectWrite] != 0 {
			t.Errorf("%+v, %v, %d writes", report, err, inject.Counts()[pulltest.EffectWrite])
		}
		if at := w.observe().Offsets[record.Partition{Topic: "orders", ID: 1}].Offset; at != 10 {
			t.Errorf("the checkpoint is at %d, want 10", at)
		}
	})
}

// deadlineSink notes the most time that a write was given.
type deadlineSink struct {
	pull.Sink
	most *time.Duration
}

func (s deadlineSink) Write(ctx context.Context, writes []record.Write) (record.WriteResult, error) {
	end, _ := ctx.Deadline() // a run always has one
	*s.most = max(*s.most, time.Until(end))
	return s.Sink.Write(ctx, writes)
}

func TestRun_WhereThePipelineDeletes_WritesEndWithTheLease(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{true, false} {
		in(t, func(t *testing.T, w *world) {
			var most time.Duration
			w.settings.WritesEndWithLease, w.settings.Writers = deletes, 1
			w.wrap = func(s pull.Sink) pull.Sink { return deadlineSink{s, &most} }
			w.mustRun()
			if within := most <= w.settings.LeaseLength; within != deletes {
				t.Errorf("deletes %t: a write was given %s, the lease lasts %s", deletes, most, w.settings.LeaseLength)
			}
		})
	}
}
