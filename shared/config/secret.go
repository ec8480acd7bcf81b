package config

import (
	"fmt"
	"io"
	"log/slog"
)

// masked is what every Secret prints as, the empty one too: whether it is set is nobody's business in a log.
const masked = "***"

// Secret is text that never prints: every verb of fmt, JSON, YAML and slog show ***.
type Secret string

// Reveal returns the text itself. Call it where the credential is handed to a client, and nowhere else.
func (s Secret) Reveal() string { return string(s) }

// String returns the mask.
func (s Secret) String() string { return masked }

// Format prints the mask for every verb; without it %x and %d would not pass through String.
func (s Secret) Format(state fmt.State, _ rune) {
	_, _ = io.WriteString(state, masked) // a fmt.State keeps its error for itself
}

// MarshalText returns the mask: JSON, XML and YAML use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// LogValue returns the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(masked) }
