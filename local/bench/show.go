package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/local/terminal"
)

// showMachine says what the figures were measured on.
func (s *stage) showMachine(ctx context.Context) {
	var build struct {
		Version string `bson:"version"`
	}
	if err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		build.Version = "of a version not known"
	}
	store := "files"
	if s.firestore != nil {
		store = "the Firestore emulator"
	}
	fmt.Fprintf(s.out, "%s records of %.0f bytes of JSON in %d partitions of %s; MongoDB %s; checkpoint in %s\n%s, %d CPUs (%s/%s) shared by everything, %s\n",
		terminal.Thousands(s.options.records), s.valueSize, partitions, s.kafka.name, build.Version, store,
		time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// showResults prints a line for each phase, and what the pairs say.
func (s *stage) showResults(results []result) {
	fmt.Fprintln(s.out)
	table := tabwriter.NewWriter(s.out, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "pair\t\twriters\truns\tdocs/command\tsteady/s\twhole/s\tfirst after\twhole\tCPU us/record\tpeak MiB\tmongod us/record\tKafka us/record\t")
	for _, r := range results {
		peak := ""
		if r.runs > 0 { // the ceiling holds every document from the beginning
			peak = mebibytes(r.worker)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", orNone(r.pair), r.what, r.writers, orNone(r.runs),
			orNone(r.records/max(1, int(r.commands))), terminal.Thousands(int(r.steady)), terminal.Thousands(int(float64(r.records)/r.whole.Seconds())),
			r.first.Round(10*time.Millisecond), r.whole.Round(10*time.Millisecond),
			perRecord(r.worker, r.records), peak, perRecord(r.mongod, r.records), perRecord(r.kafka, r.records))
	}
	_ = table.Flush() // the terminal's errors are nobody's
	steady, cpu := ratios(results)
	fmt.Fprintf(s.out, "\nfunction / ceiling with %d writers, median of %d (min..max): steady records/s %s", defaultWriters, len(steady), spread(steady))
	if len(cpu) > 0 {
		fmt.Fprintf(s.out, ", CPU %s", spread(cpu))
	}
	fmt.Fprintln(s.out)
}

// ratios compares function and ceiling within each pair: what slows the machine down for a while slows both. cpu is
// empty where it is not known.
func ratios(results []result) (steady, cpu []float64) {
	functions, ceilings := map[int]result{}, map[int]result{}
	for _, r := range results {
		if r.what == "function" {
			functions[r.pair] = r
		} else if r.pair > 0 {
			ceilings[r.pair] = r
		}
	}
	for pair, f := range functions {
		c := ceilings[pair]
		steady = append(steady, f.steady/c.steady)
		if f.worker.known && c.worker.known && c.worker.cpu > 0 {
			cpu = append(cpu, float64(f.worker.cpu)/float64(c.worker.cpu))
		}
	}
	return steady, cpu
}

// spread is the median, and the least and the most.
func spread(values []float64) string {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	return fmt.Sprintf("%.2f (%.2f..%.2f)", median, sorted[0], sorted[n-1])
}

func perRecord(u usage, records int) string {
	if !u.known {
		return "not known here"
	}
	return fmt.Sprintf("%.1f", float64(u.cpu.Nanoseconds())/1000/float64(records))
}

func mebibytes(u usage) string {
	if !u.known {
		return "not known here"
	}
	return strconv.FormatInt(u.peak>>20, 10)
}

func orNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
