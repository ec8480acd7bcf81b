// Command bench measures the function beside its ceiling, in one run on this machine: records of nested JSON go from an
// embedded Kafka into a real MongoDB through the real function process, and the same documents, encoded beforehand, go
// into the same MongoDB by hand-built insert commands from a process that does nothing else.
//
// What is measured and how to read it is in docs/benchmarks.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/local/serve"
	"github.com/tidemark/tidemark/local/terminal"
)

// options are what a person may choose.
type options struct {
	records, pairs int
	fewerWriters   bool
	cpuProfile     string
}

func main() {
	serveProfile()
	serve.AsChild()
	ceilingAsChild()
	o := options{}
	flag.IntVar(&o.records, "n", 1_000_000, "how many records to move")
	flag.IntVar(&o.pairs, "pairs", 1, "how many pairs of function and ceiling to measure, in turns")
	flag.BoolVar(&o.fewerWriters, "all", false, "measure the ceiling with 1 and 2 writers too")
	flag.StringVar(&o.cpuProfile, "cpuprofile", "", "write where the function process spends its time to this file, for go tool pprof (of the last pair)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// minRecords take a ceiling as long as several looks, so that its rate is one.
const minRecords = 20_000

// run is the benchmark from top to bottom.
func run(ctx context.Context, out io.Writer, o options) error {
	if o.records < minRecords || o.pairs < 1 {
		return fmt.Errorf("%d records in %d pairs: give at least %d in 1", o.records, o.pairs, minRecords)
	}
	began := time.Now()
	s, err := newStage(ctx, out, o)
	if err != nil {
		return err
	}
	defer s.close()
	s.showMachine(ctx)

	results, err := s.measureAll(ctx)
	if err != nil {
		return err
	}
	s.showResults(results)
	fmt.Fprintf(out, "\neach phase left the same %s documents, byte for byte (count and dbHash); %s in all\n",
		terminal.Thousands(o.records), time.Since(began).Round(time.Second))
	return nil
}

// measureAll measures the pairs, every second one the other way round: a phase may profit or suffer from the one before.
func (s *stage) measureAll(ctx context.Context) ([]result, error) {
	var results []result
	for pair := 1; pair <= s.options.pairs; pair++ {
		phases := []func(context.Context) (result, error){
			func(ctx context.Context) (result, error) { return s.measureFunction(ctx, pair) },
			func(ctx context.Context) (result, error) { return s.measureCeiling(ctx, defaultWriters) },
		}
		if pair%2 == 0 {
			phases[0], phases[1] = phases[1], phases[0]
		}
		for _, phase := range phases {
			r, err := phase(ctx)
			if err != nil {
				return nil, err
			}
			r.pair = pair
			results = append(results, r)
		}
	}
	if !s.options.fewerWriters {
		return results, nil
	}
	for _, writers := range []int{2, 1} {
		r, err := s.measureCeiling(ctx, writers)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}
