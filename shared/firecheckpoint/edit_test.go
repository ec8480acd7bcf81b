package firecheckpoint_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func TestStore_LanesChangedWhileAllRun_EveryRecordOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	mapper, err := mapping.New(mapping.Options{})
	must(t, err)
	emulator(t) // before the clock of the test runs
	pulltest.LanesTest{
		Open: func() lease.Store { return newStore(t) }, Converter: mapper, Seed: 1, Between: 4 * time.Second,
	}.Run(t)
}

// crowded is a lane with so many partitions that its document has about size bytes.
func crowded(lane, lanes, size int) record.Checkpoint {
	doc := record.Checkpoint{Schema: record.Schema, Lane: lane, Lanes: lanes, Offsets: map[record.Partition]record.Position{}}
	for id := int32(0); len(doc.Offsets) < size/140; id++ {
		if p := (record.Partition{Topic: "orders", ID: id}); p.Lane(lanes) == lane {
			doc.Offsets[p] = record.Position{Offset: 1 << 40, SeenAt: time.Unix(1, 0), MovedAt: time.Unix(2, 0)}
		}
	}
	return doc
}

// What Firestore would refuse is refused before, with the numbers and what to do.
func TestEdit_LargerThanFirestoreTakes_IsRefusedAndStoresNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 2})
	must(t, err)
	for _, test := range []struct {
		name        string
		lanes, size int
		parts       []string
	}{
		{"one document", 1, 1<<20 + 1<<16, []string{"1048576", "take more lanes", "lanes/0"}},
		{"all together", 12, 800_000, []string{"8388608", "several pipelines"}},
	} {
		err := store.Edit(t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
			p.Lanes = nil
			for lane := range test.lanes {
				p.Lanes = append(p.Lanes, crowded(lane, test.lanes, test.size))
			}
			return nil, nil
		})
		wantFault(t, err, fault.Fatal, "layout-too-large")
		for _, part := range append(test.parts, fmt.Sprintf("%d lanes", test.lanes)) {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", test.name, err, part)
			}
		}
	}
	snapshot, err := store.Load(t.Context(), 0)
	must(t, err)
	if len(snapshot.Doc.Offsets) > 0 {
		t.Errorf("stored %d positions", len(snapshot.Doc.Offsets))
	}
}

// The sizes are counted as Firestore counts them, so one that is just allowed is taken.
func TestEdit_AsLargeAsFirestoreTakes_IsStored(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
	must(t, err)
	full := crowded(0, 1, 960_000).Offsets
	for range 3 { // a megabyte may take the emulator longer than a call may
		err = store.Edit(t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
			p.Lanes[0].Offsets = full
			return nil, nil
		})
		if err == nil || fault.KindOf(err) != fault.Transient {
			break
		}
	}
	must(t, err)
}

// An idle run is one read, whatever the lanes: the mark stands in the lane's own document.
func TestStore_MarkIsSeenWithOneRead(t *testing.T) {
	t.Parallel()
	calls := &counter{}
	store := newStore(t, grpc.WithStatsHandler(calls))
	_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 3})
	must(t, err)
	must(t, store.Edit(t.Context(), func(now time.Time, p *record.Pipeline) (*record.Audit, error) {
		mark := record.Draining{By: "run-1", Lanes: 4, Layout: 1, Since: now, Until: now.Add(time.Minute)}
		p.Draining = mark
		for i := range p.Lanes {
			p.Lanes[i].Draining = mark
		}
		return nil, nil
	}))
	calls.take()
	reading, err := lease.Read(t.Context(), store, 2)
	must(t, err)
	if got := calls.take(); got != "BatchGetDocuments" {
		t.Errorf("RPCs %q, want one read", got)
	}
	wantFault(t, reading.Drained(), fault.Conflict, "")
}

// A lane document beyond those of the pipeline is somebody's mistake.
func TestEdit_OneLaneTooMany_IsFatal(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
	must(t, err)
	_, err = newClient(t).Collection("tidemark").Doc(pipelineOf(t)).Collection("lanes").Doc("1").
		Set(t.Context(), firecheckpoint.Encode(record.Checkpoint{Lane: 1, Lanes: 1}))
	must(t, err)
	wantFault(t, store.Edit(t.Context(), func(time.Time, *record.Pipeline) (*record.Audit, error) { return nil, nil }), fault.Fatal, "checkpoint-corrupt")
}
