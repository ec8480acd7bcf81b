// Command demo shows the main job on this machine: an embedded Kafka filled with orders, a real MongoDB, the Firestore
// emulator where it can be had, and the real function process, which is called as Cloud Scheduler would, killed in the
// middle of a run, and called again until everything is in. It ends with a proof, record by record.
package main

import (
	"context"
	"errors"
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

func main() {
	serve.AsChild()
	n := flag.Int("n", 300_000, "how many records to move")
	stay := flag.Bool("serve", false, "leave everything running at the end, until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *n, *stay); err != nil {
		if ctx.Err() != nil {
			fmt.Println("\nstopped; nothing is left running")
			os.Exit(130)
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// errNotProven ends the demo with an exit code that CI sees.
var errNotProven = errors.New("the proof failed: see the table above")

// run is the demo from top to bottom.
func run(ctx context.Context, out io.Writer, n int, stay bool) error {
	if n < 1000 {
		return fmt.Errorf("%d records are too few to be killed in the middle of: give at least 1000", n)
	}
	began := time.Now()
	stage, err := newStage(ctx, out, n)
	if err != nil {
		return err
	}
	defer stage.close()

	calls, err := stage.moveAll(ctx)
	if err != nil {
		return err
	}
	verdicts, err := prove(ctx, stage.database(), stage.made)
	if err != nil {
		return err
	}
	showCalls(out, calls)
	good := showProof(out, verdicts)
	stage.showWays(out, stay)
	fmt.Fprintf(out, "\nmoved %s records in %s, %s of it preparing\n", terminal.Thousands(n),
		time.Since(began).Round(time.Second/10), stage.prepared.Sub(began).Round(time.Second/10))
	if !good {
		return errNotProven
	}
	if stay {
		<-ctx.Done()
	}
	return nil
}
