package pulltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

var errRefused = errors.New("refused")

// readPipeline returns the documents of a pipeline and the store's clock, by an edit that changes nothing.
func readPipeline(t *testing.T, store lease.Store) (record.Pipeline, time.Time) {
	t.Helper()
	var found record.Pipeline
	var at time.Time
	mustEdit(t, store, func(now time.Time, p *record.Pipeline) (*record.Audit, error) {
		found, at = p.Clone(), now
		return nil, nil
	})
	return found, at
}

// mustEdit tries again where the store could not: real transactions of several writers may have to wait for each other.
func mustEdit(t *testing.T, store lease.Store, change lease.Edit) {
	t.Helper()
	if err := editAgain(t.Context(), store, change); err != nil {
		t.Fatalf("Edit: %v", err)
	}
}

func editAgain(ctx context.Context, store lease.Store, change lease.Edit) error {
	for {
		err := store.Edit(ctx, change)
		if err == nil || fault.KindOf(err) != fault.Transient || ctx.Err() != nil {
			return err
		}
	}
}

// relaid gives the pipeline that many lanes under the next layout, the last ones of which are new.
func relaid(lanes int) lease.Edit {
	return func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		p.Layout++
		p.UpdatedBy = fmt.Sprintf("layout-%d", p.Layout)
		for len(p.Lanes) < lanes {
			p.Lanes = append(p.Lanes, p.Lanes[0].Sibling(len(p.Lanes)))
		}
		p.Lanes = p.Lanes[:lanes]
		for i := range p.Lanes {
			p.Lanes[i].Lanes, p.Lanes[i].Layout = lanes, p.Layout
		}
		return &record.Audit{Who: p.UpdatedBy, What: "layout", Why: "a test", After: map[string]string{"lanes": fmt.Sprint(lanes)}}, nil
	}
}

func wantMissing(t *testing.T, err error, traces ...string) {
	t.Helper()
	wantKind(t, err, fault.Fatal, "checkpoint-missing")
	for _, trace := range traces {
		if err != nil && !strings.Contains(err.Error(), trace) {
			t.Errorf("%q does not name %q", err, trace)
		}
	}
}

func lostLaneNamesTraces(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 3)
	rev := mustCreate(t, h.Store, doc)
	run := report("run-1")
	mustUpdate(t, h.Store, changed(doc, 1), rev, &run)
	mustEdit(t, h.Store, func(time.Time, *record.Pipeline) (*record.Audit, error) { return &record.Audit{Who: "operator"}, nil })
	h.DeleteLane(t, 1)
	_, err := h.Store.Create(t.Context(), sample(1, 3))
	wantMissing(t, err, "pipeline", "run-1", "0000000001")
	wantKind(t, h.Store.Edit(t.Context(), relaid(1)), fault.Fatal, "checkpoint-missing")
	// The others go on: no run of theirs reads more than its own document.
	zero := mustLoad(t, h.Store, 0)
	mustUpdate(t, h.Store, changed(*zero.Doc, 2), zero.Revision, nil)
}

func auditAlone(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 1))
	mustEdit(t, h.Store, func(time.Time, *record.Pipeline) (*record.Audit, error) { return &record.Audit{Who: "operator"}, nil })
	h.DeletePipeline(t)
	h.DeleteLane(t, 0)
	if p, _ := readPipeline(t, h.Store); len(p.Lanes) != 0 {
		t.Errorf("found %+v, want no pipeline", p)
	}
	_, err := h.Store.Create(t.Context(), sample(0, 1))
	wantMissing(t, err, "0000000001")
}

func editStoresAll(t *testing.T, h CheckpointHarness) {
	first := sample(1, 2)
	mustCreate(t, h.Store, first)
	found, now := readPipeline(t, h.Other)
	if off := time.Since(now).Abs(); off > 10*time.Second || found.CreatedAt.IsZero() {
		t.Errorf("the clock is %s off, and the pipeline was created at %s", off, found.CreatedAt)
	}
	want := record.Pipeline{
		Layout: 2, Identity: first.Identity, UpdatedBy: "run-0", CreatedAt: found.CreatedAt,
		Lanes: []record.Checkpoint{first.Sibling(0), first},
	}
	samePipeline(t, want, found)
	mark := record.Draining{By: "changer", Lanes: 3, Layout: 9, Since: moment(1), Until: moment(2)}
	mustEdit(t, h.Store, func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		p.UpdatedBy, p.Draining = "changer", mark
		p.Lanes[1].Draining, p.Lanes[1].Paused = mark, true
		p.Lanes[1].Offsets[record.Partition{Topic: "new"}] = record.Position{Offset: 3}
		delete(p.Lanes[1].Topics, "orders")
		return nil, nil
	})
	want = want.Clone()
	want.UpdatedBy, want.Draining = "changer", mark
	one := &want.Lanes[1]
	one.Draining, one.Paused, one.Seq, one.UpdatedBy = mark, true, one.Seq+1, "changer"
	one.Offsets[record.Partition{Topic: "new"}] = record.Position{Offset: 3}
	delete(one.Topics, "orders")
	found, _ = readPipeline(t, h.Other)
	samePipeline(t, want, found) // lane 0 was not changed, and keeps its seq
	equal(t, *one, *mustLoad(t, h.Store, 1).Doc)
}

func samePipeline(t *testing.T, want, got record.Pipeline) {
	t.Helper()
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("pipeline (-want +got):\n%s", diff)
	}
}

func editOfNothing(t *testing.T, h CheckpointHarness) {
	if p, now := readPipeline(t, h.Store); len(p.Lanes) != 0 || now.IsZero() {
		t.Errorf("a pipeline that never ran: %+v at %s", p, now)
	}
	wantKind(t, h.Store.Edit(t.Context(), func(time.Time, *record.Pipeline) (*record.Audit, error) {
		return &record.Audit{Who: "operator"}, nil
	}), fault.Fatal, "checkpoint-missing")
	mustCreate(t, h.Store, sample(0, 2))
	before := []lease.Snapshot{mustLoad(t, h.Store, 0), mustLoad(t, h.Store, 1)}
	readPipeline(t, h.Store)
	for lane, was := range before {
		if now := mustLoad(t, h.Store, lane); now.Revision != was.Revision {
			t.Errorf("lane %d has revision %q, was %q", lane, now.Revision, was.Revision)
		}
	}
	if audits := mustAudits(t, h); len(audits) != 0 {
		t.Errorf("audit: %+v", audits)
	}
}

func editRefused(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	before, _ := readPipeline(t, h.Store)
	for _, refusal := range []error{errRefused, fault.Fatalf("lanes-disagree", "no"), fault.Conflictf("no")} {
		err := h.Store.Edit(t.Context(), func(now time.Time, p *record.Pipeline) (*record.Audit, error) {
			_, _ = relaid(3)(now, p)
			return &record.Audit{Who: "nobody"}, refusal
		})
		if !errors.Is(err, refusal) || fault.KindOf(err) != fault.KindOf(refusal) || fault.ClassOf(err) != fault.ClassOf(refusal) {
			t.Errorf("error %v, want %v", err, refusal)
		}
	}
	after, _ := readPipeline(t, h.Store)
	samePipeline(t, before, after)
}

func editChangesLanes(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	run := report("run-1")
	mustUpdate(t, h.Store, changed(doc, 1), rev, &run)
	for step, lanes := range []int{4, 2, 3, 1, 1} {
		mustEdit(t, []lease.Store{h.Store, h.Other}[step%2], relaid(lanes))
		found, _ := readPipeline(t, h.Store)
		if len(found.Lanes) != lanes || found.Layout != doc.Layout+step+1 || found.Audits != int64(step+1) {
			t.Fatalf("%d lanes under layout %d and %d audit entries", len(found.Lanes), found.Layout, found.Audits)
		}
		for lane := range 5 {
			snapshot, err := h.Other.Load(t.Context(), lane)
			if err != nil || (snapshot.Doc != nil) != (lane < lanes) {
				t.Errorf("lane %d of %d: document %v, error %v", lane, lanes, snapshot.Doc, err)
			}
		}
	}
	if runs := h.Runs(t); len(runs) != 1 {
		t.Errorf("%d runs are left, want the one", len(runs))
	}
}

func editOfLost(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	h.DeletePipeline(t)
	wantMissing(t, h.Store.Edit(t.Context(), relaid(3)), "0", "1")
	_, err := h.Store.Create(t.Context(), sample(0, 2))
	wantKind(t, err, fault.Conflict, "") // the lane itself is there
	h.DeleteLane(t, 1)
	_, err = h.Store.Create(t.Context(), sample(1, 2))
	wantMissing(t, err, "0")
}

func editInconsistent(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	for name, change := range map[string]func(*record.Pipeline){
		"a lane of another layout":  func(p *record.Pipeline) { p.Lanes[0].Layout++ },
		"a lane too few":            func(p *record.Pipeline) { p.Lanes = p.Lanes[:1] },
		"a lane of another name":    func(p *record.Pipeline) { p.Lanes[1].Lane = 0 },
		"an impossible mark":        func(p *record.Pipeline) { p.Draining.Lanes = -1 },
		"a layout without its lane": func(p *record.Pipeline) { p.Layout++ },
	} {
		err := h.Store.Edit(t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
			change(p)
			return nil, nil
		})
		if err == nil || fault.KindOf(err) != fault.Fatal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found, _ := readPipeline(t, h.Store); len(found.Lanes) != 2 {
		t.Errorf("found %+v", found)
	}
}

func editIsARevisionOfEach(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	before := []lease.Snapshot{mustLoad(t, h.Other, 0), mustLoad(t, h.Other, 1)}
	mustEdit(t, h.Store, relaid(2))
	for _, snapshot := range before {
		_, err := h.Other.Update(t.Context(), changed(*snapshot.Doc, 1), snapshot.Revision, nil)
		wantKind(t, err, fault.Conflict, "")
	}
}

func takenAway(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 3))
	before := mustLoad(t, h.Other, 2)
	mustEdit(t, h.Store, relaid(2))
	_, err := h.Other.Update(t.Context(), changed(*before.Doc, 1), before.Revision, nil)
	wantKind(t, err, fault.Conflict, "")
	_, err = h.Other.Create(t.Context(), sample(2, 3))
	wantKind(t, err, fault.Conflict, "")
	if snapshot, err := h.Store.Load(t.Context(), 2); err != nil || snapshot.Doc != nil {
		t.Errorf("lane 2: %+v, %v", snapshot.Doc, err)
	}
}

// editConcurrently has each of its writers add one to a number in every lane, some by edits and some by updates.
func editConcurrently(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	const writers, each = 4, 3
	errs := concurrently(writers, func(i int) error {
		store := []lease.Store{h.Store, h.Other}[i/2]
		for n := range each {
			if err := addOneTo(t.Context(), store, i, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	found, _ := readPipeline(t, h.Store)
	seq := sample(0, 2).Seq
	if got, want := found.Lanes[0].Seq, seq+writers*each; got != want {
		t.Errorf("lane 0 has seq %d, want %d", got, want)
	}
	if got, want := found.Audits, int64(writers/2*each); got != want {
		t.Errorf("%d audit entries, want %d", got, want)
	}
}

// addOneTo leaves a mark, by which an effect whose answer was lost is known.
func addOneTo(ctx context.Context, store lease.Store, writer, n int) error {
	by := fmt.Sprintf("writer-%d", writer)
	if writer%2 == 0 {
		return addOne(ctx, store, by, n)
	}
	return editAgain(ctx, store, func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		if p.Lanes[0].Identity[by] == fmt.Sprint(n) {
			return nil, nil
		}
		p.UpdatedBy, p.Lanes[0].Identity[by] = by, fmt.Sprint(n)
		return &record.Audit{Who: by}, nil
	})
}

func auditIsNumbered(t *testing.T, h CheckpointHarness) {
	if audits := mustAudits(t, h); len(audits) != 0 {
		t.Errorf("audit of nothing: %+v", audits)
	}
	mustCreate(t, h.Store, sample(0, 1))
	var want []record.Audit
	for i := range int64(12) { // more than one digit
		entry := record.Audit{
			Who: "ann@example.com", What: "reset", Why: fmt.Sprintf("because of <%d>", i),
			Before: map[string]string{"orders/3": fmt.Sprint(i), "größe": ""}, After: map[string]string{"orders/3": "0"},
		}
		mustEdit(t, h.Store, func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
			p.Lanes[0].Paused = i%2 == 0
			return &entry, nil
		})
		entry.Number = i + 1
		want = append(want, entry)
	}
	got := mustAudits(t, h)
	for i := range got {
		if off := time.Since(got[i].At).Abs(); off > time.Minute || i > 0 && got[i].At.Before(got[i-1].At) {
			t.Errorf("entry %d is of %s", i, got[i].At)
		}
		got[i].At = time.Time{}
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	h.DeleteRuns(t)
	if found, _ := readPipeline(t, h.Store); found.Audits != 12 {
		t.Errorf("the total is %d", found.Audits)
	}
}

func mustAudits(t *testing.T, h CheckpointHarness) []record.Audit {
	t.Helper()
	audits, err := h.Audits(t.Context())
	if err != nil {
		t.Fatalf("Audits: %v", err)
	}
	return audits
}

func cancelledEdit(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	before, _ := readPipeline(t, h.Store)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantKind(t, h.Store.Edit(ctx, relaid(3)), fault.Transient, "")
	after, _ := readPipeline(t, h.Store)
	samePipeline(t, before, after)
}

func manyLanes(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 1))
	for _, lanes := range []int{256, 255, 1} {
		mustEdit(t, h.Store, relaid(lanes))
		if found, _ := readPipeline(t, h.Store); len(found.Lanes) != lanes {
			t.Errorf("%d lanes, want %d", len(found.Lanes), lanes)
		}
	}
}

func olderSchema(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 2)
	mustCreate(t, h.Store, doc)
	h.LowerSchema(t, 0)
	before := mustLoad(t, h.Store, 0)
	equal(t, doc, *before.Doc)
	next := changed(*before.Doc, 1)
	mustUpdate(t, h.Store, next, before.Revision, nil)
	equal(t, next, *mustLoad(t, h.Other, 0).Doc)
	// With the newest schema, a field that it requires is required again.
	h.RaiseSchema(t, 0)
	_, err := h.Store.Load(t.Context(), 0)
	wantKind(t, err, fault.Fatal, "newer-schema")
	wantKind(t, h.Store.Edit(t.Context(), relaid(2)), fault.Fatal, "newer-schema")
}

func olderSchemaEdited(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	for lane := range 2 {
		h.LowerSchema(t, lane)
	}
	mustEdit(t, h.Store, relaid(3))
	found, _ := readPipeline(t, h.Other)
	if len(found.Lanes) != 3 || found.Audits != 1 {
		t.Errorf("%d lanes and %d audit entries", len(found.Lanes), found.Audits)
	}
	if !slices.ContainsFunc(mustAudits(t, h), func(a record.Audit) bool { return a.What == "layout" }) {
		t.Error("no audit entry of the layout")
	}
}
