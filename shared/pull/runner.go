package pull

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// Runner runs one pipeline. It keeps nothing between two runs and may be used by several at once.
type Runner struct {
	Settings
	Source      Source
	Converter   Converter
	Sink        Sink
	Checkpoints lease.Store
	// NewRunID names a run: unique, and sorted by time.
	NewRunID func() string
	Logger   *slog.Logger
}

// Run moves one window of one lane: what is in the log when it begins, as far as the limits and the time of ctx allow.
// It stops early when stop is closed. The report is complete also with an error, whose kind says what it means.
//
// The checkpoint passes an offset only after its record was acknowledged. Nothing here may fail in the time between
// an effect and the note of it without the effect being repeated harmlessly by the next run.
func (r *Runner) Run(ctx context.Context, lane int, stop <-chan struct{}) (record.Report, error) {
	// A crash at any line loses no record: what was written is written again without effect, what was not is still
	// behind the checkpoint. The fault tests stop, fail, hang and kill this function at each of its effects.
	run := r.begin(lane)

	saved, err := r.readCheckpoint(ctx, run)
	if err != nil {
		return run.end(ctx, err)
	}
	r.passed(ctx, PhaseCheckpoint)
	saved, err = r.layOut(ctx, run, saved)
	if err != nil {
		return run.end(ctx, err)
	}
	checkpoint := saved.Checkpoint()
	if checkpoint.Paused {
		return run.as(record.Paused)
	}
	log, err := r.askBounds(ctx, run, checkpoint)
	if err != nil {
		return run.end(ctx, err)
	}
	r.passed(ctx, PhaseBounds)
	if err := r.checkFits(checkpoint, log); err != nil {
		return run.end(ctx, err)
	}
	topics, err := r.topics(checkpoint, log)
	if err != nil {
		return run.end(ctx, err)
	}
	plan, err := window.Make(r.planning(checkpoint, saved.Now(), log, topics, lane))
	if err != nil {
		return run.end(ctx, fmt.Errorf("planning: %w", err))
	}
	r.passed(ctx, PhasePlan)
	run.planned(checkpoint, plan)
	run.report.Notices = append(run.report.Notices, r.notices(checkpoint)...)
	if plan.Idle() {
		return run.as(record.Idle)
	}
	held, err := lease.Take(ctx, r.Checkpoints, saved, r.terms(run), r.starting(log, plan, run))
	if err != nil {
		return run.end(ctx, err)
	}
	r.passed(ctx, PhaseLease)
	progress := newProgress(plan, r.newRejects(checkpoint.Rejects), saved.Now)
	err = r.move(held, run, plan, progress, r.stopping(held, progress, stop))
	if err == nil {
		err = r.checkTopics(held.Context(), run, progress)
	}
	return r.release(ctx, run, held, progress, err)
}

// readCheckpoint reads the lane's document: one read of the store.
func (r *Runner) readCheckpoint(ctx context.Context, run *running) (reading lease.Reading, err error) {
	err = r.retry(ctx, &run.checkpoints, func(ctx context.Context) error {
		reading, err = lease.Read(ctx, r.Checkpoints, run.report.Lane)
		return err
	})
	return reading, err
}

// askBounds asks Kafka between which offsets the lane's partitions can be read. Positions of a topic that was
// recreated mean nothing in its new log, so they are dropped and the question is asked again.
func (r *Runner) askBounds(ctx context.Context, run *running, checkpoint record.Checkpoint) (record.Log, error) {
	query := r.query(checkpoint)
	log, err := r.bounds(ctx, run, query)
	if err != nil {
		return record.Log{}, err
	}
	stale := window.Stale(checkpoint, log)
	for partition := range query.Positions {
		if slices.Contains(stale, partition.Topic) {
			delete(query.Positions, partition)
		}
	}
	discovered := r.Pattern != "" && r.wantTimestamps(&query, checkpoint, slices.Collect(maps.Keys(log.Topics)))
	if len(stale) == 0 && !discovered {
		return log, nil
	}
	return r.bounds(ctx, run, query)
}

func (r *Runner) bounds(ctx context.Context, run *running, query record.BoundsQuery) (log record.Log, err error) {
	query.Lane = run.report.Lane
	err = r.retry(ctx, &run.source, func(ctx context.Context) error {
		log, err = r.Source.Bounds(ctx, query)
		return err
	})
	return log, err
}

func (r *Runner) query(checkpoint record.Checkpoint) record.BoundsQuery {
	query := record.BoundsQuery{Lanes: r.Lanes, Positions: map[record.Partition]int64{}}
	for partition, position := range checkpoint.Offsets {
		query.Positions[partition] = position.Offset
	}
	r.wantTimestamps(&query, checkpoint, r.Topics)
	return query
}

func (r *Runner) planning(checkpoint record.Checkpoint, now time.Time, log record.Log, topics []string, lane int) window.Input {
	return window.Input{
		Now: now, Checkpoint: checkpoint, Log: log, Topics: topics,
		Owns:     func(p record.Partition) bool { return r.reads(p) && p.Lane(r.Lanes) == lane },
		Starting: r.startingAt(checkpoint), Resume: r.ResumeAfterLoss,
		MaxRecords: r.MaxRecords, MinPerPartition: r.MinPerPartition,
	}
}

// reads says whether the pipeline reads the partition. One that is no longer assigned is not missed.
func (r *Runner) reads(p record.Partition) bool {
	assigned, narrowed := r.Assign[p.Topic]
	return !narrowed || slices.Contains(assigned, p.ID)
}

func (r *Runner) terms(run *running) lease.Terms {
	return lease.Terms{Holder: run.report.Run, Length: r.LeaseLength, Heartbeat: r.Heartbeat}
}

// starting is the change that is stored with the lease: where reading begins, and every gap and reset that is passed.
func (r *Runner) starting(log record.Log, plan window.Plan, run *running) lease.Change {
	identity := r.identity(log)
	return func(doc *record.Checkpoint) {
		doc.Lanes, doc.Layout = r.Lanes, r.Layout
		doc.Identity = identity
		doc.Topics, doc.Offsets, doc.Missing = plan.Topics, plan.Offsets, plan.Missing
		if doc.StartingOffsets == "" {
			doc.StartingOffsets = r.StartingText
		}
		doc.LastRun = run.report.Run
		keepGaps(doc, plan.Gaps)
	}
}

// keptGaps bounds the gaps that are kept one by one; their total is kept for ever.
const keptGaps = 100

func keepGaps(doc *record.Checkpoint, gaps []record.Gap) {
	for _, gap := range gaps {
		doc.Gaps = append(doc.Gaps, gap)
		doc.GapRecords += gap.To - gap.From
	}
	if extra := len(doc.Gaps) - keptGaps; extra > 0 {
		doc.Gaps = doc.Gaps[extra:]
	}
}

// checkTopics looks at the topic ids again before the last commit: offsets that were read from a topic that has been
// recreated meanwhile mean nothing in it.
func (r *Runner) checkTopics(ctx context.Context, run *running, progress *progress) error {
	planned, read := progress.topicIDs(), map[string]bool{}
	for _, rng := range run.report.Ranges {
		read[rng.Topic] = true
	}
	maps.DeleteFunc(planned, func(topic, id string) bool { return id == "" || !read[topic] })
	if len(planned) == 0 {
		return nil
	}
	ctx, cancel := r.leave(ctx, r.Reserve/4)
	defer cancel()
	var now map[string]string
	err := r.retry(ctx, &run.source, func(ctx context.Context) (err error) {
		now, err = r.Source.TopicIDs(ctx, slices.Sorted(maps.Keys(planned)))
		return err
	})
	if err != nil {
		return err
	}
	for topic, id := range planned {
		if now[topic] != "" && now[topic] != id {
			progress.discard()
			return fault.Fatalf("topic-recreated", "topic %s was recreated during the run: its id was %s and is %s. Its "+
				"offsets are not committed. See docs/playbooks/DataLoss.md", topic, id, now[topic])
		}
	}
	return nil
}

// release stores what was acknowledged, the run and the end of the lease, in one write.
func (r *Runner) release(ctx context.Context, run *running, held *lease.Lane, progress *progress, err error) (record.Report, error) {
	if lost := context.Cause(held.Context()); err != nil && lost != nil && ctx.Err() == nil {
		err = lost // why the lease was lost says more than the calls that were cut off by it
	}
	run.moved(progress)
	report, err := run.end(ctx, err)
	last, _ := progress.advance()
	if releaseErr := held.Release(ctx, last, &report); releaseErr != nil {
		// What was acknowledged since the last commit is moved again by the next run.
		progress.discard()
		run.moved(progress)
		if err == nil {
			err = fmt.Errorf("storing the end of the run: %w", releaseErr)
		}
		return run.end(ctx, err)
	}
	r.passed(ctx, PhaseRelease)
	return report, err
}
