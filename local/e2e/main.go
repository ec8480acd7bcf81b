// Command e2e shows the main job on real parts: Apache Kafka, MongoDB, Google's Firestore emulator and the function as a
// process of its own, which is killed, thrown away and refused. All traffic stays on loopback. What each part shows is in
// docs/testing.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tidemark/tidemark/local/serve"
)

// part is one thing that is shown. It returns a line with figures, or what is wrong.
type part struct {
	name, shows string
	run         func(context.Context, *stage) (string, error)
}

func parts() []part {
	return []part{
		{"data", "real data, document by document, byte by byte", showData},
		{"kill", "a kill after each phase of a run", showKills},
		{"keyed", "upsert, update and deletes by key, killed in the middle", showKeyed},
		{"transactions", "committed, aborted and hanging transactions", showTransactions},
		{"compacted", "a log whose tail is compacted away", showCompacted},
		{"zstd", "a hundredfold compressed topic within limits.memory", showZstd},
		{"nextday", "everything but the checkpoint thrown away", showNextDay},
		{"signin", "each sign-in, right and wrong", showSignIns},
	}
}

func main() {
	serve.AsChild()
	only := flag.String("part", "", "run this part alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *only); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// outcome is how a part went.
type outcome struct {
	part

	figures string
	err     error
	took    time.Duration
}

func run(ctx context.Context, out io.Writer, only string) error {
	began := time.Now()
	fmt.Fprintln(out, "starting Apache Kafka, MongoDB and the Firestore emulator ...")
	s, err := newStage(ctx, out)
	if err != nil {
		return err
	}
	defer s.close()
	var outcomes []outcome
	for _, p := range parts() {
		if only != "" && only != p.name {
			continue
		}
		fmt.Fprintf(out, "\n== %s: %s\n", p.name, p.shows)
		partBegan := time.Now()
		figures, err := p.run(ctx, s)
		outcomes = append(outcomes, outcome{p, figures, err, time.Since(partBegan)})
		if err != nil {
			fmt.Fprintf(out, "   FAILED: %v\n", err)
		} else {
			fmt.Fprintf(out, "   %s\n", figures)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return summarise(out, outcomes, only, time.Since(began))
}

func summarise(out io.Writer, outcomes []outcome, only string, took time.Duration) error {
	if len(outcomes) == 0 {
		return fmt.Errorf("there is no part %q: use one of %s", only, strings.Join(names(), ", "))
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	failed := 0
	for _, o := range outcomes {
		result := "ok"
		if o.err != nil {
			result = "FAILED"
			failed++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", o.name, result, o.took.Round(time.Second), o.shows, o.figures)
	}
	_ = table.Flush() // the terminal's errors are nobody's
	fmt.Fprintf(out, "%d parts in %s\n", len(outcomes), took.Round(time.Second))
	if failed > 0 {
		return fmt.Errorf("%d of %d parts failed", failed, len(outcomes))
	}
	return nil
}

func names() []string {
	var all []string
	for _, p := range parts() {
		all = append(all, p.name)
	}
	return all
}
