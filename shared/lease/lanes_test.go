package lease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// drain sets the mark as a run of a newer layout does.
func drain(t *testing.T, store lease.Store, lasts time.Duration) {
	t.Helper()
	err := store.Edit(t.Context(), func(now time.Time, p *record.Pipeline) (*record.Audit, error) {
		p.UpdatedBy = "changer"
		mark := record.Draining{By: "changer", Lanes: 2, Layout: 2, Since: now, Until: now.Add(lasts)}
		p.Draining = mark
		for i := range p.Lanes {
			p.Lanes[i].Draining = mark
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// relane gives the pipeline that many lanes, the first ones of which keep what they have.
func relane(t *testing.T, store lease.Store, lanes int) {
	t.Helper()
	err := store.Edit(t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		p.Layout++
		for len(p.Lanes) < lanes {
			p.Lanes = append(p.Lanes, p.Lanes[0].Sibling(len(p.Lanes)))
		}
		p.Lanes = p.Lanes[:lanes]
		for i := range p.Lanes {
			p.Lanes[i].Lanes, p.Lanes[i].Layout = lanes, p.Layout
			p.Lanes[i].Lease = record.Lease{Epoch: p.Lanes[i].Lease.Epoch + 1}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTake_WhileThePipelineDrains_IsConflictUntilTheMarkEnds(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		if err := mustTake(t, store, "a").Release(t.Context(), move(3), nil); err != nil {
			t.Fatal(err)
		}
		drain(t, store, time.Minute)
		time.Sleep(time.Minute - time.Millisecond)
		_, err := take(t, store, "b")
		wantKind(t, err, fault.Conflict)
		for _, part := range []string{"changer", "layout 2", stored(t, store).Draining.Until.Format(time.RFC3339)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		time.Sleep(2 * time.Millisecond)
		lane := mustTake(t, store, "b")
		if doc := stored(t, store); doc.Draining.By != "" || isClosed(lane.Draining()) {
			t.Errorf("the mark that has ended is still obeyed: %+v", doc.Draining)
		}
	})
}

// A lease that is being taken while the mark is set fails its compare-and-set.
func TestTake_ReadBeforeTheMark_IsConflict(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		if err := mustTake(t, store, "a").Release(t.Context(), move(3), nil); err != nil {
			t.Fatal(err)
		}
		reading, err := lease.Read(t.Context(), store, 0)
		if err != nil {
			t.Fatal(err)
		}
		drain(t, store, time.Minute)
		_, err = lease.Take(t.Context(), store, reading, terms("b"), move(9))
		wantKind(t, err, fault.Conflict)
		if !strings.Contains(err.Error(), "changer") {
			t.Errorf("%q does not name who drains", err)
		}
		if doc := stored(t, store); doc.Lease.Holder != "" || doc.Offsets[orders].Offset != 3 {
			t.Errorf("stored %+v", doc)
		}
	})
}

func TestLane_MarkedWhileHeld_IsToldKeepsTheLeaseAndTheMark(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		lane := mustTake(t, store, "a")
		if isClosed(lane.Draining()) {
			t.Fatal("it drains already")
		}
		drain(t, store, time.Minute)
		began := time.Now()
		<-lane.Draining()
		if waited := time.Since(began); waited > length/3+time.Second {
			t.Errorf("a heartbeat told of the mark after %s", waited)
		}
		if err := lane.Commit(t.Context(), move(7)); err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, store); doc.Lease.Holder != "a" || doc.Draining.By != "changer" || doc.Offsets[orders].Offset != 7 {
			t.Errorf("stored %+v", doc)
		}
		if err := lane.Release(t.Context(), move(9), nil); err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, store); doc.Lease.Holder != "" || doc.Draining.By != "changer" || doc.Offsets[orders].Offset != 9 {
			t.Errorf("stored %+v", doc)
		}
	})
}

// editedStore marks the pipeline after a write was stored and before its writer, who gets no answer, looks.
type editedStore struct {
	lease.Store
	edit func()
}

func (s *editedStore) Create(ctx context.Context, doc record.Checkpoint) (lease.Revision, error) {
	at, err := s.Store.Create(ctx, doc)
	return s.lose(at, err)
}

func (s *editedStore) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	at, err := s.Store.Update(ctx, doc, at, run)
	return s.lose(at, err)
}

func (s *editedStore) lose(at lease.Revision, err error) (lease.Revision, error) {
	edit := s.edit
	s.edit = nil
	if err != nil || edit == nil {
		return at, err
	}
	edit()
	return "", fault.Transientf("no answer")
}

// A change that was stored is not made once more, because somebody else wrote after it: gaps would count twice.
func TestLane_AnswerLostAndMarkedSince_ChangesOnce(t *testing.T) {
	t.Parallel()
	count := func(doc *record.Checkpoint) { doc.GapRecords++ }
	in(t, func(t *testing.T, inner lease.Store) {
		store := &editedStore{Store: inner}
		store.edit = func() { drain(t, inner, time.Minute) }
		reading, err := lease.Read(t.Context(), store, 0)
		if err != nil {
			t.Fatal(err)
		}
		lane, err := lease.Take(t.Context(), store, reading, terms("a"), func(doc *record.Checkpoint) { layout(doc); count(doc) })
		if err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, inner); doc.GapRecords != 1 || doc.Lease.Holder != "a" || !isClosed(lane.Draining()) {
			t.Errorf("after taking the lease: %+v", doc)
		}
		store.edit = func() { edit(t, inner, func(doc *record.Checkpoint) { doc.Paused = true }) }
		if err := lane.Commit(t.Context(), count); err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, inner); doc.GapRecords != 2 || !isClosed(lane.Paused()) {
			t.Errorf("after the commit: %+v", doc)
		}
		if err := lane.Release(t.Context(), count, nil); err != nil {
			t.Fatal(err)
		}
		if doc := stored(t, inner); doc.GapRecords != 3 || !doc.Paused || doc.Draining.By != "changer" {
			t.Errorf("after the release: %+v", doc)
		}
	})
}

// A zombie whose lanes were changed loses its lease as to any other run, also where its lane is not there any more.
func TestLane_LanesChangedUnderAZombie_StoresNothing(t *testing.T) {
	t.Parallel()
	for name, lanes := range map[string][2]int{"more": {1, 3}, "fewer": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, store lease.Store) {
				own := lanes[0] - 1
				reading, err := lease.Read(t.Context(), store, own)
				if err != nil {
					t.Fatal(err)
				}
				lane, err := lease.Take(t.Context(), store, reading, terms("zombie"), func(doc *record.Checkpoint) {
					doc.Lanes, doc.Layout = lanes[0], 1
					doc.Offsets = map[record.Partition]record.Position{}
				})
				if err != nil {
					t.Fatal(err)
				}
				relane(t, store, lanes[1])
				wantKind(t, lane.Commit(t.Context(), move(7)), fault.Conflict)
				<-lane.Context().Done()
				if until := lane.Trusted(); until.After(time.Now()) {
					t.Errorf("a lease that is lost is trusted for %s", time.Until(until))
				}
				snap, err := store.Load(t.Context(), own)
				if err != nil {
					t.Fatal(err)
				}
				if snap.Doc != nil && len(snap.Doc.Offsets) > 0 {
					t.Errorf("a zombie stored %+v", snap.Doc)
				}
			})
		})
	}
}

func TestTake_OfALaneThatWasTakenAway_IsConflict(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, store lease.Store) {
		_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 2, Layout: 1})
		if err != nil {
			t.Fatal(err)
		}
		reading, err := lease.Read(t.Context(), store, 1)
		if err != nil {
			t.Fatal(err)
		}
		relane(t, store, 1)
		_, err = lease.Take(t.Context(), store, reading, terms("a"), func(*record.Checkpoint) {})
		wantKind(t, err, fault.Conflict)
	})
}

// What Trusted says must hold for another run, by the store's clock, whatever the store's answers take.
func TestLane_Trusted_EndsBeforeTheLeaseAndGrowsWithEachWrite(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, inner lease.Store) {
		store := &slowStore{Store: inner, takes: 300 * time.Millisecond}
		lane := mustTake(t, store, "a")
		last := time.Time{}
		check := func(after string) {
			t.Helper()
			snap, err := inner.Load(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			until, ends := lane.Trusted(), snap.Doc.Lease.ExpiresAt.Sub(snap.ReadAt)
			if left := time.Until(until); left > ends || left < length/2 {
				t.Errorf("after %s it is trusted for %s and ends in %s", after, left, ends)
			}
			if !until.After(last) {
				t.Errorf("after %s it is trusted until %s, which was %s", after, until, last)
			}
			last = until
		}
		check("the taking")
		time.Sleep(length/3 + time.Second)
		check("a heartbeat")
		if err := lane.Commit(t.Context(), move(7)); err != nil {
			t.Fatal(err)
		}
		check("a commit")
		if err := lane.Release(t.Context(), move(9), nil); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(lane.Trusted()); left > 0 {
			t.Errorf("after the release it is trusted for %s", left)
		}
	})
}

// slowStore answers late: half of the time before the effect, half after it.
type slowStore struct {
	lease.Store
	takes time.Duration
}

func (s *slowStore) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	time.Sleep(s.takes / 2)
	defer time.Sleep(s.takes / 2)
	return s.Store.Update(ctx, doc, at, run)
}
