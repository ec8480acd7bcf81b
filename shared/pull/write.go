package pull

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// chunk is what one writer takes: writes and dead letters, with the marks that are acknowledged by them.
type chunk struct {
	writes  []record.Write
	letters []record.DeadLetter
	marks   []*mark
	flights []*flight
	records int64
	bytes   int64
}

// convert turns batches into chunks. A chunk is offered to the writers as soon as it holds anything and goes on
// growing until one of them is free or it is full: batches grow with the load, and a slow topic does not wait.
func (m *mover) convert(ctx context.Context) error {
	defer close(m.chunks)
	current := m.fresh()
	batches := m.batches
	for batches != nil || len(current.marks) > 0 {
		var offer chan *chunk
		if len(current.marks) > 0 {
			offer = m.chunks
		}
		take := batches
		if m.full(current) {
			take = nil
		}
		select {
		case f, more := <-take:
			if !more {
				batches = nil
				continue
			}
			var err error
			if current, err = m.fill(ctx, current, f); err != nil {
				return err
			}
		case offer <- current:
			current = m.fresh()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// fresh returns an empty chunk: a used one where there is one, since growing their lists took a tenth of the CPU.
func (m *mover) fresh() *chunk {
	select {
	case c := <-m.used:
		return c
	default:
		return &chunk{}
	}
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

func (m *mover) full(c *chunk) bool {
	return len(c.writes)+len(c.letters) >= m.ChunkRecords || c.bytes >= m.ChunkBytes
}

// fill converts a batch into the current chunk, handing on each chunk that becomes full, and returns the last one.
func (m *mover) fill(ctx context.Context, current *chunk, f *flight) (*chunk, error) {
	f.pieces.Store(1)
	defer m.land(f)
	topic := m.progress.topics[f.Partition.Topic]
	begin := 0
	cut := func(end int, next int64) {
		done := &mark{
			partition: f.Partition, next: next, epoch: f.LeaderEpoch,
			count: record.RejectCount{Records: int64(end - begin)},
		}
		m.progress.expect(done)
		f.pieces.Add(1)
		current.marks, current.flights = append(current.marks, done), append(current.flights, f)
		current.records += done.count.Records
		begin = end
	}
	for i, rec := range f.Records {
		if m.full(current) {
			if begin < i {
				cut(i, rec.Offset)
			}
			select {
			case m.chunks <- current:
				current = m.fresh()
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		write, err := m.convertOne(rec, topic)
		switch {
		case err == nil:
			current.writes = append(current.writes, write)
			current.bytes += int64(len(write.Document))
		case fault.KindOf(err) == fault.Poison:
			current.letters = append(current.letters, record.DeadLetter{
				Record: rec, Incarnation: topic.Incarnation, Class: fault.ClassOf(err), Reason: err.Error(),
			})
			current.bytes += int64(len(rec.Value))
		default:
			return nil, fmt.Errorf("converting %s offset %d: %w", rec.Partition, rec.Offset, err)
		}
	}
	cut(len(f.Records), f.Next)
	return current, nil
}

// convertOne converts a record. A panic in it is a bug, and named as one: in a goroutine it would end the process, with
// the runs of other lanes in it. Its text may hold the value and is not told.
func (m *mover) convertOne(rec record.Record, topic record.Topic) (write record.Write, err error) {
	defer func() {
		if recover() != nil {
			err = fault.Fatalf("converter-panic", "%s: converting the record at offset %d panicked: this is a bug of Tidemark. "+
				"Report it with the record; to go on without it, move the checkpoint past it", rec.Partition, rec.Offset)
		}
	}()
	return m.Converter.Convert(rec, topic)
}

// land gives back the memory of a batch once no chunk holds any of it.
func (m *mover) land(f *flight) {
	if f.pieces.Add(-1) == 0 {
		m.flying.Release(f.weight)
	}
}

// write is one of several writers. Two chunks may be written in any order: only the contiguous prefix of each partition
// counts.
func (m *mover) write(ctx context.Context) error {
	for c := range m.chunks {
		if err := m.writeChunk(ctx, c); err != nil {
			if isCutOff(err) {
				m.cutOff.note(err)
			} else {
				m.failed.note(err)
			}
			return err
		}
	}
	return nil
}

// writeChunk makes a chunk durable: first the documents, then the dead letters, and only then is it acknowledged.
func (m *mover) writeChunk(ctx context.Context, c *chunk) error {
	result, err := m.writeDocuments(ctx, c)
	if err != nil {
		return err
	}
	letters := append(c.letters, result.Rejected...)
	m.blame(c, letters)
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
	m.progress.acknowledge(c.marks, result, len(letters))
	for _, f := range c.flights {
		m.land(f)
	}
	m.Logger.DebugContext(ctx, "acknowledged", "phase", "write", "records", c.records, "dead_letters", len(letters))
	m.recycle(c)
	return nil
}

func (m *mover) writeDocuments(ctx context.Context, c *chunk) (result record.WriteResult, err error) {
	if len(c.writes) == 0 {
		return result, nil
	}
	err = m.retry(ctx, &m.run.sink, func(ctx context.Context) error {
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

// blame counts the dead letters with the marks that they belong to.
func (m *mover) blame(c *chunk, letters []record.DeadLetter) {
	for i := range letters {
		for _, mark := range c.marks {
			if mark.partition == letters[i].Record.Partition && letters[i].Record.Offset < mark.next {
				mark.count.Rejected++
				break
			}
		}
	}
}
