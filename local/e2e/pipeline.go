package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/scheduler"
	"github.com/tidemark/tidemark/local/serve"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// leaseLength leaves time to an emulator on a busy machine. shortLease is for runs that are killed: the next one waits
	// for its end.
	leaseLength = 30 * time.Second
	shortLease  = 4 * time.Second
	// maxFailures is how many runs may end with a passing fault: on a busy machine a part may not answer in time.
	maxFailures = 5
)

// pipeline is a configuration. Its name is that of its topic and its collection too.
type pipeline struct {
	name string
	// source, record, sink, limits and kafka are added to the sections of those names, each with a leading comma.
	source, record, sink, limits string
	kafka                        string // "" for the listener without sign-in
	files                        string // folder of a file store, "" for Firestore
	lease                        time.Duration
}

// config is the pipeline as config.example.yaml has it.
func (s *stage) config(p pipeline) string {
	lease := cmp.Or(p.lease, leaseLength)
	store := fmt.Sprintf("{store: firestore, project: %s, lease: %s}", project, lease)
	if p.files != "" {
		store = fmt.Sprintf("{store: file, path: %s, lease: %s}", p.files, lease)
	}
	kafka := cmp.Or(p.kafka, fmt.Sprintf("{bootstrapServers: [%q], fetchWait: 100ms}", s.kafka.Host))
	return fmt.Sprintf(`pipeline: %[1]s
kafka: %[2]s
source: {subscribe: [%[1]s], startingOffsets: earliest%[3]s}
record: {keyFormat: string%[4]s}
sink: {uri: %[5]q, database: %[6]s, collection: %[1]s%[7]s}
deadLetters: {collection: %[1]s_dead}
checkpoint: %[8]s
run: {deadline: 1m, limits: {memory: 128MiB%[9]s}}
`, p.name, kafka, p.source, p.record, s.mongod.URI, databaseName, p.sink, store, p.limits)
}

// function starts a function process for the pipeline.
func (s *stage) function(ctx context.Context, p pipeline) (*realpart.Process, error) {
	return serve.Child(ctx, s.log, "TIDEMARK_CONFIG_INLINE="+s.config(p))
}

// answer is what the function answered.
type answer struct {
	record.Report

	status int
	took   time.Duration
}

// call calls a function process as Cloud Scheduler does.
func call(ctx context.Context, process *realpart.Process) (answer, error) {
	job := scheduler.Job{Name: "e2e", URL: "http://" + process.Host + "/Ingest", AttemptDeadline: 2 * time.Minute}
	attempt := (&scheduler.Scheduler{Client: http.DefaultClient}).Execute(ctx, job)
	a := answer{status: attempt.Status, took: attempt.Duration}
	if attempt.Err != nil {
		return a, fmt.Errorf("calling the function: %w", attempt.Err)
	}
	if err := json.Unmarshal(attempt.Body, &a.Report); err != nil {
		return a, fmt.Errorf("reading the answer (%d): %w", attempt.Status, err)
	}
	return a, nil
}

// totals are sums over the runs of a pipeline.
type totals struct {
	runs                                               int
	read, written, duplicates, deadLettered, undecided int64
	first                                              answer // that held the lease
	peak                                               int64  // bytes resident at most
}

// untilQuiet calls the process until it is idle. A run that is skipped or fails for a while is made again, as by a schedule.
func (s *stage) untilQuiet(ctx context.Context, process *realpart.Process) (t totals, err error) {
	failures := 0
	for {
		a, err := call(ctx, process)
		if err != nil {
			return t, err
		}
		switch {
		case a.Outcome == record.Skipped:
			if err := wait(ctx, shortLease/4); err != nil {
				return t, err
			}
			continue
		case a.status == http.StatusServiceUnavailable && failures < maxFailures:
			failures++
			s.say("a passing fault: %s", a.Error)
		case a.status != http.StatusOK:
			return t, fmt.Errorf("a run ended with %d: %s", a.status, a.Error)
		}
		if t.runs++; t.runs == 1 {
			t.first = a
		}
		t.read += a.Read
		t.written += a.Written
		t.duplicates += a.Duplicates
		t.deadLettered += a.DeadLettered
		t.undecided = a.Undecided
		if a.Outcome == record.Idle {
			t.peak = peakOf(process.PID())
			return t, nil
		}
	}
}

// move runs a pipeline in a new process until it is idle.
func (s *stage) move(ctx context.Context, p pipeline) (totals, error) {
	process, err := s.function(ctx, p)
	if err != nil {
		return totals{}, err
	}
	defer process.Kill()
	return s.untilQuiet(ctx, process)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
