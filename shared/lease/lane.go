package lease

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Terms say who takes a lease and for how long.
type Terms struct {
	// Holder is unique to the run.
	Holder string
	// Length is how long the lease lasts without being renewed, Heartbeat how often it is renewed.
	Length, Heartbeat time.Duration
}

// attempt bounds one call of the store to a third of the lease, so that a call that hangs leaves time for two others.
func (t Terms) attempt() time.Duration { return t.Length / 3 }

// Change edits the document that is stored next. It is called again where that was not stored, on the document as it
// then is: one that an operator may have edited, and that never holds the change already.
type Change func(*record.Checkpoint)

// Lane is the document of one lane while its lease is held. One goroutine owns the document; commits and heartbeats
// are its messages.
type Lane struct {
	store    Store
	terms    Terms
	reading  Reading
	ctx      context.Context
	lose     context.CancelCauseFunc
	requests chan request
	paused   signal
	draining signal
	ended    chan struct{}
	trusted  atomic.Pointer[time.Time] // what Trusted returns; written by the goroutine of own only

	// Owned by the goroutine of own.
	doc     record.Checkpoint
	at      Revision
	expires time.Time // as in the last write that was tried
}

// signal is closed once, by the goroutine that owns the document.
type signal struct {
	c      chan struct{}
	closed bool
}

func (s *signal) closeIf(seen bool) {
	if seen && !s.closed {
		s.closed = true
		close(s.c)
	}
}

type request struct {
	ctx     context.Context
	change  Change
	run     *record.Report
	release bool
	answer  chan error
	// expires is the end of the lease that this write gives itself. No two writes have the same one, to the microsecond
	// that every store keeps, so that it also tells whose the stored document is.
	expires time.Time
}

// Take takes the lease of the lane that was read, and stores change in the same write. Conflict where someone alive
// holds it, where someone took it or changed the lanes in between, and while the pipeline drains. The lease is renewed
// until Release, or until it is lost: then Context ends.
func Take(ctx context.Context, store Store, reading Reading, terms Terms, change Change) (*Lane, error) {
	doc := reading.Checkpoint()
	if now := reading.Now(); doc.Lease.Holder != "" && now.Before(doc.Lease.ExpiresAt) {
		return nil, fault.Conflictf("lane %d is held by run %s for another %s", doc.Lane, doc.Lease.Holder,
			doc.Lease.ExpiresAt.Sub(now).Round(time.Millisecond))
	}
	if err := reading.Drained(); err != nil {
		return nil, err
	}
	doc.Draining = record.Draining{} // one that has ended by itself
	l := &Lane{
		store: store, terms: terms, reading: reading, doc: doc, at: reading.Revision,
		requests: make(chan request), ended: make(chan struct{}),
		paused: signal{c: make(chan struct{})}, draining: signal{c: make(chan struct{})},
	}
	l.doc.Lease.Epoch++
	l.doc.Lease.Holder = terms.Holder
	// Before the first write there is nothing to lose: it may take as long as one lease.
	l.trust(time.Now().Add(terms.Length))
	if err := l.write(request{ctx: ctx, change: change}); err != nil {
		return nil, fmt.Errorf("taking the lease of lane %d: %w", doc.Lane, err)
	}
	l.ctx, l.lose = context.WithCancelCause(ctx)
	go l.own()
	return l, nil
}

// Context ends when the lease is lost, with a cause of kind Conflict, and when the context given to Take ends.
func (l *Lane) Context() context.Context { return l.ctx }

// Paused is closed when an operator pauses the lane while it is held.
func (l *Lane) Paused() <-chan struct{} { return l.paused.c }

// Draining is closed when the lanes of the pipeline are to change while this one is held: the sooner it is released, the
// sooner they are. The lease counts as before, and is renewed.
func (l *Lane) Draining() <-chan struct{} { return l.draining.c }

// Trusted returns the local time, with the monotonic clock, until which the lease is surely ours: counted from before the
// write that last renewed it was sent, so it is never later than the end of the lease by the store's clock. Heartbeats
// and commits move it on; once the lease was given back or lost it is not in the future any more. Safe for concurrent use.
func (l *Lane) Trusted() time.Time { return *l.trusted.Load() }

func (l *Lane) trust(until time.Time) { l.trusted.Store(&until) }

// Commit stores a change and renews the lease. A nil error promises that it is stored; Conflict, that the lease is
// lost and nothing was stored.
func (l *Lane) Commit(ctx context.Context, change Change) error {
	return l.ask(request{ctx: ctx, change: change})
}

// Release stores the last change and the run, and gives the lease back, in one write. The lane ends whatever the
// outcome: a lease that could not be given back runs out.
func (l *Lane) Release(ctx context.Context, change Change, run *record.Report) error {
	err := l.ask(request{ctx: ctx, change: change, run: run, release: true})
	l.lose(nil)
	<-l.ended
	return err
}

func (l *Lane) ask(req request) error {
	req.answer = make(chan error, 1)
	select {
	case l.requests <- req:
		return <-req.answer
	case <-l.ended:
		return context.Cause(l.ctx)
	case <-req.ctx.Done(): // a heartbeat hangs
		return fault.Transientf("storing the checkpoint of lane %d: %w", l.reading.lane, context.Cause(req.ctx))
	}
}

// own is the goroutine that owns the document.
func (l *Lane) own() {
	defer close(l.ended)
	defer func() { l.trust(earlier(l.Trusted(), time.Now())) }()
	heartbeat := time.NewTimer(l.terms.Heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-l.ctx.Done():
			return
		case req := <-l.requests:
			err = l.write(req)
			req.answer <- err
			if req.release {
				return
			}
		case <-heartbeat.C:
			err = l.write(request{ctx: l.ctx, change: func(*record.Checkpoint) {}})
		}
		if err != nil && (fault.KindOf(err) != fault.Transient || !time.Now().Before(l.Trusted())) {
			l.lose(err)
			return
		}
		heartbeat.Reset(l.terms.Heartbeat)
	}
}
