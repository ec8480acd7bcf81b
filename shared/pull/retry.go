package pull

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark/tidemark/shared/fault"
)

// part is Kafka, MongoDB or the checkpoint store, and whether it has answered in this run.
type part struct {
	name     string
	answered atomic.Bool
}

// cutOffError is an operation that had not failed when its time was up.
type cutOffError struct{ error }

func (e *cutOffError) Unwrap() error { return e.error }

func isCutOff(err error) bool {
	_, cut := errors.AsType[*cutOffError](err)
	return cut
}

// retry tries an operation again while its error is Transient: within Patience where the part never answered in this
// run, so that a wrong address is reported soon, else for as long as ctx lasts. Its error is what the part last failed
// with: an attempt that was only cut off by the end of ctx says nothing of the part, and is a cutOffError where no other
// went before it.
func (r *Runner) retry(ctx context.Context, p *part, operation func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = 100 * time.Millisecond
	wait.MaxInterval = 5 * time.Second
	began := time.Now()
	var failed error
	for {
		err := operation(ctx)
		switch {
		case err == nil:
			p.answered.Store(true)
			return nil
		case fault.KindOf(err) != fault.Transient:
			return err
		case ctx.Err() != nil && failed == nil:
			return &cutOffError{err}
		case ctx.Err() != nil:
			return failed
		}
		failed = err
		pause := wait.NextBackOff()
		if !p.answered.Load() && time.Since(began)+pause > r.Patience {
			return failed
		}
		r.Logger.DebugContext(ctx, "trying again", "part", p.name, "pause", pause, "error", err)
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(pause):
		}
	}
}
