// Command emulator runs the functions of Tidemark on this machine, each at /<Name>, and calls Ingest by the pipeline's
// schedule, once for each lane, as Cloud Scheduler would.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/local/scheduler"
	"github.com/tidemark/tidemark/local/serve"
	"github.com/tidemark/tidemark/shared/config"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/secretmanager"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	config   string
	port     string
	schedule string
	attempt  time.Duration
	retries  int
	backoff  time.Duration
	twice    bool
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("emulator", flag.ContinueOnError)
	flags.StringVar(&o.config, "config", os.Getenv("TIDEMARK_CONFIG"), "pipeline `file`, as config.example.yaml")
	flags.StringVar(&o.port, "port", "8080", "`port` of 127.0.0.1 to serve at")
	flags.StringVar(&o.schedule, "schedule", "", "cron `line` that replaces run.schedule; \"none\" only serves")
	flags.DurationVar(&o.attempt, "attempt-deadline", 3*time.Minute, "how `long` an answer is waited for")
	flags.IntVar(&o.retries, "retries", 1, "how often a failed call is made again")
	flags.DurationVar(&o.backoff, "backoff", 30*time.Second, "the first pause before a call is made again")
	flags.BoolVar(&o.twice, "twice", false, "make each call two at once, as a scheduler that delivers at least once may")
	if err := flags.Parse(args); err != nil {
		return o, err //nolint:wrapcheck // the flag package has told it already
	}
	if o.config == "" {
		return o, errors.New("no pipeline: give -config FILE, or make emulator CONFIG=FILE (README.md shows a local one)")
	}
	return o, nil
}

func run(args []string) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Setenv("TIDEMARK_CONFIG", o.config); err != nil {
		return fmt.Errorf("setting TIDEMARK_CONFIG: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	secrets := secretmanager.New()
	cfg, err := config.Load(ctx, config.OS(secrets.Get))
	_ = secrets.Close() // it was only read from
	if err != nil {
		return fmt.Errorf("%s\n%w", o.config, err)
	}
	failed := make(chan error, 1)
	go func() { failed <- serve.Run("127.0.0.1", o.port) }()
	if err := o.ready(ctx, failed); err != nil {
		return err
	}
	fmt.Printf("serving http://127.0.0.1:%s/Ingest for pipeline %s; Ctrl-C ends\n", o.port, cfg.Pipeline)
	o.start(ctx, cfg)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		stop() // a second Ctrl-C ends at once
		return drain(failed)
	}
}

// ready waits until the functions answer. The first request also makes them listen for SIGTERM.
func (o options) ready(ctx context.Context, failed <-chan error) error {
	client := &http.Client{Timeout: time.Second} // who has the port already may not answer at all
	for {
		// A port that is taken shows at once, before somebody else's answer is taken for ours.
		select {
		case err := <-failed:
			return fmt.Errorf("%w: give another port: -port, or make emulator PORT=8081", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+o.port+"/Ingest", nil)
		if err != nil {
			return fmt.Errorf("asking the function: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			continue // not up yet
		}
		_ = resp.Body.Close() // it is refused, for it is no POST
		if resp.StatusCode == http.StatusMethodNotAllowed {
			return nil
		}
	}
}

// drain ends the functions as Cloud Run does: SIGTERM, upon which they finish what is under way and end the process.
func drain(failed <-chan error) error {
	fmt.Println("\nstopping: a run under way commits what it has moved (Ctrl-C again ends at once)")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		return fmt.Errorf("draining: %w", err)
	}
	return <-failed
}

// start runs one job for each lane.
func (o options) start(ctx context.Context, cfg config.Config) {
	schedule := o.schedule
	if schedule == "" {
		schedule = cfg.Run.Schedule
	}
	if schedule == "" || schedule == "none" {
		fmt.Printf("no schedule: call it yourself with curl -X POST http://127.0.0.1:%s/Ingest\n", o.port)
		return
	}
	calls := &scheduler.Scheduler{Client: http.DefaultClient, Observe: show}
	for lane := range cfg.Run.Lanes {
		job := scheduler.Job{
			Name: fmt.Sprintf("%s-%d", cfg.Pipeline, lane), URL: "http://127.0.0.1:" + o.port + "/Ingest",
			Body: fmt.Sprintf(`{"lane":%d}`, lane), Schedule: schedule, AttemptDeadline: o.attempt,
			RetryCount: o.retries, MinBackoff: o.backoff, Twice: o.twice,
		}
		go func() {
			if err := calls.Run(ctx, job); err != nil {
				fmt.Fprintln(os.Stderr, "emulator:", err)
			}
		}()
	}
}

// show prints one line for each attempt.
func show(attempt scheduler.Attempt) {
	report := record.Report{}
	if attempt.Err != nil {
		fmt.Printf("%s %s: no answer: %v\n", attempt.Began.Format(time.TimeOnly), attempt.Job, attempt.Err)
		return
	}
	if err := json.Unmarshal(attempt.Body, &report); err != nil {
		fmt.Printf("%s %s: %d\n", attempt.Began.Format(time.TimeOnly), attempt.Job, attempt.Status)
		return
	}
	remaining := "unknown"
	if report.Remaining != nil {
		remaining = fmt.Sprint(*report.Remaining)
	}
	fmt.Printf("%s %s: %d %s, read %d, written %d, duplicates %d, dead letters %d, remaining %s, %s %s\n",
		attempt.Began.Format(time.TimeOnly), attempt.Job, attempt.Status, report.Outcome, report.Read, report.Written,
		report.Duplicates, report.DeadLettered, remaining, attempt.Duration.Round(time.Millisecond), report.Error)
	for _, notice := range report.Notices {
		fmt.Println("         ", notice)
	}
}
