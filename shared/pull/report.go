package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// running is one run while it lasts: its report, and how the parts have answered so far.
type running struct {
	report                    record.Report
	source, sink, checkpoints part
	// available counts the offsets that could have been read, remaining those of them that were not moved.
	available, remaining int64
	// cut is what was cut off by the end of the run's time.
	cut error
}

func (r *Runner) begin(lane int) *running {
	return &running{
		report: record.Report{
			Run: r.NewRunID(), Pipeline: r.Pipeline, Lane: lane, StartedAt: time.Now(),
			Ranges: []record.RangeReport{}, Gaps: []record.GapReport{},
		},
		source: part{name: "kafka"}, sink: part{name: "mongodb"}, checkpoints: part{name: "checkpoint"},
	}
}

// planned notes what the window is.
func (run *running) planned(checkpoint record.Checkpoint, plan window.Plan) {
	report := &run.report
	report.StartedFrom = "checkpoint"
	if len(plan.FirstRun) > 0 && len(checkpoint.Offsets) == 0 {
		report.StartedFrom = "startingOffsets"
	}
	report.Unanswered = len(plan.Missing)
	for _, rng := range plan.Ranges {
		report.Ranges = append(report.Ranges, record.RangeReport{
			Topic: rng.Partition.Topic, Partition: rng.Partition.ID, From: rng.From, To: rng.To, DoneTo: rng.From,
			LogEnd: plan.Offsets[rng.Partition].LogEnd,
		})
	}
	for _, gap := range plan.Gaps {
		report.Gaps = append(report.Gaps, record.GapReport{
			Topic: gap.Partition.Topic, Partition: gap.Partition.ID, From: gap.From, To: gap.To, Reason: gap.Reason,
		})
	}
	for _, undecided := range plan.Undecided {
		report.Undecided += undecided
	}
	report.Notices = append(report.Notices, plan.Notices...)
	run.available, run.remaining = plan.Available, plan.Available
	report.Remaining = &run.remaining
	if plan.Limited {
		report.LimitedBy = "records"
	}
}

// moved notes how far the run came.
func (run *running) moved(progress *progress) {
	report := &run.report
	progress.mu.Lock()
	defer progress.mu.Unlock()
	run.remaining = run.available
	for i := range report.Ranges {
		rng := &report.Ranges[i]
		rng.DoneTo = progress.lines[record.Partition{Topic: rng.Topic, ID: rng.Partition}].done
		run.remaining -= rng.DoneTo - rng.From
	}
	report.Read, report.Written = progress.read, progress.written
	report.Duplicates, report.DeadLettered = progress.duplicates, progress.deadLettered
	report.Filtered = progress.ignored
	if report.StartedFrom == "startingOffsets" && report.Duplicates > 0 {
		run.notice(fmt.Sprintf("this first run found %d documents with the ids of its records: if the "+
			"collection holds what another cluster, or a topic of the same name before this one, had written, these records are "+
			"not in it. A pipeline that starts over needs a collection of its own", report.Duplicates))
	}
	if progress.limitedBy != "" {
		report.LimitedBy = progress.limitedBy
	}
	if run.remaining == 0 {
		report.LimitedBy = "" // a limit that was reached with the last record limited nothing
	}
}

// notice tells the operator something, once.
func (run *running) notice(text string) {
	if !slices.Contains(run.report.Notices, text) {
		run.report.Notices = append(run.report.Notices, text)
	}
}

// as ends a run that moved nothing, and needed to.
func (run *running) as(outcome record.Outcome) (record.Report, error) {
	run.report.Outcome = outcome
	run.close()
	return run.report, nil
}

// end ends a run: with an error by its kind, else by how much of the window was done.
func (run *running) end(ctx context.Context, err error) (record.Report, error) {
	report := &run.report
	if err == nil {
		err = run.judge()
	}
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Conflict:
		report.Outcome = record.Skipped
		run.notice(err.Error())
		err = nil
	default:
		report.Outcome = record.Failed
		report.ErrorKind, report.ErrorClass = fault.KindOf(err).String(), fault.ClassOf(err)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("the run's time is used up: %w", err)
		}
		report.Error = err.Error()
	}
	run.close()
	return *report, err
}

// judge says whether the window was done. A window of which nothing could be read in all the time is a fault: a run
// that never makes progress must not look like success.
func (run *running) judge() error {
	report := &run.report
	undone := func(rng record.RangeReport) bool { return rng.DoneTo < rng.To }
	report.Outcome = record.Partial
	if !slices.ContainsFunc(report.Ranges, undone) && report.LimitedBy == "" {
		report.Outcome = record.Done
		return nil
	}
	moved := func(rng record.RangeReport) bool { return rng.DoneTo > rng.From }
	if report.LimitedBy == limitTime && !slices.ContainsFunc(report.Ranges, moved) {
		cut := run.cut
		if cut == nil {
			cut = errors.New("kafka yielded nothing")
		}
		return fault.Transientf("none of %d offsets could be moved in the run's time: %w", run.remaining, cut)
	}
	if run.cut != nil {
		run.notice("the run's time was up: " + run.cut.Error())
	}
	return nil
}

func (run *running) close() {
	report := &run.report
	report.DurationMs = time.Since(report.StartedAt).Milliseconds()
	known := report.Outcome == record.Done || report.Outcome == record.Idle || report.Outcome == record.Partial
	if known && run.remaining == 0 && report.Unanswered == 0 {
		none := 0.0
		report.OldestUnprocessedAgeSeconds = &none
	}
}
