package pull

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

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

// dispatcher converts batches and shares the writes out to the writers. One goroutine owns it.
//
// Writes whose order does not matter are taken by whoever is free. The others have a writer of their own by their Order,
// which is given them in the order in which they were read, so that two of one Order never meet in two calls.
type dispatcher struct {
	*mover

	common *chunk   // for any writer, dead letters too
	owned  []*chunk // by writer
	idle   []bool   // by writer: it waits for a chunk
	shelf  *shelf   // holds the documents of the batches since the last one was full
}

// convert turns batches into chunks until there are no more of them. A chunk grows while batches are there to be taken
// and goes as soon as none is and a writer is free: writes grow with the load, and a slow topic does not wait.
func (m *mover) convert(ctx context.Context) error {
	d := &dispatcher{mover: m, common: m.fresh(), owned: make([]*chunk, m.Writers), idle: make([]bool, m.Writers), shelf: m.freshShelf()}
	for i := range d.owned {
		d.owned[i] = m.fresh()
	}
	batches := m.batches
	take := func(f *flight, more bool) error {
		if !more {
			batches = nil
			return nil
		}
		return d.fill(ctx, f)
	}
	for {
		select {
		case f, more := <-d.whereRoom(batches):
			if err := take(f, more); err != nil {
				return err
			}
			continue
		default: // the reader is slower than we are, or there is no room
		}
		d.handOut()
		if batches == nil && d.empty() {
			d.end()
			return nil
		}
		select {
		case f, more := <-d.whereRoom(batches):
			if err := take(f, more); err != nil {
				return err
			}
		case i := <-m.free:
			d.idle[i] = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// whereRoom returns the channel while there is room for what comes out of it, else nil, from which nothing comes.
func (d *dispatcher) whereRoom(batches chan *flight) chan *flight {
	if d.anyFull() {
		return nil
	}
	return batches
}

// handOut gives chunks to the writers that wait: what is there where none of them is busy, else what is worth a write of
// its own. The rest goes on growing until one of these is so.
func (d *dispatcher) handOut() {
	quiet := !slices.Contains(d.idle, false)
	for i, idle := range d.idle {
		from := &d.owned[i]
		if (*from).empty() {
			from = &d.common
		}
		if idle && !(*from).empty() && (quiet || d.ripe(*from)) {
			d.given[i] <- *from // never blocks: an idle writer has none
			*from, d.idle[i] = d.fresh(), false
		}
	}
}

// ripe tells whether a chunk is worth a write beside others: full, or with so many of the bytes in flight that waiting
// for more could stop the reading.
func (d *dispatcher) ripe(c *chunk) bool {
	return d.full(c) || c.bytes >= d.InFlight/int64(2*d.Writers)
}

// end lets the writers end. Chunks that were given are still written.
func (d *dispatcher) end() {
	for _, given := range d.given {
		close(given)
	}
}

func (d *dispatcher) empty() bool {
	for _, c := range d.owned {
		if !c.empty() {
			return false
		}
	}
	return d.common.empty()
}

func (d *dispatcher) anyFull() bool {
	for _, c := range d.owned {
		if d.full(c) {
			return true
		}
	}
	return d.full(d.common)
}

func (c *chunk) empty() bool { return len(c.writes) == 0 && len(c.letters) == 0 }

func (m *mover) full(c *chunk) bool {
	return len(c.writes)+len(c.letters) >= m.ChunkRecords || c.bytes >= m.ChunkBytes
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

// stretch is the part of a batch that is being shared out, from the record at begin on.
type stretch struct {
	*mark

	flight  *flight
	begin   int
	skipped int64
}

// fill converts a batch. Its records are one stretch, or more where a chunk becomes full: what is before that may then
// be acknowledged without the rest.
func (d *dispatcher) fill(ctx context.Context, f *flight) error {
	f.pieces.Store(1)
	d.place(f)
	defer d.land(f)
	topic := d.progress.topics[f.Partition.Topic]
	s := newStretch(f, 0)
	for i, rec := range f.Records {
		write, err := d.convertOne(&f.shelf.arena, rec, topic)
		if err == nil && write.Op == record.Skip {
			s.skipped++
			continue
		}
		if err != nil && fault.KindOf(err) != fault.Poison {
			return fmt.Errorf("converting %s offset %d: %w", rec.Partition, rec.Offset, err)
		}
		place := &d.common
		if err == nil {
			place = d.placeOf(write)
		}
		if d.full(*place) {
			d.cut(s, i, rec.Offset)
			s = newStretch(f, i)
			if err := d.makeRoom(ctx, place); err != nil {
				return err
			}
		}
		c := *place
		s.enter(c)
		if err == nil {
			c.writes = append(c.writes, write)
			c.bytes += int64(len(write.Document))
			continue
		}
		c.letters = append(c.letters, record.DeadLetter{
			Record: rec, Incarnation: topic.Incarnation, Class: fault.ClassOf(err), Reason: err.Error(),
		})
		c.bytes += int64(len(rec.Value))
	}
	d.cut(s, len(f.Records), f.Next)
	d.passed(ctx, PhaseConvert, slog.Int("records", len(f.Records)))
	return nil
}

func newStretch(f *flight, begin int) stretch {
	return stretch{mark: &mark{partition: f.Partition, epoch: f.LeaderEpoch}, flight: f, begin: begin}
}

// enter notes that the chunk holds a record of the stretch.
func (s stretch) enter(c *chunk) {
	c.records++
	if n := len(c.marks); n > 0 && c.marks[n-1] == s.mark {
		return
	}
	c.marks, c.flights = append(c.marks, s.mark), append(c.flights, s.flight)
	s.pieces++
	s.flight.pieces.Add(1)
}

// cut ends a stretch before the record at end; next is the position that it leads to. Chunks that hold some of it are
// not handed out before.
func (d *dispatcher) cut(s stretch, end int, next int64) {
	s.next = next
	s.count.Records = int64(end - s.begin)
	d.progress.rejects.pass(s.skipped)
	d.progress.expect(s.mark, s.skipped)
}

// placeOf returns where the write is put.
func (d *dispatcher) placeOf(write record.Write) **chunk {
	order, matters := d.Sink.Order(write)
	if !matters {
		return &d.common
	}
	return &d.owned[order%uint64(len(d.owned))]
}

// makeRoom waits until the chunk in the place was handed out.
func (d *dispatcher) makeRoom(ctx context.Context, place **chunk) error {
	for d.handOut(); d.full(*place); d.handOut() {
		select {
		case i := <-d.free:
			d.idle[i] = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// convertOne converts a record. A panic in it is a bug, and named as one: in a goroutine it would end the process, with
// the runs of other lanes in it. Its text may hold the value and is not told.
func (m *mover) convertOne(arena *record.Arena, rec record.Record, topic record.Topic) (write record.Write, err error) {
	defer func() {
		if recover() != nil {
			err = fault.Fatalf("converter-panic", "%s: converting the record at offset %d panicked: this is a bug of Tidemark. "+
				"Report it with the record; to go on without it, move the checkpoint past it", rec.Partition, rec.Offset)
		}
	}()
	return m.Converter.Convert(arena, rec, topic)
}

// land gives back the memory of a batch once no chunk holds any of it.
func (m *mover) land(f *flight) {
	if f.pieces.Add(-1) == 0 {
		m.flying.Release(f.weight)
		m.release(f.shelf)
	}
}
