package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

var orders = record.Partition{Topic: "orders", ID: 0}

const length = 6 * time.Second

func terms(holder string) lease.Terms {
	return lease.Terms{Holder: holder, Length: length, Heartbeat: length / 3}
}

// layout is what a first run stores.
func layout(doc *record.Checkpoint) {
	doc.Lanes, doc.Layout = 1, 1
	doc.Offsets = map[record.Partition]record.Position{}
}

func move(to int64) lease.Change {
	return func(doc *record.Checkpoint) { doc.Offsets[orders] = record.Position{Offset: to} }
}

// take reads the lane and takes its lease.
func take(t *testing.T, store lease.Store, holder string) (*lease.Lane, error) {
	t.Helper()
	reading, err := lease.Read(t.Context(), store, 0)
	if err != nil {
		t.Fatal(err)
	}
	change := lease.Change(layout)
	if reading.Doc != nil {
		change = func(*record.Checkpoint) {}
	}
	return lease.Take(t.Context(), store, reading, terms(holder), change)
}

func mustTake(t *testing.T, store lease.Store, holder string) *lease.Lane {
	t.Helper()
	lane, err := take(t, store, holder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lane.Release(context.WithoutCancel(t.Context()), func(*record.Checkpoint) {}, nil) })
	return lane
}

func stored(t *testing.T, store lease.Store) record.Checkpoint {
	t.Helper()
	snap, err := store.Load(t.Context(), 0)
	if err != nil || snap.Doc == nil {
		t.Fatalf("loading: %v, %v", snap.Doc, err)
	}
	return *snap.Doc
}

// edit stores a change past the lane, as an operator or another run does.
func edit(t *testing.T, store lease.Store, change func(*record.Checkpoint)) {
	t.Helper()
	snap, err := store.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	doc := snap.Doc.Clone()
	change(&doc)
	doc.Seq++
	doc.UpdatedBy = "somebody"
	if _, err := store.Update(t.Context(), doc, snap.Revision, nil); err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Fatalf("the error is %v, want one of kind %s", err, kind)
	}
}

// in runs a test in fake time on a fresh store whose clock is years away from this machine's.
func in(t *testing.T, test func(t *testing.T, store lease.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, localcheckpoint.NewMemory(func() time.Time { return time.Now().AddDate(-7, 0, 0) }))
	})
}

func TestTake_HeldBySomeoneAlive_IsConflict(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		mustTake(t, store, "a")
		_, err := take(t, store, "b")
		wantKind(t, err, fault.Conflict)
		if doc := stored(t, store); doc.Lease.Holder != "a" || doc.Lease.Epoch != 1 {
			t.Errorf("the lease is %+v", doc.Lease)
		}
	})
}

func TestTake_OfTheDead_WaitsUntilTheLeaseRunsOut(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		ctx, die := context.WithCancel(t.Context())
		reading, err := lease.Read(ctx, store, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lease.Take(ctx, store, reading, terms("a"), layout); err != nil {
			t.Fatal(err)
		}
		die()
		time.Sleep(length - time.Millisecond)
		_, err = take(t, store, "b")
		wantKind(t, err, fault.Conflict)
		time.Sleep(2 * time.Millisecond)
		mustTake(t, store, "b")
		if doc := stored(t, store); doc.Lease.Epoch != 2 || doc.Lease.Holder != "b" {
			t.Errorf("the lease is %+v", doc.Lease)
		}
	})
}

func TestTake_ByTwoAtOnce_OneGetsIt(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		for _, first := range []bool{true, false} {
			a, err := lease.Read(t.Context(), store, 0)
			if err != nil {
				t.Fatal(err)
			}
			change := func(doc *record.Checkpoint) {
				if first {
					layout(doc)
				}
			}
			one, errOne := lease.Take(t.Context(), store, a, terms("one"), change)
			_, errTwo := lease.Take(t.Context(), store, a, terms("two"), change)
			if errOne != nil {
				t.Fatal(errOne)
			}
			wantKind(t, errTwo, fault.Conflict)
			if err := one.Release(t.Context(), func(*record.Checkpoint) {}, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLane_IsRenewedForAsLongAsItIsHeld(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		time.Sleep(10 * length)
		if err := lane.Context().Err(); err != nil {
			t.Fatalf("the lease was lost: %v", context.Cause(lane.Context()))
		}
		_, err := take(t, store, "b")
		wantKind(t, err, fault.Conflict)
		if err := lane.Commit(t.Context(), move(7)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLane_TakenOver_StopsAndStoresNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		edit(t, store, func(doc *record.Checkpoint) {
			doc.Lease = record.Lease{Holder: "thief", Epoch: doc.Lease.Epoch + 1, ExpiresAt: time.Now()}
		})
		wantKind(t, lane.Commit(t.Context(), move(7)), fault.Conflict)
		<-lane.Context().Done()
		wantKind(t, context.Cause(lane.Context()), fault.Conflict)
		wantKind(t, lane.Release(t.Context(), move(8), nil), fault.Conflict)
		if doc := stored(t, store); len(doc.Offsets) != 0 || doc.Lease.Holder != "thief" {
			t.Errorf("a zombie stored %+v", doc)
		}
	})
}

func TestLane_TakenOver_IsSeenByTheNextHeartbeat(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		edit(t, store, func(doc *record.Checkpoint) { doc.Lease = record.Lease{Holder: "thief", Epoch: doc.Lease.Epoch + 1} })
		began := time.Now()
		<-lane.Context().Done()
		if waited := time.Since(began); waited > length/3 {
			t.Errorf("it took %s", waited)
		}
	})
}

func TestLane_PausedByAnOperator_ObeysAndKeepsTheMark(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		edit(t, store, func(doc *record.Checkpoint) { doc.Paused = true })
		if err := lane.Commit(t.Context(), move(7)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lane.Paused():
		default:
			t.Error("the lane does not say that it is paused")
		}
		if doc := stored(t, store); !doc.Paused || doc.Offsets[orders].Offset != 7 {
			t.Errorf("stored %+v", doc)
		}
	})
}

// A commit is stored once, whatever becomes of its answer.
func TestLane_CommitWithAFault_IsStoredOnceAndKnownToBe(t *testing.T) {
	t.Parallel()
	for _, f := range []pulltest.Fault{
		pulltest.FailsBefore, pulltest.FailsAfter, pulltest.Hangs, pulltest.HangsAfter,
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, inner lease.Store) {
				inject := pulltest.NewInjector(pulltest.Step{Effect: pulltest.EffectUpdate, N: 1}, f)
				store := inject.Store(inner, func(record.Checkpoint) {})
				lane := mustTake(t, store, "a")
				before := stored(t, inner).Seq
				if err := lane.Commit(t.Context(), move(7)); err != nil {
					t.Fatal(err)
				}
				if doc := stored(t, inner); doc.Offsets[orders].Offset != 7 || doc.Seq != before+1 {
					t.Errorf("offset %d, seq %d after %d", doc.Offsets[orders].Offset, doc.Seq, before)
				}
				if err := lane.Commit(t.Context(), move(9)); err != nil {
					t.Fatal(err)
				}
				if doc := stored(t, inner); doc.Offsets[orders].Offset != 9 || doc.Seq != before+2 {
					t.Errorf("offset %d, seq %d after %d", doc.Offsets[orders].Offset, doc.Seq, before)
				}
			})
		})
	}
}

// lateStore stores one update whose answer comes after its caller has given up.
type lateStore struct {
	lease.Store
	late bool
}

func (s *lateStore) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	after, err := s.Store.Update(ctx, doc, at, run)
	if s.late && err == nil {
		s.late = false
		<-ctx.Done()
		return "", fault.Transientf("no answer: %w", ctx.Err())
	}
	return after, err
}

// A commit that was given up and stored all the same looks much like the next write: same run, same epoch, same seq.
func TestRelease_AfterACommitThatWasGivenUp_IsStored(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, inner lease.Store) {
		store := &lateStore{Store: inner}
		lane := mustTake(t, store, "a")
		store.late = true
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantKind(t, lane.Commit(ctx, move(10)), fault.Transient)
		if at := stored(t, inner).Offsets[orders].Offset; at != 10 {
			t.Fatalf("the commit left %d: the test does not test what it says", at)
		}
		if err := lane.Release(t.Context(), move(20), nil); err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, inner); doc.Offsets[orders].Offset != 20 || doc.Lease.Holder != "" {
			t.Errorf("the release left offset %d and holder %q", doc.Offsets[orders].Offset, doc.Lease.Holder)
		}
	})
}

// An operator who raises seq and leaves updatedBy must not be taken for our own write.
func TestLane_EditedUnderOurName_IsNotTakenForOurCommit(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		snap, err := store.Load(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		doc := snap.Doc.Clone()
		doc.Paused = true
		doc.Seq++
		if _, err := store.Update(t.Context(), doc, snap.Revision, nil); err != nil {
			t.Fatal(err)
		}
		if err := lane.Commit(t.Context(), move(20)); err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, store); doc.Offsets[orders].Offset != 20 || !doc.Paused {
			t.Errorf("stored offset %d, paused %v", doc.Offsets[orders].Offset, doc.Paused)
		}
	})
}

// A store that is away for longer than the lease ends the run before anyone else could take the lane.
func TestLane_StoreAway_LetsGoBeforeTheLeaseRunsOut(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, inner lease.Store) {
		inject := pulltest.NewInjector(pulltest.Step{Effect: pulltest.EffectUpdate, N: 1}, pulltest.Outage)
		lane := mustTake(t, inject.Store(inner, func(record.Checkpoint) {}), "a")
		<-lane.Context().Done()
		wantKind(t, context.Cause(lane.Context()), fault.Transient)
		_, err := take(t, inner, "b")
		wantKind(t, err, fault.Conflict)
	})
}

func TestLane_DeletedByHand_IsFatal(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, inner lease.Store) {
		store := &deletable{Store: inner}
		lane := mustTake(t, store, "a")
		store.deleted = true
		wantKind(t, lane.Commit(t.Context(), move(7)), fault.Fatal)
	})
}

// deletable is a store whose document is gone.
type deletable struct {
	lease.Store
	deleted bool
}

func (d *deletable) Load(ctx context.Context, lane int) (lease.Snapshot, error) {
	if d.deleted {
		return lease.Snapshot{ReadAt: time.Now()}, nil
	}
	return d.Store.Load(ctx, lane)
}

func (d *deletable) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	if d.deleted {
		return "", fault.Fatalf("checkpoint-missing", "the document does not exist although it was read before")
	}
	return d.Store.Update(ctx, doc, at, run)
}

func TestRelease_GivesTheLeaseBackWithTheRun(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		if err := lane.Release(t.Context(), move(9), &record.Report{Run: "a", Outcome: record.Done}); err != nil {
			t.Fatal(err)
		}
		doc := stored(t, store)
		if doc.Lease.Holder != "" || doc.Lease.Epoch != 1 || doc.Offsets[orders].Offset != 9 {
			t.Errorf("stored %+v", doc)
		}
		if err := lane.Commit(t.Context(), move(10)); err == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("a commit after the release ended with %v", err)
		}
		mustTake(t, store, "b")
	})
}
