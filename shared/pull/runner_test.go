package pull_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func clean() *pulltest.Injector { return pulltest.NewInjector(pulltest.Step{}, pulltest.NoFault) }

// in runs a test on a world in fake time.
func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

// edit changes the lane's document as an operator does.
func (w *world) edit(change func(*record.Checkpoint)) {
	snap, err := w.store.Load(w.t.Context(), 0)
	if err != nil || snap.Doc == nil {
		w.t.Fatalf("loading: %v, %v", snap.Doc, err)
	}
	doc := snap.Doc.Clone()
	change(&doc)
	doc.Seq++
	doc.UpdatedBy = "operator"
	if _, err := w.store.Update(w.t.Context(), doc, snap.Revision, nil); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mustRun() record.Report {
	report, err := w.run(clean())
	if err != nil {
		w.t.Fatalf("the run ended with: %v", err)
	}
	return report
}

func wantOutcome(t *testing.T, report record.Report, outcome record.Outcome, limitedBy string) {
	t.Helper()
	if report.Outcome != outcome || report.LimitedBy != limitedBy {
		t.Errorf("the run is %s limited by %q, want %s by %q", report.Outcome, report.LimitedBy, outcome, limitedBy)
	}
}

func wantFatal(t *testing.T, err error, class string, parts ...string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != class {
		t.Fatalf("the error is %v of class %q, want a fatal one of class %q", err, fault.ClassOf(err), class)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestRun_Idle_ReadsTheCheckpointOnceAndWritesNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.quiet()
		inject := clean()
		report, err := w.run(inject)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, report, record.Idle, "")
		if counts := inject.Counts(); len(counts) != 2 || counts[pulltest.EffectLoad] != 1 || counts[pulltest.EffectBounds] != 1 {
			t.Errorf("the effects of an idle run are %v", counts)
		}
		if age := report.OldestUnprocessedAgeSeconds; age == nil || *age != 0 {
			t.Errorf("the oldest unprocessed age is %v", age)
		}
	})
}

func TestRun_FirstAtLatest_StoresWhereItStarts(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.Starting = record.StartingOffsets{Mode: record.StartLatest}
		report := w.mustRun()
		wantOutcome(t, report, record.Done, "")
		w.source.Produce("orders", 0, record.Record{Value: []byte(`{"n":"new"}`)})
		if report := w.mustRun(); report.Read != 1 || report.Written != 1 {
			t.Errorf("read %d and wrote %d, want the one new record", report.Read, report.Written)
		}
		wantOutcome(t, w.mustRun(), record.Idle, "")
	})
}

func TestRun_Paused_AsksKafkaNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.edit(func(doc *record.Checkpoint) { doc.Paused = true })
		inject := clean()
		report, err := w.run(inject)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, report, record.Paused, "")
		if counts := inject.Counts(); len(counts) != 1 {
			t.Errorf("the effects of a paused run are %v", counts)
		}
		if report.Remaining != nil {
			t.Errorf("%d remain, says a run that did not ask Kafka", *report.Remaining)
		}
	})
}

func TestRun_PausedOnTheWay_CommitsAndEnds(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.settings.MaxRecords, w.settings.ChunkRecords = 0, 1
		w.slow(time.Second)
		go func() {
			time.Sleep(900 * time.Millisecond)
			w.edit(func(doc *record.Checkpoint) { doc.Paused = true })
		}()
		report := w.mustRun()
		wantOutcome(t, report, record.Partial, "pause")
		if doc := w.observe(); !doc.Paused || report.Read == 0 {
			t.Errorf("paused %v, read %d", doc.Paused, report.Read)
		}
	})
}

func TestRun_Held_IsSkippedAndTouchesNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.steal()
		before := w.observe()
		report := w.mustRun()
		wantOutcome(t, report, record.Skipped, "")
		if after := w.observe(); after.Seq != before.Seq || report.Read != 0 {
			t.Errorf("seq went from %d to %d, %d were read", before.Seq, after.Seq, report.Read)
		}
	})
}

func TestRun_ByteLimit_EndsAsPartialAndGoesOn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.MaxRecords, w.settings.MaxBytes = 0, 60
		report := w.mustRun()
		wantOutcome(t, report, record.Partial, "bytes")
		if report.Read == 0 || *report.Remaining == 0 {
			t.Errorf("read %d, remaining %d", report.Read, *report.Remaining)
		}
		w.quiet()
		for _, problem := range w.complete() {
			t.Error(problem)
		}
	})
}

func TestRun_Stopped_CommitsWhatWasMoved(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.MaxRecords = 0
		w.slow(time.Second)
		stop := make(chan struct{})
		w.stop = stop
		go func() {
			time.Sleep(1500 * time.Millisecond)
			close(stop)
		}()
		report := w.mustRun()
		wantOutcome(t, report, record.Partial, "stop")
		moved := int64(0)
		for _, position := range w.observe().Offsets {
			moved += position.Offset
		}
		if moved == 0 || report.Read == 0 {
			t.Errorf("read %d, the checkpoint moved %d", report.Read, moved)
		}
		w.stop = nil
		w.quiet()
		for _, problem := range w.complete() {
			t.Error(problem)
		}
	})
}

// Whatever is slow, a run ends in its time, and keeps what it has moved.
func TestRun_SlowSink_EndsInTimeAndMakesProgress(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.MaxRecords, w.settings.Writers = 0, 1
		w.slow(4 * time.Second)
		for n := range 12 {
			began := time.Now()
			report := w.mustRun()
			if took := time.Since(began); took > deadline {
				t.Errorf("run %d took %s", n, took)
			}
			if report.Outcome == record.Idle {
				break
			}
			if report.Read == 0 {
				t.Fatalf("run %d read nothing", n)
			}
			w.observe()
		}
		for _, problem := range w.complete() {
			t.Error(problem)
		}
	})
}

// A sink that is too slow must not hide that the reading had failed for good.
func TestRun_FatalReadingWhileTimeRunsOut_IsTold(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.settings.ChunkRecords, w.settings.Writers = 1, 1
		w.slow(4 * time.Second)
		go func() {
			time.Sleep(time.Second)
			w.source.DeleteRecords("orders", 0, 15)
			w.source.DeleteRecords("orders", 1, 12)
			w.source.DeleteRecords("orders", 2, 12)
		}()
		_, err := w.run(clean())
		wantFatal(t, err, "offset-before-log-start")
	})
}

func TestRun_PartitionWithoutAnswer_HasNoKnownAge(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.ResumeAfterLoss = true
		w.quiet()
		w.source.Produce("orders", 1, record.Record{Value: []byte(`{}`)})
		w.source.Hide("orders", 1, true)
		for range 5 {
			time.Sleep(time.Hour)
			if report := w.mustRun(); report.OldestUnprocessedAgeSeconds != nil || report.Unanswered != 1 {
				t.Errorf("%s: age %v, unanswered %d", report.Outcome, report.OldestUnprocessedAgeSeconds, report.Unanswered)
			}
		}
	})
}

// What could not be committed is not reported as done.
func TestRun_EndNotStored_ReportsWhatTheCheckpointHas(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.settings.CommitEvery = time.Minute
		report, err := w.run(pulltest.NewInjector(pulltest.Step{Effect: pulltest.EffectUpdate, N: 2}, pulltest.Outage))
		if err == nil || report.Outcome != record.Failed {
			t.Fatalf("the run is %s with %v", report.Outcome, err)
		}
		doc := w.observe()
		for _, rng := range report.Ranges {
			if at := doc.Offsets[record.Partition{Topic: rng.Topic, ID: rng.Partition}].Offset; rng.DoneTo != at {
				t.Errorf("%s/%d: done to %d, the checkpoint is %d", rng.Topic, rng.Partition, rng.DoneTo, at)
			}
		}
	})
}

type panicking struct{ pull.Converter }

func (p panicking) Convert(arena *record.Arena, rec record.Record, topic record.Topic) (record.Write, error) {
	if rec.Offset == 5 {
		panic("with the value " + string(rec.Value))
	}
	return p.Converter.Convert(arena, rec, topic)
}

func TestRun_PanicInConversion_IsAFatalLineWithoutTheValue(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.replaced = panicking{w.converter}
		_, err := w.run(clean())
		wantFatal(t, err, "converter-panic", "offset 5")
		if strings.Contains(err.Error(), "value") {
			t.Errorf("%q tells the value", err)
		}
		w.replaced = nil
		w.quiet()
		for _, problem := range w.complete() {
			t.Error(problem)
		}
	})
}

func TestRun_FirstRunIntoACollectionOfAnother_IsSaid(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.store = localcheckpoint.NewMemory(time.Now) // started over, in the same collection
		if report := w.mustRun(); len(report.Notices) != 1 || !strings.Contains(report.Notices[0], "a collection of its own") {
			t.Errorf("the notices are %q", report.Notices)
		}
	})
}

func TestRun_NothingMovedInTheTime_IsAFault(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.source.Hide("orders", 0, false)
		inject := pulltest.NewInjector(pulltest.Step{Effect: pulltest.EffectNext, N: 1}, pulltest.Hangs)
		report, err := w.run(inject)
		if err == nil || fault.KindOf(err) != fault.Transient || report.Outcome != record.Failed {
			t.Errorf("the run is %s with %v", report.Outcome, err)
		}
	})
}

func TestRun_OnRejectStop_StopsBeforeTheFirst(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.StopAtReject = true
		report, err := w.run(clean())
		wantFatal(t, err, "rejected", "onReject")
		if len(w.sink.Letters()) != 0 || report.DeadLettered != 0 {
			t.Errorf("%d dead letters were stored", len(w.sink.Letters()))
		}
		w.observe()
	})
}

// Each run reads ten records, far fewer than the window, and one in two of them is rejected.
func TestRun_TooManyRejects_AreCountedAcrossRuns(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.source = pulltest.NewSource()
		w.source.AddTopic("orders", 3)
		for i := range 200 {
			value := []byte(`{}`)
			if i%2 == 0 {
				value = []byte(`{`)
			}
			w.source.Produce("orders", 0, record.Record{Value: value})
		}
		w.settings.MaxRecords, w.settings.MaxRejectRatio, w.settings.RejectWindow = 10, 0.2, 100
		w.settings.ChunkRecords, w.settings.Writers = 1, 1
		for n := 1; ; n++ {
			_, err := w.run(clean())
			if err == nil && n < 10 {
				continue
			}
			wantFatal(t, err, "too-many-rejects", "21 of the last 100", "maxRatio 0.2")
			if letters := len(w.sink.Letters()); letters > 20 || n != 5 {
				t.Errorf("%d dead letters were stored by run %d", letters, n)
			}
			break
		}
		if at := w.observe().Offsets[record.Partition{Topic: "orders"}].Offset; at > 41 {
			t.Errorf("the checkpoint is at %d, past the first that was too much", at)
		}
	})
}

func TestRun_Retention_FailsOrIsKeptAsAGap(t *testing.T) {
	t.Parallel()
	for _, resume := range []bool{false, true} {
		t.Run(fmt.Sprint("resume ", resume), func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.mustRun()
				at := w.observe().Offsets[record.Partition{Topic: "orders"}].Offset
				w.source.DeleteRecords("orders", 0, at+3)
				w.settings.ResumeAfterLoss = resume
				report, err := w.run(clean())
				if !resume {
					wantFatal(t, err, "offset-before-log-start", "orders/0", fmt.Sprint(at), fmt.Sprint(at+3), "DataLoss.md")
					return
				}
				if err != nil || len(report.Gaps) != 1 || report.Gaps[0].From != at || report.Gaps[0].To != at+3 {
					t.Fatalf("gaps %v, error %v", report.Gaps, err)
				}
				w.quiet()
				if doc := w.observe(); doc.GapRecords != 3 || len(doc.Gaps) != 1 {
					t.Errorf("the document has %d lost records in %v", doc.GapRecords, doc.Gaps)
				}
			})
		})
	}
}

// Between the plan and the first fetch another call of the same process may look at the new topic.
func TestRun_TopicRecreatedAfterThePlan_IsNotRead(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		documents := len(w.sink.Documents())
		w.beforeWrite = func() {
			w.beforeWrite = nil // the lease is being taken: once
			w.source.Recreate("orders", 3)
			for range 40 {
				w.source.Produce("orders", 0, record.Record{Value: []byte(`{"n":"new"}`)})
			}
		}
		_, err := w.run(clean())
		wantFatal(t, err, "topic-recreated")
		if now := len(w.sink.Documents()); now != documents {
			t.Errorf("%d documents of the new topic were written under ids of the old one", now-documents)
		}
	})
}

// A topic that is deleted and created again while the run goes on must not be taken for the one that was planned.
func TestRun_TopicRecreatedOnTheWay_CommitsNothingOfIt(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		before := w.observe()
		// Everything is read before the topic goes, and written after.
		w.settings.CommitEvery, w.settings.ChunkRecords = time.Minute, 100
		w.slow(time.Second)
		go func() {
			time.Sleep(500 * time.Millisecond)
			w.source.Recreate("orders", 3)
		}()
		_, err := w.run(clean())
		wantFatal(t, err, "topic-recreated", "orders")
		snap, err := w.store.Load(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for partition, position := range snap.Doc.Offsets {
			if position.Offset != before.Offsets[partition].Offset {
				t.Errorf("%s was moved from %d to %d", partition, before.Offsets[partition].Offset, position.Offset)
			}
		}
	})
}

func TestRun_CheckpointOfSomethingElse_IsRefusedWithTheDifference(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*pull.Settings)
		class  string
		parts  []string
	}{
		{"sink", func(s *pull.Settings) { s.Identity = map[string]string{"sink": "shop.other"} }, "identity-changed", []string{"shop.orders", "shop.other"}},
		{"lanes", func(s *pull.Settings) { s.Lanes = 2 }, "lanes-changed", []string{"run.lanes to 1"}},
		{"older layout", func(s *pull.Settings) { s.Layout = 0 }, "layout-behind", []string{"layout 1", "layout 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.mustRun()
				test.change(&w.settings)
				_, err := w.run(clean())
				wantFatal(t, err, test.class, test.parts...)
			})
		})
	}
}

func TestRun_NegativeOffsetByHand_IsNotTakenForLoss(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.settings.ResumeAfterLoss = true
		w.mustRun()
		w.edit(func(doc *record.Checkpoint) {
			doc.Offsets[record.Partition{Topic: "orders", ID: 1}] = record.Position{Offset: -5}
		})
		report, err := w.run(clean())
		wantFatal(t, err, "checkpoint-corrupt", "orders/1", "-5")
		if len(report.Gaps) != 0 {
			t.Errorf("a gap was made of it: %v", report.Gaps)
		}
	})
}

func TestRun_PartitionNoLongerAssigned_IsNotMissed(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.quiet()
		w.source.Topics, w.source.Assign = nil, map[string][]int32{"orders": {0, 2}}
		w.settings.Assign = w.source.Assign
		for range 5 {
			time.Sleep(time.Hour)
			wantOutcome(t, w.mustRun(), record.Idle, "")
		}
		w.source.Produce("orders", 0, record.Record{Value: []byte(`{}`)})
		w.mustRun()
		if at := w.observe().Offsets[record.Partition{Topic: "orders", ID: 1}].Offset; at != 12 {
			t.Errorf("its position went from 12 to %d", at)
		}
	})
}

func TestRun_StartingOffsetsChanged_SaysThatTheyHaveNoEffect(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustRun()
		w.settings.StartingText = "latest"
		if report := w.mustRun(); len(report.Notices) != 1 || !strings.Contains(report.Notices[0], "startingOffsets") {
			t.Errorf("the notices are %q", report.Notices)
		}
	})
}

// faultyRun is one run to which something happens, and how long nothing happens after it.
type faultyRun struct {
	step  pulltest.Step
	fault pulltest.Fault
	pause bool // for as long as a lease lasts
}

func drawFaultyRun(draw *rapid.T) faultyRun {
	effect := rapid.SampledFrom([]pulltest.Effect{
		pulltest.EffectCreate, pulltest.EffectNext, pulltest.EffectWrite, pulltest.EffectBury, pulltest.EffectUpdate,
	}).Draw(draw, "effect")
	return faultyRun{
		step:  pulltest.Step{Effect: effect, N: rapid.IntRange(1, 9).Draw(draw, "n")},
		fault: rapid.SampledFrom(pulltest.Faults()).Draw(draw, "fault"), pause: rapid.Bool().Draw(draw, "pause"),
	}
}

// TestRun_RandomFaults_LoseAndDoubleNothing draws settings, logs and several faulty runs in a row.
func TestRun_RandomFaults_LoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(draw *rapid.T) {
		writers, chunk := rapid.IntRange(1, 4).Draw(draw, "writers"), rapid.IntRange(1, 7).Draw(draw, "chunk")
		limit, inFlight := rapid.Int64Range(1, 50).Draw(draw, "limit"), rapid.Int64Range(1, 200).Draw(draw, "in flight")
		batch, ownIDs := rapid.IntRange(1, 9).Draw(draw, "batch"), rapid.Bool().Draw(draw, "own ids")
		faulty := rapid.SliceOfN(rapid.Custom(drawFaultyRun), 1, 4).Draw(draw, "faulty runs")
		var problems []string
		// A bubble needs a test of its own, and rapid a verdict: problems cross over.
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.settings.Writers, w.settings.ChunkRecords = writers, chunk
			w.settings.MaxRecords, w.settings.InFlight = limit, inFlight
			w.source.MaxRecords = batch
			if ownIDs { // these go to writers of their own, so that a batch is in several chunks
				w.more = 24
				for i := range w.more {
					w.source.Produce("orders", int32(i%3), record.Record{Value: fmt.Appendf(nil, `{"_id":"own %d"}`, i)})
				}
			}
			for _, f := range faulty {
				_, _ = w.run(pulltest.NewInjector(f.step, f.fault)) // it may fail, not lose
				w.observe()
				if f.pause {
					time.Sleep(w.settings.LeaseLength)
				}
			}
			for range 4 { // a limit of one record takes many runs
				w.quiet()
			}
			problems = w.complete()
		})
		for _, problem := range problems {
			if problem != "not quiet after 20 runs" {
				draw.Error(problem)
			}
		}
	})
}

// slow makes every write last so long.
func (w *world) slow(by time.Duration) {
	w.wrap = func(s pull.Sink) pull.Sink { return slowSink{s, by} }
}

type slowSink struct {
	pull.Sink
	by time.Duration
}

func (s slowSink) Write(ctx context.Context, writes []record.Write) (record.WriteResult, error) {
	select {
	case <-time.After(s.by):
		return s.Sink.Write(ctx, writes)
	case <-ctx.Done():
		return record.WriteResult{}, fault.Transientf("writing: %w", ctx.Err())
	}
}
