package ingest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// service makes the pipeline at the first call. Calls that come meanwhile share the build, and its failure. A failure
// is not kept: the next call tries again.
type service struct {
	build func(context.Context) (*pipeline, error)

	mu     sync.Mutex
	latest *making // under way or good, nil before the first and after a failure
}

// pipeline is what calls of one instance share.
type pipeline struct {
	runner   *pull.Runner
	deadline time.Duration
}

// making is one build. Read its outcome after done is closed.
type making struct {
	done     chan struct{}
	pipeline *pipeline
	err      error
}

// run runs a lane. A caller that goes away while the pipeline is built ends the call, since nothing runs yet. A run
// goes on to its own end: the caller may give up before, as Cloud Scheduler's attempt deadline does, and what was moved
// must be committed.
func (s *service) run(ctx context.Context, called call, stop <-chan struct{}) (record.Report, error) {
	began := time.Now()
	p, err := s.get(ctx, stop)
	if err != nil {
		return failed(err), err
	}
	if called.Lane < 0 || called.Lane >= p.runner.Lanes {
		return record.Report{}, &badCall{http.StatusBadRequest, fmt.Sprintf("lane %d does not exist: pipeline %s has lanes 0 to %d",
			called.Lane, p.runner.Pipeline, p.runner.Lanes-1)}
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), began.Add(p.deadline))
	defer cancel()
	return p.runner.Run(ctx, called.Lane, stop)
}

// get returns the pipeline. It waits for the build under way, but not beyond the end of ctx or a stop of the instance.
func (s *service) get(ctx context.Context, stop <-chan struct{}) (*pipeline, error) {
	m := s.make(ctx)
	select {
	case <-m.done: // goes before the others: what is built needs no waiting
		return m.pipeline, m.err
	default:
	}
	select {
	case <-m.done:
		return m.pipeline, m.err
	case <-stop:
		return nil, fault.Transientf("this instance is stopping and its pipeline is not built yet: nothing ran, call again")
	case <-ctx.Done():
		return nil, fault.Transientf("waiting for the pipeline to be built: %w", context.Cause(ctx))
	}
}

// make returns the build that is under way or good, and begins one where there is none. It is for all calls, so that
// the end of the one that began it does not end it.
func (s *service) make(ctx context.Context) *making {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil {
		return s.latest
	}
	m := &making{done: make(chan struct{})}
	s.latest = m
	go func() {
		m.pipeline, m.err = s.build(context.WithoutCancel(ctx))
		if m.err != nil {
			s.mu.Lock()
			s.latest = nil
			s.mu.Unlock()
		}
		close(m.done)
	}()
	return m
}
