package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Reading is a lane document with the clock that judges its lease: the store's time at the read, carried on by the
// monotonic time that went by here.
type Reading struct {
	Snapshot
	lane           int
	sent, received time.Time
}

// Read reads a lane's document and the store's clock: one read of the store.
func Read(ctx context.Context, store Store, lane int) (Reading, error) {
	sent := time.Now()
	snap, err := store.Load(ctx, lane)
	if err != nil {
		return Reading{}, fmt.Errorf("reading the checkpoint of lane %d: %w", lane, err)
	}
	return Reading{Snapshot: snap, lane: lane, sent: sent, received: time.Now()}, nil
}

// Checkpoint returns the document, an empty one for a lane that has none.
func (r Reading) Checkpoint() record.Checkpoint {
	if r.Doc == nil {
		return record.Checkpoint{Lane: r.lane}
	}
	return r.Doc.Clone()
}

// Now is never ahead of the store's clock: another's lease is not called expired too early.
func (r Reading) Now() time.Time { return r.ReadAt.Add(time.Since(r.received)) }

// Drained returns a Conflict while the pipeline drains because its lanes are to change: no lease is given.
func (r Reading) Drained() error {
	if r.Doc == nil || !r.Doc.Draining.Counts(r.Now()) {
		return nil
	}
	mark := r.Doc.Draining
	return fault.Conflictf("lane %d is not run: since %s run %s drains the pipeline to change it from %d lanes (layout %d) to %d lanes "+
		"(layout %d). The next run with that layout does it once no lease is held; else this ends at %s", r.lane,
		mark.Since.Format(time.RFC3339), mark.By, r.Doc.Lanes, r.Doc.Layout, mark.Lanes, mark.Layout, mark.Until.Format(time.RFC3339))
}

// here is the earliest local time at which the store's clock can show t: our own lease is not trusted too long.
func (r Reading) here(t time.Time) time.Time { return r.sent.Add(t.Sub(r.ReadAt)) }
