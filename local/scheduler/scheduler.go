package scheduler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// Job is one scheduled call. The words are Cloud Scheduler's.
type Job struct {
	Name string
	// URL is called with POST and the body.
	URL  string
	Body string
	// Schedule is a cron line of five fields.
	Schedule string
	// AttemptDeadline is how long an answer is waited for. The function is not stopped by it.
	AttemptDeadline time.Duration
	// RetryCount is how often a failed attempt is made again before the next execution, after MinBackoff that doubles.
	RetryCount int
	MinBackoff time.Duration
	// Twice makes each attempt two calls at once: the service promises at least one, not exactly one.
	Twice bool
}

// Attempt is what became of one call.
type Attempt struct {
	Job      string
	Status   int // 0 where there was no answer
	Body     []byte
	Err      error
	Began    time.Time
	Duration time.Duration
}

// OK says whether the attempt counts as a success: an answer of 2xx.
func (a Attempt) OK() bool { return a.Err == nil && a.Status/100 == 2 }

// Scheduler runs jobs. Observe is called after each attempt, by several goroutines if there are several jobs.
type Scheduler struct {
	Client  *http.Client
	Observe func(Attempt)
}

// Run executes a job by its schedule until ctx ends. Two executions never overlap: one that is due while the last is
// still going on waits for it, and several of them become one.
func (s *Scheduler) Run(ctx context.Context, job Job) error {
	schedule, err := cron.ParseStandard(job.Schedule)
	if err != nil {
		return fmt.Errorf("reading the schedule of %s: %w", job.Name, err)
	}
	for due := schedule.Next(time.Now()); !due.IsZero(); due = missed(schedule, due, time.Now()) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(due)):
		}
		s.Execute(ctx, job)
	}
	return fmt.Errorf("the schedule %q of %s is never due", job.Schedule, job.Name)
}

// missed returns the last time after the given one at which the job has been due by now, else the next to come.
func missed(schedule cron.Schedule, after, now time.Time) time.Time {
	due := schedule.Next(after)
	for later := schedule.Next(due); !later.IsZero() && !later.After(now); later = schedule.Next(due) {
		due = later
	}
	return due
}

// Execute makes the attempts of one execution: until one succeeds or the retries are used up. The last is returned.
func (s *Scheduler) Execute(ctx context.Context, job Job) Attempt {
	backoff := job.MinBackoff
	for try := 0; ; try++ {
		attempt := s.attempt(ctx, job)
		if attempt.OK() || try == job.RetryCount || ctx.Err() != nil {
			return attempt
		}
		select {
		case <-ctx.Done():
			return attempt
		case <-time.After(backoff):
		}
		backoff *= 2
	}
}

// attempt makes one call, or two at once, of which a success counts.
func (s *Scheduler) attempt(ctx context.Context, job Job) Attempt {
	if !job.Twice {
		return s.call(ctx, job)
	}
	var both [2]Attempt
	var calls sync.WaitGroup
	for i := range both {
		calls.Go(func() { both[i] = s.call(ctx, job) })
	}
	calls.Wait()
	if both[1].OK() {
		return both[1]
	}
	return both[0]
}

func (s *Scheduler) call(ctx context.Context, job Job) Attempt {
	attempt := Attempt{Job: job.Name, Began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, job.AttemptDeadline)
	defer cancel()
	attempt.Status, attempt.Body, attempt.Err = s.post(ctx, job)
	attempt.Duration = time.Since(attempt.Began)
	if s.Observe != nil {
		s.Observe(attempt)
	}
	return attempt
}

func (s *Scheduler) post(ctx context.Context, job Job) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.URL, bytes.NewReader([]byte(job.Body)))
	if err != nil {
		return 0, nil, fmt.Errorf("making a call of %s: %w", job.Name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Google-Cloud-Scheduler")
	req.Header.Set("X-CloudScheduler", "true")
	req.Header.Set("X-CloudScheduler-JobName", job.Name)
	resp, err := s.Client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("calling %s: %w", job.Name, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("reading the answer of %s: %w", job.Name, err)
	}
	return resp.StatusCode, body, nil
}
