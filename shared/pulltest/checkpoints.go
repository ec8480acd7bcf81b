package pulltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// CheckpointHarness is a store of an empty pipeline, and what a test must be able to do behind its back.
type CheckpointHarness struct {
	Store lease.Store
	// Other is the store as another process has it; a store of one process only gives itself.
	Other lease.Store
	// DeleteLane and DeletePipeline remove one document, as an operator would.
	DeleteLane     func(t *testing.T, lane int)
	DeletePipeline func(t *testing.T)
	// DeleteRuns removes all run reports, as a TTL policy does.
	DeleteRuns func(t *testing.T)
	// Audits lists the audit as a program does.
	Audits func(ctx context.Context) ([]record.Audit, error)
	// LowerSchema makes the documents of the pipeline and of a lane those that a program of schema 1 wrote.
	LowerSchema func(t *testing.T, lane int)
	// RaiseSchema makes a lane document one of schema record.Schema + 1, with a field that this program does not know.
	RaiseSchema func(t *testing.T, lane int)
	// Pause sets paused in a lane document and nothing else, as an operator would.
	Pause func(t *testing.T, lane int)
	// Runs returns the stored run reports in any order.
	Runs func(t *testing.T) []record.Report
}

// TestCheckpoints holds a store to the contract of lease.Store. Open is called once a case, each time for a pipeline
// that has no documents yet.
func TestCheckpoints(t *testing.T, open func(t *testing.T) CheckpointHarness) {
	t.Helper()
	cases := []struct {
		name string
		run  func(*testing.T, CheckpointHarness)
	}{
		{"an absent lane has no document", absentLane},
		{"what is created is loaded", createdIsLoaded},
		{"create makes a document for every lane", createMakesEveryLane},
		{"create twice is a conflict", createTwice},
		{"of four concurrent creates one succeeds", createConcurrently},
		{"a lost lane document is not created again", lostLane},
		{"a lost pipeline document is a trace too", lostPipeline},
		{"runs alone are traces too", runsAlone},
		{"what is updated is loaded", updatedIsLoaded},
		{"of two updates of one revision one is a conflict", updateTwice},
		{"eight concurrent writers lose no update", updateConcurrently},
		{"an update of seq alone is a new revision", seqIsARevision},
		{"an edit by an operator is a new revision", editIsARevision},
		{"removed entries vanish", removedEntriesVanish},
		{"one lane document lost of three is told with all that was found", lostLaneNamesTraces},
		{"an audit alone is a trace too", auditAlone},
		{"an edit sees all documents and stores them", editStoresAll},
		{"an edit of nothing stores nothing", editOfNothing},
		{"an edit that is refused stores nothing", editRefused},
		{"an edit adds and takes away lanes", editChangesLanes},
		{"an edit of a pipeline that lost a document is refused with the traces", editOfLost},
		{"an edit that leaves a wrong layout is refused", editInconsistent},
		{"an edit makes everyone's revision stale", editIsARevisionOfEach},
		{"a lane that was taken away is a conflict for who had read it", takenAway},
		{"edits and updates at the same time lose nothing", editConcurrently},
		{"the audit is numbered and kept in order", auditIsNumbered},
		{"a cancelled edit changes nothing", cancelledEdit},
		{"256 lanes are changed at once", manyLanes},
		{"a document of schema 1 becomes the newest with the next write", olderSchema},
		{"an edit brings all documents to the newest schema that it changes", olderSchemaEdited},
		{"a run is stored with its update", runIsStored},
		{"a run is not stored with a refused update", refusedRunIsNotStored},
		{"an update of a deleted lane is fatal", updateDeleted},
		{"a newer schema is refused", newerSchema},
		{"the store's clock does not go back", clockIsMonotone},
		{"odd names survive", oddNames},
		{"extreme numbers survive", extremeNumbers},
		{"an impossible number is refused", impossibleNumber},
		{"empty is not an error", emptyDocument},
		{"2,000 partitions survive", manyPartitions},
		{"lanes do not disturb each other", lanesAreApart},
		{"a cancelled call changes nothing", cancelledCall},
		{"a call cancelled on its way is stored as a whole or not", cancelledOnTheWay},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

func absentLane(t *testing.T, h CheckpointHarness) {
	snapshot, err := h.Store.Load(t.Context(), 0)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if snapshot.Doc != nil {
		t.Errorf("Doc = %+v, want nil", snapshot.Doc)
	}
	if snapshot.ReadAt.IsZero() {
		t.Error("ReadAt is zero: a lease cannot be taken without the store's clock")
	}
}

func createdIsLoaded(t *testing.T, h CheckpointHarness) {
	want := sample(0, 1)
	rev := mustCreate(t, h.Store, want)
	for _, store := range []lease.Store{h.Store, h.Other} {
		got := mustLoad(t, store, 0)
		equal(t, want, *got.Doc)
		if got.Revision != rev {
			t.Errorf("Load has revision %q, Create answered %q", got.Revision, rev)
		}
	}
}

func createMakesEveryLane(t *testing.T, h CheckpointHarness) {
	doc := sample(1, 3)
	mustCreate(t, h.Store, doc)
	for _, lane := range []int{0, 2} {
		equal(t, record.Checkpoint{
			Schema: doc.Schema, Lane: lane, Lanes: 3, Layout: doc.Layout, Seq: doc.Seq, Identity: doc.Identity, UpdatedBy: doc.UpdatedBy,
		}, *mustLoad(t, h.Store, lane).Doc)
	}
	equal(t, doc, *mustLoad(t, h.Store, 1).Doc)
	if snapshot, err := h.Store.Load(t.Context(), 3); err != nil || snapshot.Doc != nil {
		t.Errorf("lane 3 of 3: %+v, %v, want no document", snapshot.Doc, err)
	}
}

func createTwice(t *testing.T, h CheckpointHarness) {
	first := sample(0, 2)
	mustCreate(t, h.Store, first)
	for lane := range 2 {
		_, err := h.Other.Create(t.Context(), changed(sample(lane, 2), 1))
		wantKind(t, err, fault.Conflict, "")
	}
	equal(t, first, *mustLoad(t, h.Store, 0).Doc)
}

func createConcurrently(t *testing.T, h CheckpointHarness) {
	errs := concurrently(4, func(i int) error {
		store := []lease.Store{h.Store, h.Other}[i%2]
		for {
			_, err := store.Create(t.Context(), changed(sample(i%2, 2), int64(i)))
			if fault.KindOf(err) != fault.Transient || err == nil || t.Context().Err() != nil {
				return err
			}
			// Not known: a second try of one's own create may find it, and is then the one that succeeded.
			snapshot, err := store.Load(t.Context(), i%2)
			if err == nil && snapshot.Doc != nil && snapshot.Doc.Seq == changed(sample(0, 2), int64(i)).Seq {
				return nil
			}
		}
	})
	created := 0
	for _, err := range errs {
		if err == nil {
			created++
			continue
		}
		wantKind(t, err, fault.Conflict, "")
	}
	if created != 1 {
		t.Errorf("%d of 4 creates succeeded, want 1: %v", created, errors.Join(errs...))
	}
}

func lostLane(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	h.DeleteLane(t, 0)
	if snapshot, err := h.Store.Load(t.Context(), 0); err != nil || snapshot.Doc != nil {
		t.Fatalf("Load after the deletion: %+v, %v, want no document", snapshot.Doc, err)
	}
	_, err := h.Store.Create(t.Context(), sample(0, 2))
	wantKind(t, err, fault.Fatal, "checkpoint-missing")
	if snapshot, err := h.Store.Load(t.Context(), 0); err != nil || snapshot.Doc != nil {
		t.Errorf("the refused create left %+v, %v", snapshot.Doc, err)
	}
}

func lostPipeline(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	h.DeletePipeline(t)
	h.DeleteLane(t, 0)
	_, err := h.Store.Create(t.Context(), sample(0, 2))
	wantKind(t, err, fault.Fatal, "checkpoint-missing")
}

func runsAlone(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	run := report("run-1")
	mustUpdate(t, h.Store, changed(doc, 1), rev, &run)
	h.DeletePipeline(t)
	h.DeleteLane(t, 0)
	_, err := h.Store.Create(t.Context(), sample(0, 1))
	wantKind(t, err, fault.Fatal, "checkpoint-missing")
}

func updatedIsLoaded(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	for i := range int64(3) {
		doc = changed(doc, i)
		rev = mustUpdate(t, h.Store, doc, rev, nil)
		got := mustLoad(t, h.Other, 0)
		equal(t, doc, *got.Doc)
		if got.Revision != rev {
			t.Errorf("Load has revision %q, Update answered %q", got.Revision, rev)
		}
	}
}

func updateTwice(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	first := changed(doc, 1)
	mustUpdate(t, h.Store, first, rev, nil)
	_, err := h.Other.Update(t.Context(), changed(doc, 2), rev, nil)
	wantKind(t, err, fault.Conflict, "")
	_, err = h.Store.Update(t.Context(), changed(doc, 2), "no revision", nil)
	wantKind(t, err, fault.Conflict, "")
	equal(t, first, *mustLoad(t, h.Store, 0).Doc)
}

func updateConcurrently(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	mustCreate(t, h.Store, doc)
	const writers, each = 8, 3
	errs := concurrently(writers, func(i int) error {
		store := []lease.Store{h.Store, h.Other}[i%2]
		for n := range each {
			if err := addOne(t.Context(), store, fmt.Sprintf("writer-%d", i), n); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got, want := mustLoad(t, h.Store, 0).Doc.Seq, doc.Seq+writers*each; got != want {
		t.Errorf("seq = %d after %d updates, want %d", got, writers*each, want)
	}
}

// addOne raises seq by one, as often as others are faster. Whether an update whose answer was lost was stored can be
// seen afterwards by the mark that it leaves, also when others have written since.
func addOne(ctx context.Context, store lease.Store, by string, n int) error {
	mark := strconv.Itoa(n)
	for {
		snapshot, err := store.Load(ctx, 0)
		if err != nil {
			return err
		}
		if snapshot.Doc.Identity[by] == mark {
			return nil
		}
		next := snapshot.Doc.Clone()
		next.Seq++
		next.UpdatedBy = by
		next.Identity[by] = mark
		_, err = store.Update(ctx, next, snapshot.Revision, nil)
		if kind := fault.KindOf(err); err == nil || kind != fault.Conflict && kind != fault.Transient || ctx.Err() != nil {
			return err
		}
	}
}

func seqIsARevision(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	first := mustCreate(t, h.Store, doc)
	doc.Seq++
	second := mustUpdate(t, h.Store, doc, first, nil)
	if first == second {
		t.Fatalf("both writes have revision %q", first)
	}
	_, err := h.Store.Update(t.Context(), changed(doc, 1), first, nil)
	wantKind(t, err, fault.Conflict, "")
}

func editIsARevision(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	h.Pause(t, 0)
	_, err := h.Store.Update(t.Context(), changed(doc, 1), rev, nil)
	wantKind(t, err, fault.Conflict, "")
	doc.Paused = true
	got := mustLoad(t, h.Store, 0)
	equal(t, doc, *got.Doc)
	mustUpdate(t, h.Store, changed(doc, 1), got.Revision, nil)
}

func removedEntriesVanish(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	doc = doc.Clone()
	doc.Seq++
	delete(doc.Offsets, record.Partition{Topic: "orders", ID: 3})
	delete(doc.Topics, "payments.eu")
	doc.Missing, doc.Rejects, doc.Gaps, doc.Identity = nil, nil, nil, map[string]string{"cluster": "other"}
	doc.Lease = record.Lease{Epoch: doc.Lease.Epoch}
	mustUpdate(t, h.Store, doc, rev, nil)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
}

func runIsStored(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	want := []record.Report{report("run-1"), report("run-2")}
	want[1].OldestUnprocessedAgeSeconds = nil
	for i := range want {
		doc = changed(doc, int64(i))
		rev = mustUpdate(t, h.Store, doc, rev, &want[i])
	}
	mustUpdate(t, h.Store, changed(doc, 9), rev, nil)
	if diff := gocmp.Diff(want, sortedRuns(t, h), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stored runs (-want +got):\n%s", diff)
	}
}

func refusedRunIsNotStored(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	mustUpdate(t, h.Store, changed(doc, 1), rev, nil)
	run := report("run-1")
	_, err := h.Store.Update(t.Context(), changed(doc, 2), rev, &run)
	wantKind(t, err, fault.Conflict, "")
	if runs := h.Runs(t); len(runs) != 0 {
		t.Errorf("stored runs: %+v, want none", runs)
	}
}

func updateDeleted(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	h.DeleteLane(t, 0)
	run := report("run-1")
	for _, r := range []*record.Report{nil, &run} {
		_, err := h.Store.Update(t.Context(), changed(doc, 1), rev, r)
		wantKind(t, err, fault.Fatal, "checkpoint-missing")
	}
	if snapshot, err := h.Store.Load(t.Context(), 0); err != nil || snapshot.Doc != nil {
		t.Errorf("the refused update left %+v, %v", snapshot.Doc, err)
	}
	if runs := h.Runs(t); len(runs) != 0 {
		t.Errorf("stored runs: %+v, want none", runs)
	}
}

func newerSchema(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	h.RaiseSchema(t, 0)
	_, err := h.Store.Load(t.Context(), 0)
	wantKind(t, err, fault.Fatal, "newer-schema")
	if _, err := h.Store.Load(t.Context(), 1); err != nil {
		t.Errorf("the other lane: %v", err)
	}
}

func clockIsMonotone(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	last := mustRead(t, h.Store).ReadAt
	if off := time.Since(last).Abs(); off > 10*time.Second {
		t.Errorf("the store's clock is %s off the clock of this machine, which runs it", off)
	}
	rev := mustCreate(t, h.Store, doc)
	for i := range int64(5) {
		snapshot := mustRead(t, h.Other)
		if snapshot.ReadAt.Before(last) {
			t.Errorf("read at %s, after a read at %s", snapshot.ReadAt, last)
		}
		last = snapshot.ReadAt
		doc = changed(doc, i)
		rev = mustUpdate(t, h.Store, doc, rev, nil)
	}
}

func oddNames(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	for i, topic := range []string{
		"a.b", "a/b", "a`b", "a\\b", "~*[]", "with space", "0", "_", "__x", "offsets.orders/3.offset", "<&>", "größe", "数据", "a\u0301", "\U0001F30A",
		strings.Repeat("x", 249),
	} {
		doc.Topics[topic] = record.Topic{ID: "id of " + topic, Incarnation: int64(i)}
		for _, id := range []int32{0, 7, math.MaxInt32} {
			p := record.Partition{Topic: topic, ID: id}
			doc.Offsets[p] = record.Position{Offset: int64(i)}
			doc.Missing[p] = record.Missing{Runs: i}
		}
		doc.Identity["topic "+topic] = topic
		doc.Gaps = append(doc.Gaps, record.Gap{Range: record.Range{Partition: record.Partition{Topic: topic, ID: 1}, To: 1}, Reason: topic})
	}
	doc.Identity["empty"] = ""
	rev := mustCreate(t, h.Store, doc)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
	doc = changed(doc, 1)
	mustUpdate(t, h.Store, doc, rev, nil)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
}

// impossibleNumber is a slip of the hand in an editor. Taken as it is, it would look like lost records.
func impossibleNumber(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	doc = changed(doc, 1)
	doc.Offsets[record.Partition{Topic: "n"}] = record.Position{Offset: -5}
	mustUpdate(t, h.Store, doc, rev, nil)
	_, err := h.Store.Load(t.Context(), 0)
	wantKind(t, err, fault.Fatal, "checkpoint-corrupt")
}

func extremeNumbers(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	for i, n := range []int64{0, 1<<53 + 1, math.MaxInt64} {
		doc.Offsets[record.Partition{Topic: "n", ID: int32(i)}] = record.Position{Offset: n, LogStart: record.Unknown, LogEnd: n, LeaderEpoch: math.MaxInt32}
		doc.Topics[fmt.Sprint(n)] = record.Topic{Incarnation: n, Rewrite: n}
		doc.Rejects = append(doc.Rejects, record.RejectCount{Records: n, Rejected: n})
	}
	doc.GapRecords, doc.Lease.Epoch, doc.Seq = math.MaxInt64, math.MaxInt64, math.MaxInt64-10
	rev := mustCreate(t, h.Store, doc)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
	doc = changed(doc, 1)
	mustUpdate(t, h.Store, doc, rev, nil)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
}

func emptyDocument(t *testing.T, h CheckpointHarness) {
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
	rev := mustCreate(t, h.Store, doc)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
	doc.Seq++
	mustUpdate(t, h.Store, doc, rev, &record.Report{Run: "run-1"})
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
}

func manyPartitions(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	for i := range int32(2000) {
		doc.Offsets[record.Partition{Topic: fmt.Sprintf("a-topic-with-a-name-of-usual-length-%d", i%20), ID: i / 20}] = record.Position{
			Offset: int64(i) << 20, LeaderEpoch: i % 9, LogStart: int64(i), LogEnd: int64(i) << 21, SeenAt: moment(i), MovedAt: moment(i),
		}
	}
	rev := mustCreate(t, h.Store, doc)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
	doc = changed(doc, 1)
	mustUpdate(t, h.Store, doc, rev, nil)
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
}

func lanesAreApart(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, sample(0, 2))
	zero, one := mustLoad(t, h.Store, 0), mustLoad(t, h.Store, 1)
	mustUpdate(t, h.Store, changed(*one.Doc, 1), one.Revision, nil)
	mustUpdate(t, h.Other, changed(*zero.Doc, 2), zero.Revision, nil)
	equal(t, changed(*one.Doc, 1), *mustLoad(t, h.Store, 1).Doc)
	equal(t, changed(*zero.Doc, 2), *mustLoad(t, h.Store, 0).Doc)
}

func cancelledCall(t *testing.T, h CheckpointHarness) {
	doc := sample(0, 1)
	rev := mustCreate(t, h.Store, doc)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Store.Load(ctx, 0); err == nil || fault.KindOf(err) != fault.Transient {
		t.Errorf("Load: %v, want a transient error", err)
	}
	run := report("run-1")
	if _, err := h.Store.Update(ctx, changed(doc, 1), rev, &run); err == nil || fault.KindOf(err) != fault.Transient {
		t.Errorf("Update: %v, want a transient error", err)
	}
	if _, err := h.Store.Create(ctx, doc); err == nil || fault.KindOf(err) != fault.Transient {
		t.Errorf("Create: %v, want a transient error", err)
	}
	equal(t, doc, *mustLoad(t, h.Store, 0).Doc)
	if runs := h.Runs(t); len(runs) != 0 {
		t.Errorf("stored runs: %+v, want none", runs)
	}
}

func cancelledOnTheWay(t *testing.T, h CheckpointHarness) {
	mustCreate(t, h.Store, record.Checkpoint{Schema: record.Schema, Lanes: 1})
	for i := range int32(6) {
		before := mustLoad(t, h.Store, 0)
		next := before.Doc.Clone()
		next.Seq++
		if next.Offsets == nil {
			next.Offsets = map[record.Partition]record.Position{}
		}
		next.Offsets[record.Partition{Topic: "run", ID: i}] = record.Position{}
		run := report(fmt.Sprint(i))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		_, err := h.Store.Update(ctx, next, before.Revision, &run)
		cancel()
		// A commit of an earlier turn may still have been under way at the Load: that is a Conflict now.
		if err != nil && fault.KindOf(err) != fault.Transient && fault.KindOf(err) != fault.Conflict {
			t.Errorf("Update: %v, want a transient error", err)
		}
	}
	// After one write that succeeded, no older one can still arrive.
	if err := addOne(t.Context(), h.Store, "the last", 0); err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for p := range mustLoad(t, h.Store, 0).Doc.Offsets {
		stored[fmt.Sprint(p.ID)] = true
	}
	runs := map[string]bool{}
	for _, run := range h.Runs(t) {
		runs[run.Run] = true
	}
	if diff := gocmp.Diff(stored, runs); diff != "" {
		t.Errorf("updates that are stored and runs that are stored (-updates +runs):\n%s", diff)
	}
}

// sample is a document that has something in every field.
func sample(lane, lanes int) record.Checkpoint {
	orders, payments := record.Partition{Topic: "orders", ID: 3}, record.Partition{Topic: "payments.eu", ID: 0}
	return record.Checkpoint{
		Schema: record.Schema, Lane: lane, Lanes: lanes, Layout: 2, Seq: 41,
		Lease:    record.Lease{Holder: "run-0", Epoch: 7, ExpiresAt: moment(60)},
		Identity: map[string]string{"cluster": "MkU3OEVBNTcwNTJENDM2Qk", "topics": "orders,payments.eu", "namespace": "shop.orders"},
		Topics: map[string]record.Topic{
			"orders":      {ID: "dGhpcyBpcyBhbiBpZA", Incarnation: 1, Rewrite: 2},
			"payments.eu": {},
		},
		Offsets: map[record.Partition]record.Position{
			orders:   {Offset: 1200, LeaderEpoch: 4, LogStart: 1000, LogEnd: 5000, SeenAt: moment(1), MovedAt: moment(2)},
			payments: {Offset: 0, LeaderEpoch: -1, LogStart: record.Unknown, LogEnd: record.Unknown},
		},
		Missing: map[record.Partition]record.Missing{payments: {Runs: 2, Since: moment(3)}},
		Rejects: []record.RejectCount{{Records: 100, Rejected: 1}, {Records: 50}},
		Gaps: []record.Gap{{
			Range: record.Range{Partition: orders, From: 10, To: 1000}, Incarnation: 1, Reason: "offset-before-log-start", SeenAt: moment(4),
		}},
		GapRecords: 990, StartingOffsets: "earliest", LastRun: "run-0", UpdatedBy: "run-0",
	}
}

// changed is the document after one more write; n tells writes apart.
func changed(doc record.Checkpoint, n int64) record.Checkpoint {
	doc = doc.Clone()
	doc.Seq += 1 + n
	doc.UpdatedBy = fmt.Sprintf("run-%d", n)
	if doc.Offsets == nil {
		doc.Offsets = map[record.Partition]record.Position{}
	}
	doc.Offsets[record.Partition{Topic: "orders", ID: int32(n)}] = record.Position{Offset: n, MovedAt: moment(int32(n))}
	return doc
}

func report(run string) record.Report {
	age := 12.5
	return record.Report{
		Run: run, Pipeline: "orders", Outcome: record.Partial, StartedFrom: "checkpoint", LimitedBy: "time",
		Ranges: []record.RangeReport{{Topic: "orders", Partition: 3, From: 1200, To: 1<<53 + 1, DoneTo: 1300, LogEnd: 1<<53 + 1}},
		Read:   100, Written: 99, DeadLettered: 1, Remaining: new(int64(700)), OldestUnprocessedAgeSeconds: &age,
		Gaps:    []record.GapReport{{Topic: "orders", Partition: 3, From: 10, To: 1000, Reason: "offset-before-log-start"}},
		Notices: []string{"startingOffsets was changed"}, StartedAt: moment(5), DurationMs: 1234,
	}
}

// moment is a time with microseconds, the finest that every store keeps.
func moment(seconds int32) time.Time {
	return time.Date(2026, 3, 14, 15, 9, 26, 535_897_000, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func mustRead(t *testing.T, store lease.Store) lease.Snapshot {
	t.Helper()
	snapshot, err := store.Load(t.Context(), 0)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return snapshot
}

func mustLoad(t *testing.T, store lease.Store, lane int) lease.Snapshot {
	t.Helper()
	snapshot, err := store.Load(t.Context(), lane)
	if err != nil || snapshot.Doc == nil {
		t.Fatalf("Load lane %d: document %v, error %v", lane, snapshot.Doc, err)
	}
	return snapshot
}

func mustCreate(t *testing.T, store lease.Store, doc record.Checkpoint) lease.Revision {
	t.Helper()
	rev, err := store.Create(t.Context(), doc)
	if err != nil {
		t.Fatalf("Create lane %d: %v", doc.Lane, err)
	}
	return rev
}

func mustUpdate(t *testing.T, store lease.Store, doc record.Checkpoint, at lease.Revision, run *record.Report) lease.Revision {
	t.Helper()
	rev, err := store.Update(t.Context(), doc, at, run)
	if err != nil {
		t.Fatalf("Update lane %d: %v", doc.Lane, err)
	}
	return rev
}

func equal(t *testing.T, want, got record.Checkpoint) {
	t.Helper()
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind, class string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || fault.ClassOf(err) != class {
		t.Errorf("error %v is %s %q, want %s %q", err, fault.KindOf(err), fault.ClassOf(err), kind, class)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
}

func sortedRuns(t *testing.T, h CheckpointHarness) []record.Report {
	t.Helper()
	return slices.SortedFunc(slices.Values(h.Runs(t)), func(a, b record.Report) int { return cmp.Compare(a.Run, b.Run) })
}

// concurrently calls f for 0 to n-1 at the same time and returns the errors.
func concurrently(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}
