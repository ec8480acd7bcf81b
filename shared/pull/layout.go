package pull

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// drainFor is how long the mark of a pipeline that drains counts: as long as a run can last, which is what Cloud Scheduler
// waits for at most. A holder ends much sooner, because it is told; where the rollout was taken back, the old lanes go on
// after that time.
const drainFor = 30 * time.Minute

// limitLayout is why a run ended that made room for a change of the lanes.
const limitLayout = "layout"

// layOut returns the lane's document under the layout of the config. Where the config has a newer one, it changes the lanes
// of the whole pipeline; where others still hold a lease, it marks the pipeline as draining and returns a Conflict, so
// that a later run does it. A lane whose document fits costs nothing here.
func (r *Runner) layOut(ctx context.Context, run *running, saved lease.Reading) (lease.Reading, error) {
	if saved.Doc != nil && saved.Doc.Paused {
		return saved, nil // an operator may be at work on the documents
	}
	if saved.Doc != nil && saved.Doc.Layout >= r.Layout {
		if err := r.checkLayout(saved.Doc.Lanes, saved.Doc.Layout); err != nil {
			return saved, err
		}
		return saved, saved.Drained()
	}
	// A lane without a document is one of a first run, one that a newer layout brings, or lost: the pipeline's document says
	// which, and the store refuses the last.
	change := &relayout{Runner: r, run: run.report.Run}
	err := r.retry(ctx, &run.checkpoints, func(ctx context.Context) error {
		return r.Checkpoints.Edit(ctx, change.edit)
	})
	if err != nil {
		return saved, fmt.Errorf("changing the lanes of pipeline %s: %w", r.Pipeline, err)
	}
	if change.waiting != nil {
		return saved, change.waiting
	}
	if change.nothing {
		return saved, nil // a first run
	}
	saved, err = r.readCheckpoint(ctx, run)
	if err == nil && (saved.Doc == nil || saved.Doc.Layout != r.Layout) {
		err = fault.Conflictf("the lanes of pipeline %s were changed again, before lane %d could begin", r.Pipeline, run.report.Lane)
	}
	if err == nil {
		err = saved.Drained()
	}
	return saved, err
}

// checkLayout refuses a config whose lanes are older than the stored ones, or others without being newer.
func (r *Runner) checkLayout(lanes, layout int) error {
	switch {
	case layout > r.Layout:
		return fault.Fatalf("layout-behind", "pipeline %s is laid out in %d lanes (layout %d) and this config has %d lanes (layout %d), which is older: "+
			"lanes are never changed back to it. Deploy the config of layout %d; or, to change the lanes once more, set run.layout to %d",
			r.Pipeline, lanes, layout, r.Lanes, r.Layout, layout, layout+1)
	case layout == r.Layout && lanes != r.Lanes:
		return fault.Fatalf("lanes-changed", "pipeline %s is laid out in %d lanes (layout %d) and the config has %d lanes under the same layout: "+
			"raise run.layout to %d to change them, or set run.lanes to %d", r.Pipeline, lanes, layout, r.Lanes, layout+1, lanes)
	}
	return nil
}

// relayout is one attempt to change the lanes. It is called again where the transaction is tried again, so what it found
// is that of the last call.
type relayout struct {
	*Runner
	run     string
	nothing bool  // no pipeline is stored
	waiting error // why the lanes are not changed yet
}

// edit changes the lanes if no lease is alive, else it sets the mark.
func (c *relayout) edit(now time.Time, p *record.Pipeline) (*record.Audit, error) {
	c.waiting, c.nothing = nil, len(p.Lanes) == 0
	if c.nothing {
		return nil, nil
	}
	if err := c.checkLayout(len(p.Lanes), p.Layout); err != nil || p.Layout == c.Layout {
		return nil, err // or another run has changed them
	}
	if mark := p.Draining; mark.Counts(now) && mark.Layout > c.Layout {
		return nil, fault.Conflictf("run %s changes the lanes to layout %d, which is newer than the %d of this config", mark.By, mark.Layout, c.Layout)
	}
	changed, err := relane(*p, c.Lanes, c.Layout, c.run)
	if err != nil {
		return nil, err // before the mark: the old lanes go on
	}
	alive, last := 0, record.Checkpoint{}
	for _, doc := range p.Lanes {
		if doc.Lease.Holder != "" && now.Before(doc.Lease.ExpiresAt) {
			alive++
			if doc.Lease.ExpiresAt.After(last.Lease.ExpiresAt) {
				last = doc
			}
		}
	}
	if alive == 0 {
		before := *p
		*p = changed
		return c.audit(before), nil
	}
	c.mark(now, p)
	c.waiting = fault.Conflictf("the lanes of pipeline %s are to change from %d to %d (layout %d): it drains since %s, and the lease of %d runs is "+
		"left, of which that of run %s (lane %d) ends last, at %s if it is not renewed. A run after that changes them", c.Pipeline, len(p.Lanes), c.Lanes,
		c.Layout, p.Draining.Since.Format(time.RFC3339), alive, last.Lease.Holder, last.Lane, last.Lease.ExpiresAt.Format(time.RFC3339))
	return nil, nil
}

// mark sets the mark in every document. One that has more than half of its time left stays: each write of it makes every
// holder read again.
func (c *relayout) mark(now time.Time, p *record.Pipeline) {
	mark := p.Draining
	same := mark.By != "" && mark.Layout == c.Layout && mark.Lanes == c.Lanes
	if !same || !now.Before(mark.Until.Add(-drainFor/2)) {
		if !same {
			mark = record.Draining{Lanes: c.Lanes, Layout: c.Layout, Since: now}
		}
		mark.By, mark.Until = c.run, now.Add(drainFor)
		p.UpdatedBy, p.Draining = c.run, mark
	}
	for i := range p.Lanes {
		p.Lanes[i].Draining = mark
	}
}

func (c *relayout) audit(before record.Pipeline) *record.Audit {
	fields := func(lanes, layout int) map[string]string {
		return map[string]string{"lanes": strconv.Itoa(lanes), "layout": strconv.Itoa(layout)}
	}
	return &record.Audit{
		Who: c.run, What: "layout", Why: "the config has a newer layout",
		Before: fields(len(before.Lanes), before.Layout), After: fields(c.Lanes, c.Layout),
	}
}

// stopping ends the reading of a run when it is asked to stop, and when the lanes are to change: what was read is still
// written and committed. A run that went on to its end instead would keep all other lanes waiting for it.
func (r *Runner) stopping(held *lease.Lane, progress *progress, stop <-chan struct{}) <-chan struct{} {
	either := make(chan struct{})
	go func() {
		select {
		case <-stop:
		case <-held.Draining():
			progress.limited(limitLayout)
		case <-held.Context().Done():
			return // which ends the reading too
		}
		close(either)
	}()
	return either
}
