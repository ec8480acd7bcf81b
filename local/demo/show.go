package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemark/tidemark/local/terminal"
)

// showCalls prints a line for each call: where it began and ended, over all partitions, and what it did.
func showCalls(out io.Writer, calls []called) {
	fmt.Fprintln(out, "\nruns (offsets summed over the partitions)")
	table := tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "run\toutcome\tfrom\tto\twritten\tduplicates\tdead letters\tleft\tduration\t")
	skipped := 0
	flush := func() {
		if skipped > 0 {
			fmt.Fprintf(table, "%d x\tskipped\t\t\t\t\t\t\tthe dead run's lease\t\n", skipped)
		}
		skipped = 0
	}
	for i, call := range calls {
		r := call.report
		if r.Outcome == "skipped" {
			skipped++
			continue
		}
		flush()
		if call.killed {
			fmt.Fprintf(table, "%d\tKILLED\t?\t?\t?\t?\t?\t?\t%s\t\n", i+1, call.took.Round(time.Millisecond))
			continue
		}
		var from, to int64
		for _, rng := range r.Ranges {
			from, to = from+rng.From, to+rng.DoneTo
		}
		left := "?"
		if r.Remaining != nil {
			left = terminal.Thousands(int(*r.Remaining))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t\n", i+1, r.Outcome, terminal.Thousands(int(from)), terminal.Thousands(int(to)),
			terminal.Thousands(int(r.Written)), terminal.Thousands(int(r.Duplicates)), r.DeadLettered, left, call.took.Round(time.Millisecond))
	}
	flush()
	_ = table.Flush() // the terminal's errors are nobody's
}

// showProof prints the proof and says whether it holds.
func showProof(out io.Writer, verdicts []verdict) bool {
	fmt.Fprintln(out, "\nproof: each record's fingerprint of (offset, document) against what was produced")
	table := tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "partition\tin Kafka\tdocuments\tdead letters\tmissing\tdoubled\tdifferent\t")
	sum := verdict{}
	for partition, v := range verdicts {
		fmt.Fprintf(table, "%s/%d\t%s\t%s\t%d\t%d\t%d\t%d\t\n", topic, partition, terminal.Thousands(v.records), terminal.Thousands(v.documents),
			v.letters, v.missing, v.doubled, v.different)
		sum.missing, sum.doubled, sum.different = sum.missing+v.missing, sum.doubled+v.doubled, sum.different+v.different
	}
	_ = table.Flush() // as above
	fmt.Fprintf(out, "missing %d, doubled %d, different %d\n", sum.missing, sum.doubled, sum.different)
	return sum.good()
}

// showWays says how to look for oneself.
func (s *stage) showWays(out io.Writer, stay bool) {
	if !stay {
		fmt.Fprintln(out, "\nto look for yourself: make demo SERVE=1 leaves everything running and says where")
		return
	}
	fmt.Fprintf(out, "\nlook for yourself (Ctrl-C ends everything):\n  documents    mongosh '%s' --eval 'db.getSiblingDB(\"%s\").%s.findOne()'\n"+
		"  dead letters mongosh '%s' --eval 'db.getSiblingDB(\"%s\").%s.find({}, {value: 0})'\n",
		s.mongod.URI, s.name(), collection, s.mongod.URI, s.name(), deadLetters)
	if s.firestore != nil {
		fmt.Fprintf(out, "  checkpoint   curl -H 'Authorization: Bearer owner' 'http://%s/v1/projects/%s/databases/(default)/documents/%s/%s/lanes/0'\n",
			s.firestore.Host, project, s.name(), pipelineName)
	} else {
		fmt.Fprintf(out, "  checkpoint   cat %s/%s/lanes/0.json\n", s.checkpointDir(), pipelineName)
	}
	fmt.Fprintf(out, "  Kafka        %s, topic %s\n  one more run curl -X POST http://%s/Ingest\n  its log      %s\n",
		strings.Join(s.kafka.ListenAddrs(), ","), topic, s.function.Host, s.log.Name())
}
