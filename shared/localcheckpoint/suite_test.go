package localcheckpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func TestConformance_CheckpointsInMemory(t *testing.T) {
	t.Parallel()
	pulltest.TestCheckpoints(t, func(*testing.T) pulltest.CheckpointHarness {
		store := localcheckpoint.NewMemory(nil)
		return harness(store, store)
	})
}

func TestConformance_CheckpointsInFiles(t *testing.T) {
	t.Parallel()
	pulltest.TestCheckpoints(t, func(t *testing.T) pulltest.CheckpointHarness {
		dir := t.TempDir()
		return harness(open(t, dir), open(t, dir))
	})
}

func open(t *testing.T, dir string) *localcheckpoint.File {
	t.Helper()
	store, err := localcheckpoint.OpenFile(dir, "orders")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// files is what both stores let a test do behind their backs.
type files interface {
	lease.Store
	Audits(ctx context.Context) ([]record.Audit, error)
	Remove(name string) error
	Write(name string, content []byte) error
	Read(name string) ([]byte, error)
	List(sub string) ([]string, error)
}

func harness(store, other files) pulltest.CheckpointHarness {
	lane := func(n int) string { return fmt.Sprintf("lanes/%d.json", n) }
	return pulltest.CheckpointHarness{
		Store: store,
		Other: other,
		DeleteLane: func(t *testing.T, n int) {
			t.Helper()
			must(t, store.Remove(lane(n)))
		},
		DeletePipeline: func(t *testing.T) {
			t.Helper()
			must(t, store.Remove("pipeline.json"))
		},
		DeleteRuns: func(t *testing.T) {
			t.Helper()
			names, err := store.List("runs")
			must(t, err)
			for _, name := range names {
				must(t, store.Remove(name))
			}
		},
		Audits: store.Audits,
		LowerSchema: func(t *testing.T, n int) {
			t.Helper()
			for _, name := range []string{lane(n), "pipeline.json"} {
				lower(t, store, name)
			}
		},
		RaiseSchema: func(t *testing.T, n int) {
			t.Helper()
			replace(t, store, lane(n), fmt.Sprintf(`"schema": %d,`, record.Schema), fmt.Sprintf(`"schema": %d, "news": true,`, record.Schema+1))
		},
		Pause: func(t *testing.T, n int) {
			t.Helper()
			replace(t, store, lane(n), `"paused": false`, `"paused": true`)
		},
		Runs: func(t *testing.T) []record.Report {
			t.Helper()
			return runs(t, store)
		},
	}
}

func runs(t *testing.T, store files) []record.Report {
	t.Helper()
	names, err := store.List("runs")
	must(t, err)
	reports := make([]record.Report, len(names))
	for i, name := range names {
		text, err := store.Read(name)
		must(t, err)
		must(t, json.Unmarshal(text, &reports[i]))
	}
	return reports
}

// lower makes a document one of schema 1, as often as it is asked to.
func lower(t *testing.T, store files, name string) {
	t.Helper()
	text, err := store.Read(name)
	must(t, err)
	var fields map[string]json.RawMessage
	must(t, json.Unmarshal(text, &fields))
	fields["schema"] = json.RawMessage("1")
	delete(fields, "draining")
	delete(fields, "audits")
	text, err = json.Marshal(fields)
	must(t, err)
	must(t, store.Write(name, text))
}

// replace edits a file as a person would.
func replace(t *testing.T, store files, name, old, with string) {
	t.Helper()
	text, err := store.Read(name)
	must(t, err)
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s does not contain %q:\n%s", name, old, text)
	}
	must(t, store.Write(name, bytes.Replace(text, []byte(old), []byte(with), 1)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
