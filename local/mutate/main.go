// Command mutate puts deliberate bugs into copies of the source, one at a time, and runs the tests that must catch
// them. The checkout is not changed: the compiler is given an overlay. It fails if a bug is not caught, or if the text
// that it replaces is no longer there.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutation is one bug: in a file, a text that is there exactly once becomes another.
type mutation struct {
	bug      string
	file     string
	old, new string
	tests    string // package
	run      string // pattern of the tests that must catch it
}

const (
	story  = "./shared/pull"
	faults = "TestRun_EveryFault"
)

// mutations are the bugs. Each breaks one promise of docs/architecture.md.
func mutations() []mutation {
	return []mutation{
		{
			bug: "checkpoint moved before the write", file: "shared/pull/write.go", tests: story, run: faults,
			old: "	result, err := m.writeDocuments(ctx, c)\n",
			new: "	m.progress.acknowledge(c.marks, record.WriteResult{}, nil)\n	result, err := m.writeDocuments(ctx, c)\n",
		},
		{
			bug: "dead letter stored after the checkpoint", file: "shared/pull/write.go", tests: story, run: faults,
			old: "	if len(letters) > 0 {\n",
			new: "	m.progress.acknowledge(c.marks, result, letters)\n	if len(letters) > 0 {\n",
		},
		{
			bug: "dead letters of the sink forgotten", file: "shared/pull/write.go", tests: story, run: faults,
			old: "letters := append(c.letters, result.Rejected...)", new: "letters := c.letters",
		},
		{
			bug: "any acknowledged stretch counts, not the contiguous prefix", file: "shared/pull/progress.go", tests: story, run: faults,
			old: "		m.pieces--\n",
			new: "		m.pieces--\n		p.lines[m.partition].done = max(p.lines[m.partition].done, m.next)\n",
		},
		{
			bug: "a stretch counts as soon as one of its chunks is acknowledged", file: "shared/pull/progress.go", tests: story, run: "Random|OneOrder",
			old: "		m.pieces--\n", new: "		m.pieces = 0\n",
		},
		{
			bug: "writes of one order go to whatever writer", file: "shared/pull/dispatch.go", tests: story, run: "OneOrder|FirstOfAnOwnID",
			old: "	return &d.owned[order%uint64(len(d.owned))]\n", new: "	_ = order\n	return &d.common\n",
		},
		{
			bug: "a commit whose answer was lost is taken for stored", file: "shared/lease/write.go", tests: "./shared/lease", run: ".",
			old: "	// Conflict: somebody wrote. Transient: nobody knows whether we did. One more read tells both.\n",
			new: "	if fault.KindOf(err) == fault.Transient {\n		l.stored(next, l.at, sent)\n		return true, nil\n	}\n",
		},
		{
			bug: "an earlier commit of the run is taken for this one", file: "shared/lease/write.go", tests: "./shared/lease", run: ".",
			old: " && a.ExpiresAt.Equal(b.ExpiresAt)", new: "",
		},
		{
			bug: "progress that was not stored is reported as done", file: "shared/pull/runner.go", tests: story, run: "EndNotStored",
			old: "		progress.discard()\n		run.moved(progress)\n", new: "",
		},
		{
			bug: "a lease that someone alive holds is taken", file: "shared/lease/lane.go", tests: "./shared/lease", run: ".",
			old: "now.Before(doc.Lease.ExpiresAt)", new: "now.After(doc.Lease.ExpiresAt.Add(time.Hour))",
		},
	}
}

func main() {
	missed := 0
	for _, m := range mutations() {
		began := time.Now()
		caught, detail, err := m.try()
		switch {
		case err != nil:
			fmt.Printf("%-62s error: %v\n", m.bug, err)
			missed++
		case !caught:
			fmt.Printf("%-62s NOT CAUGHT\n", m.bug)
			missed++
		default:
			fmt.Printf("%-62s caught in %s: %s\n", m.bug, time.Since(began).Round(time.Second/10), detail)
		}
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// try runs the tests on the mutated source.
func (m mutation) try() (caught bool, detail string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return false, "", fmt.Errorf("reading the source: %w", err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return false, "", fmt.Errorf("%s has the text to replace %d times, not once", m.file, n)
	}
	dir, err := os.MkdirTemp("", "tidemark-mutate-")
	if err != nil {
		return false, "", fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	overlay, err := m.overlay(dir, strings.Replace(string(source), m.old, m.new, 1))
	if err != nil {
		return false, "", err
	}
	if out, err := exec.Command("go", "vet", "-overlay", overlay, m.tests).CombinedOutput(); err != nil { //nolint:gosec,noctx // our own table
		return false, "", fmt.Errorf("the mutated source does not compile: %s", out)
	}
	out, err := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-timeout=90s", "-run", m.run, m.tests).CombinedOutput() //nolint:gosec,noctx // as above
	// A test that no longer ends has caught the bug as well.
	return err != nil && (bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("panic: test timed out"))), firstComplaint(out), nil
}

// overlay writes the mutated file and the compiler's list of replacements.
func (m mutation) overlay(dir, mutated string) (string, error) {
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", m.file, err)
	}
	replaced := filepath.Join(dir, filepath.Base(m.file))
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: replaced}})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	for name, content := range map[string][]byte{replaced: []byte(mutated), overlay: list} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return "", fmt.Errorf("writing the overlay: %w", err)
		}
	}
	return overlay, nil
}

// firstComplaint returns the first line in which a test says what is wrong.
func firstComplaint(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") && !strings.Contains(line, " cases ") && !strings.Contains(line, " effects of ") {
			return strings.TrimSpace(line)
		}
	}
	return "the test failed"
}
