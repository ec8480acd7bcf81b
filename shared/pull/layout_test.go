package pull_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// Random moments, random deaths, old and new configs at once: no record is read by two lanes or by none.
func TestRun_LanesChangedWhileAllRun_EveryRecordOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mapper, err := mapping.New(mapping.Options{})
				if err != nil {
					t.Fatal(err)
				}
				store := localcheckpoint.NewMemory(time.Now)
				pulltest.LanesTest{
					Open: func() lease.Store { return store }, Converter: mapper, Seed: seed, Between: 6 * time.Second,
				}.Run(t)
			})
		})
	}
}

// as runs a lane under a config of so many lanes and this layout.
func (w *world) as(lanes, layout, lane int, inject *pulltest.Injector) (record.Report, error) {
	w.mu.Lock()
	w.runs++
	name := fmt.Sprintf("run-%d", w.runs)
	w.mu.Unlock()
	settings := w.settings
	settings.Lanes, settings.Layout, settings.MaxRecords = lanes, layout, 0
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	inject.Die = cancel
	runner := &pull.Runner{
		Settings: settings, Source: inject.Source(w.source), Sink: inject.Sink(w.wrap(w.sink)), Converter: w.converter,
		Checkpoints: inject.Store(w.store, func(record.Checkpoint) {}), NewRunID: func() string { return name },
		Logger: slog.New(slog.DiscardHandler),
	}
	return runner.Run(ctx, lane, nil)
}

func (w *world) mustAs(lanes, layout, lane int) record.Report {
	w.t.Helper()
	report, err := w.as(lanes, layout, lane, clean())
	if err != nil {
		w.t.Fatalf("lane %d of %d under layout %d ended with: %v", lane, lanes, layout, err)
	}
	return report
}

// pipeline reads all that is stored.
func (w *world) pipeline() record.Pipeline {
	w.t.Helper()
	var found record.Pipeline
	err := w.store.Edit(w.t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		found = p.Clone()
		return nil, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// editAll changes the documents as an operator does.
func (w *world) editAll(change func(*record.Pipeline)) {
	w.t.Helper()
	err := w.store.Edit(w.t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		p.UpdatedBy = "operator"
		change(p)
		return nil, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// offsets are all positions of a pipeline, each of which must be in the lane that owns it.
func offsets(t *testing.T, p record.Pipeline) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for i, doc := range p.Lanes {
		for partition, at := range doc.Offsets {
			if partition.Lane(len(p.Lanes)) != i {
				t.Errorf("%s is in lane %d of %d", partition, i, len(p.Lanes))
			}
			if _, twice := all[partition.String()]; twice {
				t.Errorf("%s is in two lanes", partition)
			}
			all[partition.String()] = at.Offset
		}
	}
	return all
}

func TestRun_HigherLayout_MovesEachPositionOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustAs(1, 1, 0)
		want := offsets(t, w.pipeline())
		for step, lanes := range []int{4, 4, 2, 3, 1} {
			layout := step + 2
			before := w.pipeline()
			w.source.Produce("orders", 1, record.Record{Value: []byte(`{"n":"more"}`)})
			report := w.mustAs(lanes, layout, lanes-1) // a lane that may be new
			want["orders/1"] += report.Read
			after := w.pipeline()
			got := offsets(t, after)
			if len(after.Lanes) != lanes || after.Layout != layout || after.Audits != int64(step+1) || !maps.Equal(got, want) {
				t.Fatalf("layout %d: %d lanes, %d audit entries, positions %v, want %v", after.Layout, len(after.Lanes), after.Audits, got, want)
			}
			for _, doc := range after.Lanes {
				for _, old := range before.Lanes {
					if doc.Seq <= old.Seq || doc.Lease.Epoch <= old.Lease.Epoch {
						t.Errorf("lane %d has seq %d and epoch %d, lane %d before it had %d and %d", doc.Lane, doc.Seq, doc.Lease.Epoch,
							old.Lane, old.Seq, old.Lease.Epoch)
					}
				}
			}
			for lane := range lanes {
				want["orders/1"] += w.mustAs(lanes, layout, lane).Read
			}
			wantOutcome(t, w.mustAs(lanes, layout, 0), record.Idle, "")
		}
	})
}

func TestRun_OlderLayout_IsFatalAndMovesNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustAs(1, 1, 0)
		w.mustAs(2, 2, 0)
		before := w.pipeline()
		_, err := w.as(1, 1, 0, clean())
		wantFatal(t, err, "layout-behind", "2 lanes (layout 2)", "1 lanes (layout 1)", "run.layout to 3")
		// Lane 3 of 4 has no document, and must not look like a first run either.
		_, err = w.as(4, 1, 3, clean())
		wantFatal(t, err, "layout-behind", "layout 2")
		_, err = w.as(4, 2, 3, clean())
		wantFatal(t, err, "lanes-changed", "2 lanes (layout 2)", "4 lanes", "run.layout to 3")
		if after := w.pipeline(); after.UpdatedBy != before.UpdatedBy || len(after.Lanes) != 2 {
			t.Errorf("it left %+v", after)
		}
	})
}

// A lane that appears between the first read and the look at the whole pipeline is another run's, not a lost one.
func TestRun_LaneCreatedAfterTheRead_IsSkipped(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustAs(2, 1, 0)
		w.store = &lossy{Store: w.store, lost: 1}
		wantOutcome(t, w.mustAs(2, 1, 1), record.Skipped, "")
	})
}

// lossy has lost a lane for whoever reads it alone, as if it were created just after the read.
type lossy struct {
	lease.Store
	lost int
}

func (s *lossy) Load(ctx context.Context, lane int) (lease.Snapshot, error) {
	if lane == s.lost {
		return lease.Snapshot{ReadAt: time.Now()}, nil
	}
	return s.Store.Load(ctx, lane)
}

// blocked starts a run of lane 0 of 1 that lasts, and returns when it holds the lease.
func (w *world) blocked() (ended chan record.Report) {
	w.mustAs(1, 1, 0)
	w.slow(500 * time.Millisecond)
	for i := range 400 {
		w.source.Produce("orders", int32(i%3), record.Record{Value: fmt.Appendf(nil, `{"late":%d}`, i)})
	}
	ended = make(chan record.Report, 1)
	go func() {
		report, err := w.as(1, 1, 0, clean())
		if err != nil {
			w.t.Errorf("the run that drains ended with: %v", err)
		}
		ended <- report
	}()
	time.Sleep(time.Second)
	return ended
}

func TestRun_HigherLayoutWhileOthersRun_DrainsThemAndThenMoves(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		ended := w.blocked()
		for range 2 { // the second finds the mark
			report := w.mustAs(4, 2, 3)
			wantOutcome(t, report, record.Skipped, "")
			if line := strings.Join(report.Notices, " "); !strings.Contains(line, "layout 2") || !strings.Contains(line, "run-2 (lane 0)") {
				t.Errorf("it says %q", line)
			}
		}
		began := time.Now()
		report := <-ended
		wantOutcome(t, report, record.Partial, "layout")
		if waited := time.Since(began); waited > 5*time.Second || report.Read == 0 {
			t.Errorf("the holder went on for %s and read %d", waited, report.Read)
		}
		// No lease under the old layout, and one line that says who and until when. Nothing is asked of Kafka.
		inject := clean()
		report, err := w.as(1, 1, 0, inject)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, report, record.Skipped, "")
		mark := w.pipeline().Draining
		for _, part := range []string{mark.By, mark.Until.Format(time.RFC3339), "4 lanes (layout 2)"} {
			if !strings.Contains(strings.Join(report.Notices, " "), part) {
				t.Errorf("%q does not say %q", report.Notices, part)
			}
		}
		if counts := inject.Counts(); len(counts) != 1 || counts[pulltest.EffectLoad] != 1 {
			t.Errorf("the effects of a run that finds the mark are %v", counts)
		}
		w.wrap = func(s pull.Sink) pull.Sink { return s }
		for lane := range 4 {
			wantDoneOrIdle(t, w.mustAs(4, 2, lane))
		}
		if p := w.pipeline(); p.Draining.By != "" || p.Lanes[0].Draining.By != "" || p.Audits != 1 {
			t.Errorf("after the change: %+v", p)
		}
	})
}

func wantDoneOrIdle(t *testing.T, report record.Report) {
	t.Helper()
	if report.Outcome != record.Done && report.Outcome != record.Idle {
		t.Errorf("the run is %s: %v", report.Outcome, report.Notices)
	}
}

// A holder that died keeps the others waiting for as long as its lease lasts, and no longer.
func TestRun_HigherLayoutAfterADeath_WaitsForTheLease(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		_, _ = w.as(1, 1, 0, pulltest.NewInjector(pulltest.Step{Effect: pulltest.EffectWrite, N: 1}, pulltest.DiesAfter))
		wantOutcome(t, w.mustAs(2, 2, 0), record.Skipped, "")
		time.Sleep(w.settings.LeaseLength)
		for lane := range 2 {
			wantDoneOrIdle(t, w.mustAs(2, 2, lane))
		}
		if documents, letters := len(w.sink.Documents()), len(w.sink.Letters()); documents != 31 || letters != 4 {
			t.Errorf("%d documents and %d dead letters, not 31 and 4", documents, letters)
		}
	})
}

// A rollout that was taken back leaves a mark, which ends by itself.
func TestRun_MarkOfARolloutThatWasTakenBack_Ends(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		ended := w.blocked()
		wantOutcome(t, w.mustAs(2, 2, 1), record.Skipped, "")
		<-ended
		w.wrap = func(s pull.Sink) pull.Sink { return s }
		wantOutcome(t, w.mustAs(1, 1, 0), record.Skipped, "")
		time.Sleep(30 * time.Minute)
		wantOutcome(t, w.mustAs(1, 1, 0), record.Done, "")
		if p := w.pipeline(); p.Layout != 1 || p.Lanes[0].Draining.By != "" {
			t.Errorf("left %+v", p)
		}
	})
}

// Between two rollouts, the newer one is waited for.
func TestRun_MarkOfANewerLayout_IsLeftToIt(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		ended := w.blocked()
		wantOutcome(t, w.mustAs(2, 3, 1), record.Skipped, "")
		<-ended
		wantOutcome(t, w.mustAs(4, 2, 1), record.Skipped, "")
		if p := w.pipeline(); p.Layout != 1 || p.Draining.Layout != 3 {
			t.Errorf("left %+v", p)
		}
	})
}

func TestRun_HigherLayoutOfAPausedLane_StaysPausedAndAsItIs(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustAs(2, 1, 0)
		w.mustAs(2, 1, 1)
		w.editAll(func(p *record.Pipeline) { p.Lanes[1].Paused = true })
		wantOutcome(t, w.mustAs(1, 2, 0), record.Paused, "") // lane 0 was not paused, and is one with lane 1 now
		if p := w.pipeline(); len(p.Lanes) != 1 || !p.Lanes[0].Paused {
			t.Errorf("left %+v", p)
		}
		wantOutcome(t, w.mustAs(2, 3, 0), record.Paused, "")
		if p := w.pipeline(); p.Layout != 2 {
			t.Errorf("a paused lane changed the layout to %d", p.Layout)
		}
	})
}

// Every fault at every effect of the change itself: the lanes are changed once, or not yet.
func TestRun_LayoutChangeWithFaults_IsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for _, effect := range []pulltest.Effect{pulltest.EffectLoad, pulltest.EffectEdit} {
		for _, f := range pulltest.Faults() {
			for n := 1; n <= 2; n++ {
				if f == pulltest.LeaseLost {
					continue // nothing is held yet
				}
				t.Run(fmt.Sprintf("%s %d %s", effect, n, f), func(t *testing.T) {
					t.Parallel()
					in(t, func(t *testing.T, w *world) {
						w.mustAs(3, 1, 0)
						_, _ = w.as(2, 2, 1, pulltest.NewInjector(pulltest.Step{Effect: effect, N: n}, f))
						time.Sleep(w.settings.LeaseLength)
						for lane := range 2 {
							wantDoneOrIdle(t, w.mustAs(2, 2, lane))
						}
						if p := w.pipeline(); len(p.Lanes) != 2 || p.Audits != 1 || len(offsets(t, p)) != 3 {
							t.Errorf("left %+v", p)
						}
						if documents, letters := len(w.sink.Documents()), len(w.sink.Letters()); documents != 31 || letters != 4 {
							t.Errorf("%d documents and %d dead letters, not 31 and 4", documents, letters)
						}
					})
				})
			}
		}
	}
}

// A run that read its lane before the change loses the lease that it is about to take.
func TestRun_LanesChangedBetweenReadAndLease_IsSkipped(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.mustAs(2, 1, 0)
		w.mustAs(2, 1, 1)
		w.source.Produce("orders", 0, record.Record{Value: []byte(`{}`)})
		w.source.Produce("orders", 1, record.Record{Value: []byte(`{}`)})
		for lane := range 2 {
			before := w.pipeline()
			w.store = &lateChange{Store: w.store, change: func() { w.mustAs(1, before.Layout+1, 0) }}
			report, err := w.as(2, before.Layout, lane, clean())
			if err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, report, record.Skipped, "")
			if after := w.pipeline(); len(after.Lanes) != 1 || after.Layout != before.Layout+1 {
				t.Errorf("left %+v", after)
			}
			w.mustAs(2, before.Layout+2, 0)
			w.source.Produce("orders", 0, record.Record{Value: []byte(`{}`)})
			w.source.Produce("orders", 1, record.Record{Value: []byte(`{}`)})
		}
	})
}

// lateChange changes the lanes just after the first read.
type lateChange struct {
	lease.Store
	change func()
}

func (s *lateChange) Load(ctx context.Context, lane int) (lease.Snapshot, error) {
	snap, err := s.Store.Load(ctx, lane)
	if change := s.change; change != nil {
		s.change = nil
		change()
	}
	return snap, err
}
