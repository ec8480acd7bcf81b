package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// write stores the document with a change, by compare-and-set, until it is known to be stored or not. It gives up when
// the request's context ends or the lease can no longer be trusted.
func (l *Lane) write(req request) error {
	ctx, cancel := context.WithDeadline(req.ctx, l.Trusted())
	defer cancel()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = l.terms.attempt() / 16
	wait.MaxInterval = l.terms.attempt() / 2
	if !req.release {
		l.expires = later(l.reading.Now().Add(l.terms.Length).Truncate(time.Microsecond), l.expires.Add(time.Microsecond))
		req.expires = l.expires
	}
	for {
		done, err := l.attempt(ctx, req)
		if done || err != nil && fault.KindOf(err) != fault.Transient {
			return err
		}
		select {
		case <-ctx.Done():
			return l.gaveUp(req, err)
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// gaveUp names why a write ended without an outcome: the caller's time was up, or the lease's.
func (l *Lane) gaveUp(req request, err error) error {
	if err == nil {
		err = errors.New("the document kept changing")
	}
	if req.ctx.Err() == nil {
		return fault.Transientf("the lease of lane %d could not be renewed within %s: %w", l.doc.Lane, l.terms.Length, err)
	}
	return fmt.Errorf("storing the checkpoint of lane %d: %w", l.doc.Lane, err)
}

// attempt sends one compare-and-set and finds out what became of it: done with nil if it is stored, an error that is
// not Transient if it can never be, else it is to be sent again.
func (l *Lane) attempt(ctx context.Context, req request) (done bool, err error) {
	next := l.next(req)
	sent := time.Now()
	revision, err := l.send(ctx, next, req.run)
	if err == nil {
		l.stored(next, revision, sent)
		return true, nil
	}
	if fault.KindOf(err) == fault.Fatal {
		return false, err
	}
	// Conflict: somebody wrote. Transient: nobody knows whether we did. One more read tells both.
	found, readErr := l.reload(ctx)
	if readErr != nil {
		if fault.KindOf(readErr) != fault.Transient {
			return false, readErr
		}
		return false, err
	}
	return l.judge(found, next, sent, err)
}

// next is the document to be stored: changed, counted, and with the lease renewed or given back.
func (l *Lane) next(req request) record.Checkpoint {
	next := l.doc.Clone()
	req.change(&next)
	next.Schema = record.Schema
	next.Seq++
	next.UpdatedBy = l.terms.Holder
	next.Lease = record.Lease{Epoch: l.doc.Lease.Epoch}
	if !req.release {
		next.Lease.Holder = l.terms.Holder
		next.Lease.ExpiresAt = req.expires
	}
	return next
}

func (l *Lane) send(ctx context.Context, next record.Checkpoint, run *record.Report) (Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, l.terms.attempt())
	defer cancel()
	if l.at == "" {
		return l.store.Create(ctx, next)
	}
	return l.store.Update(ctx, next, l.at, run)
}

func (l *Lane) reload(ctx context.Context) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, l.terms.attempt())
	defer cancel()
	return l.store.Load(ctx, l.doc.Lane)
}

// stored takes over what the store now holds.
func (l *Lane) stored(doc record.Checkpoint, at Revision, sent time.Time) {
	l.doc, l.at = doc, at
	if doc.Lease.Holder == l.terms.Holder {
		// The lease was written as ending a Length after a time that was never ahead of the store's, so counting from
		// before the write was sent can only err towards letting go too early.
		l.trust(earlier(sent.Add(l.terms.Length), l.reading.here(doc.Lease.ExpiresAt)))
	}
	l.paused.closeIf(doc.Paused)
	l.draining.closeIf(doc.Draining.By != "")
}

// judge compares the stored document with the one that was sent, after a write that did not simply succeed.
func (l *Lane) judge(found Snapshot, next record.Checkpoint, sent time.Time, err error) (done bool, _ error) {
	switch doc := found.Doc; {
	case doc == nil && fault.KindOf(err) == fault.Conflict:
		return false, err // the lanes were changed, and this one is not among them
	case doc == nil:
		// Nothing was created: send it again. Or it was there before: whether it was lost, or taken away by a change of
		// the lanes, is what the store says when it is sent again.
		return false, transient(err)
	case next.Lease.Holder != "" && sameLease(doc.Lease, next.Lease):
		// Ours, and edited since by somebody who left the lease as it was: it must not be changed once more.
		l.stored(*doc, found.Revision, sent)
		return true, nil
	case doc.Seq == next.Seq && doc.UpdatedBy == next.UpdatedBy && sameLease(doc.Lease, next.Lease):
		l.stored(*doc, found.Revision, sent)
		return true, nil
	case doc.Lease.Epoch == l.doc.Lease.Epoch && doc.Lease.Holder == l.terms.Holder && l.at != "":
		// Still ours: nothing was stored, or an operator changed the document (paused the lane), or another run did (set
		// the mark of a pipeline that drains). Go on from there.
		l.stored(*doc, found.Revision, l.lastTrust())
		return false, transient(err)
	case found.Revision == l.at && l.at != "":
		return false, transient(err) // the first write of a lease on a document that is as we read it
	}
	if found.Doc.Draining.By != "" {
		return false, fault.Conflictf("the pipeline began to drain for layout %d while the lease of lane %d was taken: run %s changes its lanes",
			found.Doc.Draining.Layout, l.doc.Lane, found.Doc.Draining.By)
	}
	if found.Doc.Lease.Holder == "" {
		return false, fault.Conflictf("lane %d was changed by %s while its lease was taken", l.doc.Lane, found.Doc.UpdatedBy)
	}
	return false, fault.Conflictf("lane %d was taken over by run %s (lease epoch %d, ours was %d)",
		l.doc.Lane, found.Doc.Lease.Holder, found.Doc.Lease.Epoch, next.Lease.Epoch)
}

// sameLease tells whether a stored document is the one of this write. Holder and epoch are those of every write of the
// run, also of one that was given up before its answer came and was stored all the same; the end of the lease is not.
func sameLease(a, b record.Lease) bool {
	return a.Holder == b.Holder && a.Epoch == b.Epoch && a.ExpiresAt.Equal(b.ExpiresAt)
}

// transient keeps why a write is to be sent again, without a kind that would forbid it: a document that was refused
// because an operator had changed it is stored at the next try.
func transient(err error) error {
	if fault.KindOf(err) == fault.Transient {
		return err
	}
	return fault.Transientf("%w", err)
}

// lastTrust keeps the trust in the lease as it is: somebody else's write did not renew it.
func (l *Lane) lastTrust() time.Time { return l.Trusted().Add(-l.terms.Length) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
