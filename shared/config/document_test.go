package config

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocument_IsWhatTheDocumentsFolderHas(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Document(), string(page)); diff != "" {
		t.Errorf("docs/config.md is old: make docs writes it (-want +got):\n%s", diff)
	}
}

// A key without a text and a text without a key both show as a difference.
func TestDocument_TellsEveryKeyInTheOrderOfTheForm(t *testing.T) {
	t.Parallel()
	var form, texts []string
	for _, key := range formOfConfig() {
		form = append(form, key.path)
	}
	for _, text := range keyTexts {
		texts = append(texts, text.path)
		if text.what == "" || strings.Contains(text.what, "|") {
			t.Errorf("%s: %q is no text for a table", text.path, text.what)
		}
	}
	if diff := cmp.Diff(form, texts); diff != "" {
		t.Errorf("(-in the form +in keytext.go):\n%s", diff)
	}
}

func TestDocument_TakesRangesAndDefaultsFromTheParsers(t *testing.T) {
	t.Parallel()
	page := Document()
	for _, want := range []string{
		"`TIDEMARK_RUN_LIMITS_MEMORY` | size: 64MiB to 1TiB | `128MiB` |",
		"`TIDEMARK_CHECKPOINT_LEASE` | duration: 2s to 1h | `1m` |",
		"`TIDEMARK_SINK_MODE` | insert, upsert, update | `insert` |",
		"`TIDEMARK_SINK_URI` | secret: begins with mongodb:// or mongodb+srv:// | **needed** |",
		"`TIDEMARK_KAFKA_SASL_MECHANISM` | PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; not yet: OAUTHBEARER |",
		"`TIDEMARK_CHECKPOINT_MIRRORGROUP` | not yet |",
		"| `ssl.ca.location` | set kafka.tls.caFile to that path |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
}

func TestClientTable_EachPropertyHasOneFate(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, row := range clientTable {
		for _, name := range row.names {
			if seen[name] {
				t.Errorf("%s stands twice", name)
			}
			seen[name] = true
			if found, _ := findClientKey(strings.TrimSuffix(name, "*")); found.names[0] != row.names[0] {
				t.Errorf("%s is found in the row of %s", name, found.names[0])
			}
		}
		if row.fate != honoured && row.note == "" {
			t.Errorf("%v: no note", row.names)
		}
		if _, known := variableOf(row.to); row.to != "" && !known {
			t.Errorf("%v: there is no %s", row.names, row.to)
		}
	}
}

func variableOf(path string) (string, bool) {
	for _, key := range formOfConfig() {
		if key.path == path {
			return variable(path), true
		}
	}
	return "", false
}
