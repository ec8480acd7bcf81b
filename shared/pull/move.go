package pull

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// The reasons for which reading stops before the end of the window, as they stand in the report.
const (
	limitTime  = "time"
	limitBytes = "bytes"
	limitStop  = "stop"
	limitPause = "pause"
)

// keptShelves bounds the memory for documents that waits to be used again, at half a MiB each.
const keptShelves = 16

// mover moves one window: reading, converting and writing overlap, with a fixed number of bytes between them.
type mover struct {
	*Runner
	run      *running
	held     *lease.Lane
	plan     window.Plan
	progress *progress

	flying  *semaphore.Weighted // bytes that were read and are not acknowledged
	batches chan *flight
	free    chan int      // writers that wait for a chunk
	given   []chan *chunk // to each writer; closed after the last
	used    chan *chunk   // acknowledged ones, to be filled again
	shelves chan *shelf   // whose documents have landed, to be filled again
	readErr error         // what ended the reading; what was read before it is still written
	// failed is what a writer failed with, cutOff what was under way in one when the time was up.
	failed, cutOff firstError
}

// firstError keeps the first error of several goroutines.
type firstError struct{ err atomic.Pointer[error] }

func (f *firstError) note(err error) { f.err.CompareAndSwap(nil, &err) }

func (f *firstError) get() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// flight is a batch until the last of its records is acknowledged.
type flight struct {
	record.Batch
	weight int64
	shelf  *shelf       // of its documents
	pieces atomic.Int32 // chunks that hold some of it, and one while it is being converted
}

// move reads the window, converts and writes it, and commits what is acknowledged about once a second. It returns when
// everything that was read is acknowledged, or when that can no longer be.
func (r *Runner) move(held *lease.Lane, run *running, plan window.Plan, progress *progress, stop <-chan struct{}) error {
	m := &mover{
		Runner: r, run: run, held: held, plan: plan, progress: progress,
		flying: semaphore.NewWeighted(r.InFlight), batches: make(chan *flight),
		free: make(chan int, r.Writers), given: make([]chan *chunk, r.Writers), used: make(chan *chunk, 2*r.Writers+1),
		shelves: make(chan *shelf, keptShelves),
	}
	for i := range m.given {
		m.given[i] = make(chan *chunk, 1)
	}
	bounded, cancel := r.leave(held.Context(), r.Reserve/2)
	defer cancel()
	group, ctx := errgroup.WithContext(bounded)
	group.Go(func() error { return m.read(ctx, stop) })
	group.Go(func() error { return m.convert(ctx) })
	var writers sync.WaitGroup
	for number := range r.Writers {
		writers.Add(1)
		group.Go(func() error {
			defer writers.Done()
			return m.write(ctx, number)
		})
	}
	written := make(chan struct{})
	go func() {
		writers.Wait()
		close(written)
	}()
	group.Go(func() error { return m.commit(ctx, written) })
	err := group.Wait()
	if failed := m.failed.get(); failed != nil {
		return failed
	}
	if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) && held.Context().Err() == nil {
		// Time was up before everything that had been read was acknowledged. The rest is the next run's.
		progress.limited(limitTime)
		run.cut = m.cutOff.get()
		return m.readErr
	}
	if err != nil {
		return err
	}
	return m.readErr
}

// leave ends a context by so much before the run's time does, so that there is time for what comes after.
func (r *Runner) leave(ctx context.Context, reserve time.Duration) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded {
		return context.WithDeadline(ctx, deadline.Add(-reserve))
	}
	return context.WithCancel(ctx)
}

// read hands the batches of the window on, until its end, the end of the run's time, or a limit.
func (m *mover) read(ctx context.Context, stop <-chan struct{}) error {
	defer close(m.batches)
	reading, cancel := m.readingTime(ctx, stop)
	defer cancel()
	feed := newFeed(m.Runner, m.run, m.plan.Ranges, m.progress.topicIDs())
	defer feed.close()
	var bytes int64
	for {
		batch, err := feed.next(reading)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case isCutOff(err):
			return m.cut(ctx, reading)
		case err != nil:
			m.readErr = err
			return nil
		}
		m.passed(ctx, PhaseRead, slog.Int("records", len(batch.Records)))
		f := &flight{Batch: batch, weight: min(batch.Bytes, m.InFlight)}
		if err := m.flying.Acquire(ctx, f.weight); err != nil {
			return context.Cause(ctx)
		}
		select {
		case m.batches <- f:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if bytes += batch.Bytes; m.MaxBytes > 0 && bytes >= m.MaxBytes {
			m.progress.limited(limitBytes)
			return nil
		}
	}
}

// errStopped and errPaused end the reading, not the run.
var (
	errStopped = errors.New("stopped")
	errPaused  = errors.New("paused")
)

// readingTime ends a reserve before the run's time does, when the run is asked to stop, and when the lane is paused.
func (m *mover) readingTime(ctx context.Context, stop <-chan struct{}) (context.Context, func()) {
	reading, end := context.WithCancelCause(ctx)
	timed, cancel := m.leave(reading, m.Reserve/2) // ctx ends half a reserve early already
	go func() {
		select {
		case <-stop:
			end(errStopped)
		case <-m.held.Paused():
			end(errPaused)
		case <-timed.Done():
		}
	}()
	return timed, func() { cancel(); end(nil) }
}

// cut says why the reading was ended before the window was.
func (m *mover) cut(ctx, reading context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch cause := context.Cause(reading); {
	case errors.Is(cause, errStopped):
		m.progress.limited(limitStop)
	case errors.Is(cause, errPaused):
		m.progress.limited(limitPause)
	default:
		m.progress.limited(limitTime)
	}
	return nil
}

// commit stores progress about once a second until everything is written. The last commit is the release's.
func (m *mover) commit(ctx context.Context, written <-chan struct{}) error {
	ticker := time.NewTicker(m.CommitEvery)
	defer ticker.Stop()
	for {
		select {
		case <-written:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		change, positions := m.progress.advance()
		if len(positions) == 0 {
			continue
		}
		if err := m.held.Commit(ctx, change); err != nil {
			if fault.KindOf(err) == fault.Transient && ctx.Err() == nil {
				continue // the lease decides how long this may go on
			}
			return err
		}
		m.progress.committed(positions)
		m.passed(ctx, PhaseCommit, slog.Int("partitions", len(positions)))
	}
}

// feed reads the window's ranges and, where the reading failed for now, opens what is left of them again.
type feed struct {
	runner   *Runner
	run      *running
	left     []record.Range
	topicIDs map[string]string // as planned
	reader   Reader
}

func newFeed(r *Runner, run *running, ranges []record.Range, topicIDs map[string]string) *feed {
	return &feed{runner: r, run: run, left: append([]record.Range(nil), ranges...), topicIDs: topicIDs}
}

// next returns the next batch, io.EOF after the last one.
func (f *feed) next(ctx context.Context) (batch record.Batch, err error) {
	ended := false
	err = f.runner.retry(ctx, &f.run.source, func(ctx context.Context) error {
		if f.reader == nil {
			f.reader = f.runner.Source.Open(ctx, f.open(), f.topicIDs)
		}
		batch, err = f.reader.Next(ctx)
		if ended = errors.Is(err, io.EOF); ended {
			return nil
		}
		if err != nil {
			f.close()
			return err
		}
		f.passed(batch)
		return nil
	})
	if ended {
		return batch, io.EOF
	}
	return batch, err
}

func (f *feed) close() {
	if f.reader != nil {
		f.reader.Close()
		f.reader = nil
	}
}

// passed shortens the range of the batch's partition.
func (f *feed) passed(batch record.Batch) {
	for i := range f.left {
		if f.left[i].Partition == batch.Partition {
			f.left[i].From = batch.Next
		}
	}
}

// open returns the ranges that are not at their end.
func (f *feed) open() []record.Range {
	var open []record.Range
	for _, rng := range f.left {
		if rng.From < rng.To {
			open = append(open, rng)
		}
	}
	return open
}
