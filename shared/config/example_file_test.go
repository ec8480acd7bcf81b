package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/shared/config"
)

// exampleLine is a key of config.example.yaml, set or commented out, with its value and the comment after it.
type exampleLine struct {
	number             int
	indent, key, value string
	out                bool
	note               string
}

var (
	keyLine      = regexp.MustCompile(`^( *)(# )?([a-zA-Z]+): *([^#]*?) *(#.*)?$`)
	alternatives = regexp.MustCompile(`^# *((?:\{[^}]*\}|'[^']*'|[\w-]+)(?: \([^)]*\))?(?: \| (?:\{[^}]*\}|'[^']*'|[\w-]+)(?: \([^)]*\))?)+)`)
	remark       = regexp.MustCompile(` \([^)]*\)$`)
	insteadOf    = regexp.MustCompile(`instead of (\w+)`)
	without      = regexp.MustCompile(`without (\w+): ([\w, ]+)`)
	withKeys     = regexp.MustCompile(`with ((?:\w+: [\w.-]+(?:, )?)+)`)
)

func example(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// readExample returns the keys that have a value on their own line. The lines at the top are no keys.
func readExample(t *testing.T) []exampleLine {
	t.Helper()
	var found []exampleLine
	for i, line := range example(t) {
		parts := keyLine.FindStringSubmatch(line)
		if parts == nil || parts[4] == "" || i < 5 {
			continue
		}
		found = append(found, exampleLine{i, parts[1], parts[3], parts[4], parts[2] != "", parts[5]})
	}
	return found
}

// with returns the example with one line set, and with what its comment says must go or come with it.
func (e exampleLine) with(t *testing.T, value string) string {
	t.Helper()
	lines := example(t)
	sets := map[string]string{e.key: value}
	for _, group := range withKeys.FindAllStringSubmatch(e.note, -1) {
		for pair := range strings.SplitSeq(strings.TrimSuffix(group[1], ", "), ", ") {
			key, other, _ := strings.Cut(pair, ": ")
			sets[key] = other
		}
	}
	if removed := insteadOf.FindStringSubmatch(e.note); removed != nil {
		sets[removed[1]] = ""
	}
	if removed := without.FindStringSubmatch(e.note); removed != nil && slices.Contains(strings.Split(removed[2], ", "), value) {
		sets[removed[1]] = ""
	}
	for key, other := range sets {
		at := slices.IndexFunc(readExample(t), func(line exampleLine) bool { return line.key == key && (key != e.key || line.number == e.number) })
		if at < 0 {
			t.Fatalf("line %d names %s, which the example does not have", e.number+1, key)
		}
		line := readExample(t)[at]
		lines[line.number] = line.indent + line.key + ": " + other
		if other == "" {
			lines[line.number] = ""
		}
	}
	return strings.Join(lines, "\n")
}

func exampleWorld(text string) world {
	return world{
		vars: map[string]string{"TIDEMARK_CONFIG": "/etc/tidemark/config.yaml", "KAFKA_USER": "alice"},
		files: map[string]string{
			"/etc/tidemark/config.yaml": text, "/etc/tidemark/client.properties": "security.protocol=SASL_SSL\n",
			"/etc/tidemark/ca.pem": testAuthority.certificate, "/etc/tidemark/client.pem": testClient.certificate, "/etc/tidemark/client.key": testClient.key,
		},
		secrets: map[string]string{
			"projects/p/secrets/kafka/versions/1":   "kafka-pass",
			"projects/p/secrets/mongodb/versions/3": "mongodb://u:p@db.example.com",
		},
	}
}

// TestExample_EachCommentedKeyIsLegal uncomments one key at a time.
func TestExample_EachCommentedKeyIsLegal(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, line := range readExample(t) {
		if line.out {
			tried++
			if _, err := config.Load(t.Context(), exampleWorld(line.with(t, line.value)).env()); err != nil {
				t.Errorf("line %d, %s: %s: %v", line.number+1, line.key, line.value, err)
			}
		}
	}
	if tried < 25 {
		t.Errorf("%d keys are commented out: is the example still understood?", tried)
	}
}

// TestExample_EachAlternativeIsLegal writes each alternative that a comment tells.
func TestExample_EachAlternativeIsLegal(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, line := range readExample(t) {
		found := alternatives.FindStringSubmatch(line.note)
		if found == nil {
			continue
		}
		for word := range strings.SplitSeq(found[1], " | ") {
			tried++
			word = remark.ReplaceAllString(word, "")
			if _, err := config.Load(t.Context(), exampleWorld(line.with(t, word)).env()); err != nil {
				t.Errorf("line %d, %s: %s: %v", line.number+1, line.key, word, err)
			}
		}
	}
	if tried < 35 {
		t.Errorf("%d alternatives: is the example still understood?", tried)
	}
}

// TestExample_HasEveryKey holds the example to the form, of which docs/config.md is written.
func TestExample_HasEveryKey(t *testing.T) {
	t.Parallel()
	text := strings.Join(example(t), "\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)`<br>").FindAllStringSubmatch(config.Document(), -1) {
		if key := row[1][strings.LastIndexByte(row[1], '.')+1:]; !regexp.MustCompile(`\b` + key + `: `).MatchString(text) {
			t.Errorf("config.example.yaml does not have %s", row[1])
		}
	}
}
