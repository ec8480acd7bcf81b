package pull

import (
	"context"
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

// retry tries an operation again while its error is Transient: within Patience where the part never answered in this
// run, so that a wrong address is reported soon, else for as long as ctx lasts. The last error is returned as it is.
func (r *Runner) retry(ctx context.Context, p *part, operation func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = 100 * time.Millisecond
	wait.MaxInterval = 5 * time.Second
	began := time.Now()
	for {
		err := operation(ctx)
		if err == nil {
			p.answered.Store(true)
			return nil
		}
		pause := wait.NextBackOff()
		if fault.KindOf(err) != fault.Transient || !p.answered.Load() && time.Since(began)+pause > r.Patience {
			return err
		}
		r.Logger.DebugContext(ctx, "trying again", "part", p.name, "pause", pause, "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
