package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/scheduler"
	"github.com/tidemark/tidemark/local/serve"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// runDeadline is long enough that the number of runs is the function's choice.
	runDeadline     = 10 * time.Minute
	attemptDeadline = runDeadline + time.Minute
)

// measureFunction moves everything through a function process that is new, under a checkpoint that is new.
func (s *stage) measureFunction(ctx context.Context, pair int) (result, error) {
	if err := s.empty(ctx); err != nil {
		return result{}, err
	}
	pipeline := fmt.Sprintf("bench-%d", pair)
	profile := profiler{socket: filepath.Join(s.dir, pipeline+".sock"), file: s.options.cpuProfile}
	process, err := s.startFunction(ctx, pipeline, "", profile.env()...)
	if err != nil {
		return result{}, err
	}
	defer process.Kill()
	if err := profile.start(ctx); err != nil {
		return result{}, err
	}
	runs := 0
	r, err := s.measure(ctx, "function", process, func(ctx context.Context) (err error) {
		runs, err = callUntilDone(ctx, process, pipeline)
		return err
	})
	if err != nil {
		return result{}, err
	}
	r.writers, r.runs = defaultWriters, runs
	if err := profile.stop(ctx); err != nil {
		return result{}, err
	}
	return r, s.verify(ctx, "function")
}

// startFunction starts a function process for a pipeline.
func (s *stage) startFunction(ctx context.Context, pipeline, limits string, env ...string) (*realpart.Process, error) {
	env = append(env, "TIDEMARK_CONFIG_INLINE="+s.config(pipeline, limits))
	if s.firestore != nil {
		env = append(env, "FIRESTORE_EMULATOR_HOST="+s.firestore.Host)
	}
	return serve.Child(ctx, s.log, env...)
}

// callUntilDone calls the function until nothing is left, and returns how many runs that took.
func callUntilDone(ctx context.Context, process *realpart.Process, pipeline string) (runs int, err error) {
	for {
		runs++
		report, err := call(ctx, process, pipeline)
		switch {
		case err != nil:
			return runs, err
		case report.Outcome == record.Done:
			return runs, nil
		case report.Outcome != record.Partial || report.Error != "":
			return runs, fmt.Errorf("run %d ended as %s: %s", runs, report.Outcome, report.Error)
		}
	}
}

// call calls the function once, as Cloud Scheduler would.
func call(ctx context.Context, process *realpart.Process, pipeline string) (record.Report, error) {
	job := scheduler.Job{Name: pipeline, URL: "http://" + process.Host + "/Ingest", AttemptDeadline: attemptDeadline}
	attempt := (&scheduler.Scheduler{Client: http.DefaultClient}).Execute(ctx, job)
	var report record.Report
	if attempt.Err != nil {
		return report, fmt.Errorf("calling the function: %w", attempt.Err)
	}
	if err := json.Unmarshal(attempt.Body, &report); err != nil {
		return report, fmt.Errorf("reading the answer (%d): %w", attempt.Status, err)
	}
	return report, nil
}

// config is the pipeline. What it does not say is left at its default, which is what the benchmark is of.
func (s *stage) config(pipeline, limits string) string {
	store := "{store: file, path: " + filepath.Join(s.dir, "checkpoint") + "}"
	if s.firestore != nil {
		// An emulator that was running already keeps what it has, so the collection is new.
		store = "{store: firestore, project: " + project + ", collection: " + filepath.Base(s.dir) + "}"
	}
	return fmt.Sprintf(`pipeline: %s
kafka: {bootstrapServers: [%s]}
source: {subscribe: [%s], startingOffsets: earliest}
record: {format: json, dates: [createdAt]}
sink: {uri: "%s", database: %s, collection: %s}
deadLetters: {collection: %s_dead}
checkpoint: %s
run: {deadline: %s, %s}
`, pipeline, strings.Join(s.kafka.servers, ", "), s.topic.Name, s.mongod.URI, databaseName, collection, collection, store, runDeadline, limits)
}
