package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark/tidemark/local/scheduler"
	"github.com/tidemark/tidemark/shared/record"
)

// called is one call of the function and what came of it.
type called struct {
	report record.Report
	killed bool
	status int
	took   time.Duration
}

// killAt is the run that is killed.
const killAt = 3

// maxFailures is how many runs may end with a passing fault: on a busy machine a part may not answer in time.
const maxFailures = 5

// moveAll calls the function until it is idle. One of the runs is killed when it has moved about half of its window;
// the runs after it are skipped until the dead one's lease has run out.
func (s *stage) moveAll(ctx context.Context) ([]called, error) {
	watch := newWatch(s)
	defer watch.stop()
	var calls []called
	runs, failures, killed := 0, 0, false
	for {
		runs++
		kill := runs >= killAt && !killed
		result, err := s.call(ctx, watch, kill)
		if err != nil {
			return calls, err
		}
		calls = append(calls, result)
		killed = killed || result.killed
		switch {
		case result.killed:
			if err := s.startFunction(ctx); err != nil {
				return calls, err
			}
		case result.report.Outcome == record.Skipped:
			select {
			case <-time.After(leaseLength / 4):
			case <-ctx.Done():
				return calls, context.Cause(ctx)
			}
		case result.report.Outcome == record.Idle && killed:
			return calls, nil
		case result.report.Outcome == record.Idle:
			return calls, fmt.Errorf("all runs were over before one could be killed in the middle: give more records")
		case result.status == http.StatusServiceUnavailable && failures < maxFailures:
			failures++ // a passing fault: the schedule simply goes on
		case result.status != http.StatusOK:
			return calls, fmt.Errorf("a run ended with %d: %s", result.status, result.report.Error)
		}
	}
}

// call makes one call as Cloud Scheduler would. With kill the process is killed in the middle of it.
func (s *stage) call(ctx context.Context, watch *watch, kill bool) (called, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	killed := make(chan bool, 1)
	if kill {
		go func() {
			reached := watch.grown(ctx, s.perRun/2)
			if reached {
				s.function.Kill()
			}
			killed <- reached
		}()
	} else {
		killed <- false
	}
	job := scheduler.Job{Name: pipelineName, URL: "http://" + s.function.Host + "/Ingest", AttemptDeadline: time.Minute}
	attempt := (&scheduler.Scheduler{Client: http.DefaultClient}).Execute(ctx, job)
	cancel()
	result := called{status: attempt.Status, took: attempt.Duration}
	if attempt.Err != nil {
		if result.killed = <-killed; result.killed {
			return result, nil
		}
		return result, fmt.Errorf("calling the function: %w", attempt.Err)
	}
	if err := json.Unmarshal(attempt.Body, &result.report); err != nil {
		return result, fmt.Errorf("reading the answer (%d): %w", attempt.Status, err)
	}
	return result, nil
}
