package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/serve"
)

func TestMain(m *testing.M) {
	serve.AsChild() // the demo starts its own program again as the function process
	os.Exit(m.Run())
}

// TestDemo_KilledInTheMiddle_LosesAndDoublesNothing is the main job end to end: the real function process, SIGKILL in
// the middle of a run, and every document compared with what was produced.
func TestDemo_KilledInTheMiddle_LosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	required := os.Getenv("REQUIRE_REAL") == "1"
	out := &bytes.Buffer{}
	err := run(t.Context(), out, 60_000, false)
	if errors.Is(err, realpart.ErrNotFound) && !required {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"KILLED", "missing 0, doubled 0, different 0", "idle"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo does not show %q:\n%s", want, out)
		}
	}
	if required && strings.Contains(out.String(), "no Firestore emulator") {
		t.Errorf("the checkpoint was not kept in Firestore:\n%s", out)
	}
}

func TestProve_SeesWhatIsMissingDoubledAndDifferent(t *testing.T) {
	t.Parallel()
	document := []byte("a document")
	made := produced{{{fingerprint(0, document), false}, {fingerprint(1, document), false}, {fingerprint(2, document), false}}}
	p := newProof(made)
	p.look("orders/0/0", document, false)
	p.look("orders/0/0", document, true) // also a dead letter
	p.look("orders/0/1", []byte("another document"), false)
	p.look("orders/9/1", document, false) // of no record
	if got, want := p.verdicts()[0], (verdict{records: 3, documents: 2, letters: 1, missing: 1, doubled: 1, different: 3}); got != want {
		t.Errorf("the verdict is %+v, want %+v", got, want)
	}
}
