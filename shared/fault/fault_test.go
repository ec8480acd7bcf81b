package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tidemark/tidemark/shared/fault"
)

func TestKindAndClass_OutermostFaultDecides(t *testing.T) {
	t.Parallel()
	transient := fault.Transientf("asking %s: %w", "kafka", io.ErrUnexpectedEOF)
	fatal := fault.Fatalf("bad-config", "reading %s", "kafka")
	for _, test := range []struct {
		name  string
		err   error
		kind  fault.Kind
		class string
		text  string
	}{
		{"nobody classified it", io.EOF, fault.Transient, "", "EOF"},
		{"a context that ended", context.DeadlineExceeded, fault.Transient, "", "context deadline exceeded"},
		{"transient", transient, fault.Transient, "", "asking kafka: unexpected EOF"},
		{"conflict", fault.Conflictf("lane %d", 3), fault.Conflict, "", "lane 3"},
		{"fatal", fatal, fault.Fatal, "bad-config", "reading kafka"},
		{"poison", fault.Poisonf("malformed-json", "offset %d", 7), fault.Poison, "malformed-json", "offset 7"},
		{"wrapped", fmt.Errorf("planning: %w", fatal), fault.Fatal, "bad-config", "planning: reading kafka"},
		{"joined behind a plain one", errors.Join(io.EOF, fatal), fault.Fatal, "bad-config", "EOF\nreading kafka"},
		{"a kind chosen again outside", fault.Transientf("later: %w", fatal), fault.Transient, "", "later: reading kafka"},
		{"a class chosen again outside", fault.Fatalf("lost", "all: %w", transient), fault.Fatal, "lost", "all: asking kafka: unexpected EOF"},
	} {
		if got := fault.KindOf(test.err); got != test.kind {
			t.Errorf("%s: kind %s, want %s", test.name, got, test.kind)
		}
		if got := fault.ClassOf(test.err); got != test.class {
			t.Errorf("%s: class %q, want %q", test.name, got, test.class)
		}
		if got := test.err.Error(); got != test.text {
			t.Errorf("%s: text %q, want %q", test.name, got, test.text)
		}
	}
}

func TestError_UnwrapsWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fault.Transientf("a: %w", io.EOF), fault.Conflictf("a: %w", io.EOF),
		fault.Fatalf("c", "a: %w", io.EOF), fault.Poisonf("c", "a: %w", io.EOF),
	} {
		if !errors.Is(fmt.Errorf("outside: %w", err), io.EOF) {
			t.Errorf("%v does not wrap io.EOF", err)
		}
	}
}

func TestKind_NamesAreThoseOfLogsAndReports(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]string{
		fault.Transient: "transient", fault.Poison: "poison", fault.Conflict: "conflict", fault.Fatal: "fatal", 9: "kind(9)",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", int(kind), got, want)
		}
	}
}
