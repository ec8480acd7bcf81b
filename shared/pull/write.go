package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tidemark/tidemark/shared/record"
)

// write is the writer of that number. Chunks of two writers may be written in any order: only the contiguous prefix of
// each partition counts.
func (m *mover) write(ctx context.Context, number int) error {
	for {
		m.free <- number // never blocks: there is room for each writer
		var c *chunk
		select {
		case c = <-m.given[number]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if c == nil {
			return nil
		}
		if err := m.writeChunk(ctx, c); err != nil {
			if isCutOff(err) {
				m.cutOff.note(err)
			} else {
				m.failed.note(err)
			}
			return err
		}
	}
}

// writeChunk makes a chunk durable: first the documents, then the dead letters, and only then is it acknowledged.
func (m *mover) writeChunk(ctx context.Context, c *chunk) error {
	m.passed(ctx, PhaseWrite, slog.Int64("records", c.records))
	result, err := m.writeDocuments(ctx, c)
	if err != nil {
		return err
	}
	letters := append(c.letters, result.Rejected...)
	if err := m.progress.rejects.admit(c.records, letters); err != nil {
		return err
	}
	if len(letters) > 0 {
		err := m.retry(ctx, &m.run.sink, func(ctx context.Context) error {
			return m.Sink.Bury(ctx, m.run.report.Run, letters)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.marks[0].partition, err)
		}
	}
	m.progress.acknowledge(c.marks, result, letters)
	for _, f := range c.flights {
		m.land(f)
	}
	m.passed(ctx, PhaseWritten, slog.Int64("records", c.records), slog.Int("dead_letters", len(letters)))
	m.recycle(c)
	return nil
}

func (m *mover) writeDocuments(ctx context.Context, c *chunk) (result record.WriteResult, err error) {
	if len(c.writes) == 0 {
		return result, nil
	}
	err = m.retry(ctx, &m.run.sink, func(ctx context.Context) error {
		if m.WritesEndWithLease {
			leased, cancel := context.WithDeadline(ctx, m.held.Trusted())
			defer cancel()
			ctx = leased
		}
		result, err = m.Sink.Write(ctx, c.writes)
		return err
	})
	if err != nil {
		return result, fmt.Errorf("%s: %w", c.marks[0].partition, err)
	}
	if result.Written+result.Duplicates+result.Ignored+int64(len(result.Rejected)) != int64(len(c.writes)) {
		return result, errors.New("the sink's counts do not add up to what it was given")
	}
	return result, nil
}

// recycle takes an acknowledged chunk back. Nothing in it may keep a batch's memory alive.
func (m *mover) recycle(c *chunk) {
	clear(c.writes)
	clear(c.letters[:cap(c.letters)]) // those of the sink may stand behind ours
	clear(c.marks)
	clear(c.flights)
	*c = chunk{writes: c.writes[:0], letters: c.letters[:0], marks: c.marks[:0], flights: c.flights[:0]}
	select {
	case m.used <- c:
	default: // enough are kept
	}
}
