package config

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Document returns docs/config.md: every key of the form, by the parsers that read it, and every property of Kafka's
// clients that has a fate. A key without a text is told with an empty one, which a test finds.
func Document() string {
	var page strings.Builder
	page.WriteString(documentHead)
	texts := map[string]keyText{}
	for _, text := range keyTexts {
		texts[text.path] = text
	}
	section := ""
	for _, form := range formOfConfig() {
		if begin, _, _ := strings.Cut(form.path, "."); begin != section {
			section = begin
			fmt.Fprintf(&page, "\n## %s\n\n| key, variable | holds | default | what it does | elsewhere |\n|---|---|---|---|---|\n", section)
		}
		page.WriteString(form.row(texts[form.path]))
	}
	page.WriteString(propertiesHead)
	for _, which := range []fate{honoured, ignored, refused} {
		fmt.Fprintf(&page, "\n### %s%s\n\n| properties | %s |\n|---|---|\n", strings.ToUpper(string(which[:1])), which[1:], noteTitles[which])
		for _, row := range clientTable {
			if row.fate == which {
				fmt.Fprintf(&page, "| %s | %s |\n", inCode(row.names), row.told())
			}
		}
	}
	return page.String()
}

var noteTitles = map[fate]string{ //nolint:gochecknoglobals // an immutable table
	honoured: "what they set", ignored: "why", refused: "what to do instead",
}

// formOfConfig walks the form without a file: what every key may hold.
func formOfConfig() []formKey {
	l := newLoader(context.Background(), Env{})
	readConfig(l.section("", 0, nil))
	return l.forms
}

func (k formKey) row(text keyText) string {
	return fmt.Sprintf("| `%s`<br>`%s` | %s | %s | %s | %s |\n", k.path, variable(k.path), k.holds(), k.standard(text), text.what, text.elsewhere())
}

// holds says what a key may be, without what this version refuses.
func (k formKey) holds() string {
	limit, narrowed := unsupported[k.path]
	if len(k.words) == 0 {
		if narrowed {
			return "not yet"
		}
		return strings.TrimSuffix(k.form+": "+k.limits, ": ")
	}
	var can, cannot []string
	for _, word := range k.words {
		if narrowed && !slices.Contains(limit.allowed, word) {
			cannot = append(cannot, word)
			continue
		}
		can = append(can, word)
	}
	if len(cannot) == 0 {
		return strings.Join(can, ", ")
	}
	return strings.Join(can, ", ") + "; not yet: " + strings.Join(cannot, ", ")
}

func (k formKey) standard(text keyText) string {
	switch {
	case k.needed:
		return "**needed**"
	case text.otherwise != "":
		return text.otherwise
	case k.otherwise == "":
		return "none"
	}
	return "`" + k.otherwise + "`"
}

// elsewhere names the key in the words of other systems.
func (t keyText) elsewhere() string {
	var names []string
	for _, other := range []struct{ system, name string }{{"Spark", t.spark}, {"Kafka", t.kafka}, {"Connect", t.connect}} {
		if other.name != "" {
			names = append(names, other.system+" `"+other.name+"`")
		}
	}
	return strings.Join(names, "<br>")
}

// told is what the page says of properties.
func (k clientKeys) told() string {
	switch {
	case k.to == "":
		return k.ours()
	case k.note == "":
		return "`" + k.to + "`"
	}
	return "`" + k.to + "`; " + k.note
}

func inCode(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

const documentHead = `# Configuration

<!-- Written by make docs from shared/config: change the texts there. -->

One YAML file is one pipeline. ` + "`TIDEMARK_CONFIG`" + ` holds its path, or ` + "`TIDEMARK_CONFIG_INLINE`" + ` its text.
[config.example.yaml](../config.example.yaml) is the whole form. Keys that are not in it are errors, and all problems are told at once.

- Any key can be set by its variable, which wins over the file.
- Any value may be a reference, replaced by its content: ` + "`secret://projects/P/secrets/S/versions/7`, `env://NAME`, `file://PATH`" + `.
  A relative path starts at the file's own folder.
- A duration is written as 500ms, 90s, 9m, 1h30m or 30d; a size as bytes or 128MiB. A list in a variable has commas, or is YAML in brackets.
- A secret is never shown: logs, errors and reports have *** in its place.
- "Elsewhere" is what Spark's Kafka source and MongoDB writer, Kafka's clients, and Kafka Connect with the MongoDB Kafka Connector call
  a key of about the same meaning.
`

const propertiesHead = `
## Kafka client properties

` + "`kafka.properties`" + ` takes the text that other clients of Kafka are given: Java's form, or librdkafka's names in it.

    kafka:
      properties: secret://projects/my-project/secrets/client-properties/versions/1

A key of kafka or source in the file, or its variable, wins over the text, and the report of each run says so. What has no effect is told
there too. A property that no table below has is an error: it is taken for a slip of the hand. ` + "`*`" + ` stands for any ending.
`
