package pull

import (
	"sync"
	"time"

	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// progress knows, per partition, the contiguous prefix of the window that is acknowledged: only that is committed.
type progress struct {
	now     func() time.Time // the store's clock
	rejects *rejects

	mu        sync.Mutex // held for a few instructions only, never over an effect
	lines     map[record.Partition]*line
	topics    map[string]record.Topic
	limitedBy string

	read, written, duplicates, ignored, deadLettered int64
	// committable counts the records of the contiguous prefixes, which is what goes into the rejects of the document.
	committable record.RejectCount
}

// line is one partition: the marks in the order of their offsets, of which the first is the first not acknowledged.
type line struct {
	done    int64 // the next offset to read, as far as it may be committed
	epoch   int32
	stored  int64 // what the document has
	pending []*mark
}

// mark is a stretch of one partition that is acknowledged as one.
type mark struct {
	partition record.Partition
	next      int64
	epoch     int32
	count     record.RejectCount
	pieces    int // chunks that hold some of it and are not acknowledged
}

func newProgress(plan window.Plan, rejects *rejects, now func() time.Time) *progress {
	p := &progress{now: now, rejects: rejects, lines: map[record.Partition]*line{}, topics: plan.Topics}
	for partition, position := range plan.Offsets {
		p.lines[partition] = &line{done: position.Offset, stored: position.Offset, epoch: position.LeaderEpoch}
	}
	return p
}

// expect notes that the stretch up to next is on its way, and how many of its records are dropped by config. Stretches of
// a partition are expected in order. One without a write is done when those before it are.
func (p *progress) expect(m *mark, skipped int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += m.count.Records
	p.ignored += skipped
	l := p.lines[m.partition]
	l.pending = append(l.pending, m)
	p.pass(l)
}

// acknowledge notes that what one chunk holds of the marks is durable: written, or stored as a dead letter.
func (p *progress) acknowledge(marks []*mark, result record.WriteResult, letters []record.DeadLetter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written += result.Written
	p.duplicates += result.Duplicates
	p.ignored += result.Ignored
	p.deadLettered += int64(len(letters))
	for i := range letters {
		blame(marks, letters[i].Record)
	}
	for _, m := range marks {
		m.pieces--
		p.pass(p.lines[m.partition])
	}
}

// blame counts a dead letter with the mark that it belongs to: those of a partition are in order.
func blame(marks []*mark, rejected record.Record) {
	for _, m := range marks {
		if m.partition == rejected.Partition && rejected.Offset < m.next {
			m.count.Rejected++
			return
		}
	}
}

// pass moves a partition over the marks that are done, up to the first that is not.
func (p *progress) pass(l *line) {
	for len(l.pending) > 0 && l.pending[0].pieces == 0 {
		first := l.pending[0]
		l.done, l.epoch = first.next, first.epoch
		p.committable.Records += first.count.Records
		p.committable.Rejected += first.count.Rejected
		l.pending = l.pending[1:]
	}
}

// advance returns the change that moves the checkpoint over what is acknowledged by now, and the positions that it moves
// to; there is nothing to commit where these are empty.
func (p *progress) advance() (lease.Change, map[record.Partition]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved, positions := map[record.Partition]line{}, map[record.Partition]int64{}
	for partition, l := range p.lines {
		if l.done > l.stored {
			moved[partition], positions[partition] = *l, l.done
		}
	}
	rejects := p.rejects.remember(p.committable)
	now := p.now()
	return func(doc *record.Checkpoint) {
		if len(moved) == 0 {
			return
		}
		for partition, l := range moved {
			position := doc.Offsets[partition]
			if position.Offset >= l.done {
				continue // never backwards
			}
			position.Offset, position.LeaderEpoch, position.MovedAt = l.done, l.epoch, now
			doc.Offsets[partition] = position
		}
		doc.Rejects = rejects
	}, positions
}

// committed notes what the document has, after a change made by advance was stored.
func (p *progress) committed(positions map[record.Partition]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, offset := range positions {
		p.lines[partition].stored = offset
	}
}

// topicIDs returns the ids of the topics as they were planned with.
func (p *progress) topicIDs() map[string]string {
	ids := map[string]string{}
	for name, topic := range p.topics {
		ids[name] = topic.ID
	}
	return ids
}

// discard gives up what the document does not have: it is not known to be of any use, or could not be stored.
func (p *progress) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.done, l.pending = l.stored, nil
	}
}

// limited notes why reading stopped before the end of the window. The first reason counts.
func (p *progress) limited(by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limitedBy == "" {
		p.limitedBy = by
	}
}
