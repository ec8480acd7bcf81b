// Command testsum reads the output of `go test -json`, prints each package and whatever failed, and sums up: tests,
// failures, skips by name, and the cases that each caller of a conformance suite passed, so that a
// fake and the real thing can be seen to have passed the same ones. It exits with 1 if anything failed, and, where
// REQUIRE_REAL=1, if anything was skipped.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is one line of test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// summary is what is counted.
type summary struct {
	passed, failed, skipped int
	skips                   []string
	suites                  map[string]int // passed cases of each call of a conformance suite
	output                  map[string][]string
	broken                  bool
}

func main() {
	s := summary{suites: map[string]int{}, output: map[string][]string{}}
	if err := s.read(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	s.print(os.Stdout)
	if s.failed > 0 || s.broken || os.Getenv("REQUIRE_REAL") == "1" && s.skipped > 0 {
		os.Exit(1)
	}
}

func (s *summary) read(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the tests' output: %w", err)
		}
		e := event{}
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(out, "%s", line) // what is not JSON is for people
			continue
		}
		s.count(e, out)
	}
}

func (s *summary) count(e event, out io.Writer) {
	id := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(out, e.Output)
	case e.Action == "build-fail":
		s.broken = true
	case e.Action == "output":
		s.output[id] = append(s.output[id], e.Output)
	case e.Test == "":
		s.countPackage(e, out)
	case e.Action == "pass":
		s.passed++
		if suite, isCase := suiteOf(e.Test); isCase {
			s.suites[suite]++
		}
		delete(s.output, id)
	case e.Action == "skip":
		s.skipped++
		s.skips = append(s.skips, short(e.Package)+" "+e.Test+": "+reason(s.output[id]))
	case e.Action == "fail":
		s.failed++
		fmt.Fprintf(out, "FAIL %s %s\n%s", short(e.Package), e.Test, strings.Join(s.output[id], ""))
	}
}

func (s *summary) countPackage(e event, out io.Writer) {
	switch e.Action {
	case "pass":
		fmt.Fprintf(out, "ok   %-28s %6.1f s\n", short(e.Package), e.Elapsed)
	case "fail":
		s.broken = true
		fmt.Fprintf(out, "FAIL %-28s %6.1f s\n%s", short(e.Package), e.Elapsed, strings.Join(s.output[e.Package+" "], ""))
	}
}

// suiteOf takes TestConformance_SinkOnMongoDB/Write_Again apart: callers of a conformance suite are named so.
func suiteOf(test string) (suite string, isCase bool) {
	caller, name, isCase := strings.Cut(test, "/")
	suite, isCaller := strings.CutPrefix(caller, "TestConformance_")
	return suite, isCase && isCaller && !strings.Contains(name, "/")
}

func reason(output []string) string {
	for _, line := range output {
		if strings.Contains(line, ".go:") {
			return strings.TrimSpace(line)
		}
	}
	return "no reason given"
}

func short(pkg string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg, "github.com/tidemark/tidemark"), "/"), ".")
}

func (s *summary) print(out io.Writer) {
	for _, skip := range s.skips {
		fmt.Fprintln(out, "skip", skip)
	}
	for _, suite := range slices.Sorted(maps.Keys(s.suites)) {
		fmt.Fprintf(out, "conformance: %3d cases passed: %s\n", s.suites[suite], suite)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}
