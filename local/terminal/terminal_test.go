package terminal_test

import (
	"bytes"
	"testing"

	"github.com/tidemark/tidemark/local/terminal"
)

func TestThousands_GroupsByThree(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		if got := terminal.Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestIs_ABufferIsNone(t *testing.T) {
	t.Parallel()
	if terminal.Is(&bytes.Buffer{}) {
		t.Error("a buffer is taken for a terminal")
	}
}
