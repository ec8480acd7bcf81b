package config

import (
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is what a key holds: a node of the file, or text from a variable or a reference.
type value struct {
	loader *loader
	path   string
	index  string // "[2]" for an element of a list, to say which
	at     origin
	node   *yaml.Node // nil for text from outside
	text   string     // of a scalar
	hidden bool       // the content of a reference is never shown
	inside bool       // it was parsed from text, whose lines are not those of the file
	bad    bool       // it was reported already
}

// of returns v holding a node, with its reference followed.
func (v value) of(node *yaml.Node) value {
	v.node = node
	switch {
	case node.Kind == yaml.AliasNode:
		v.bad = true
		v.fail("YAML aliases are not supported: write the value out")
	case node.Kind != yaml.ScalarNode:
	case node.Tag == "!!null":
		v.bad = true
		v.fail("has no value; leave the key out to take its default")
	default:
		v.text = node.Value
		v = v.follow()
	}
	return v
}

// follow replaces a reference by its content. What came out of a reference is not followed again.
func (v value) follow() value {
	if v.hidden || !isReference(v.text) {
		return v
	}
	content, err := v.loader.content(v.text)
	v.node, v.text, v.hidden = nil, content, true
	if err != nil {
		v.bad = true
		v.failWith(err)
	}
	return v
}

// structured says that the value is a list or a mapping.
func (v value) structured() bool { return v.node != nil && v.node.Kind != yaml.ScalarNode }

// fail reports a problem of the value. The text must not hold what shown would hide.
func (v value) fail(format string, args ...any) {
	v.loader.report(v.at, v.path, v.path+v.index, fmt.Sprintf(format, args...))
}

// shown returns the value as an error may print it.
func (v value) shown() string {
	switch {
	case v.at.property != "":
		return "the value"
	case v.hidden:
		return "the content of the reference"
	case v.structured():
		return kindName(v.node)
	}
	return quoted(v.text)
}

// quoted returns text as an error may print it: short, and nothing that could be a credential.
func quoted(text string) string {
	const longest = 60
	if secretLike(text) {
		return "the value"
	}
	if len(text) > longest {
		return strconv.Quote(text[:longest]) + "..."
	}
	return strconv.Quote(text)
}

// scalar returns the text if the value is a scalar of one of the YAML types. Text from outside has no type of its own
// and fits all.
func (v value) scalar(wanted string, tags ...string) (string, bool) {
	if v.node == nil {
		return v.text, true
	}
	if v.node.Kind == yaml.ScalarNode {
		for _, tag := range tags {
			if v.node.Tag == tag {
				return v.text, true
			}
		}
	}
	v.fail("must be %s, but is %s", wanted, kindName(v.node))
	return "", false
}

// bracketedHost begins a list of brokers, although with a bracket: [::1]:9092.
var bracketedHost = regexp.MustCompile(`^\[[0-9A-Za-z:.%]+\]:[0-9]`)

// elements returns the values of a list: a YAML list, which text in brackets is too, or text with commas.
func (v value) elements() ([]value, bool) {
	if v.node != nil && v.node.Kind == yaml.SequenceNode {
		return v.sequence(v.node), true
	}
	text, ok := v.scalar("a list", "!!str")
	text = strings.TrimSpace(text)
	if !ok || text == "" {
		return nil, ok
	}
	if strings.HasPrefix(text, "[") && !bracketedHost.MatchString(text) {
		node, err := parseYAML(text)
		if err != nil || node == nil || node.Kind != yaml.SequenceNode {
			v.fail("begins with [ and is no list such as [a, b]")
			return nil, false
		}
		v.inside = true
		return v.sequence(node), true
	}
	var elements []value
	for i, part := range strings.Split(text, ",") {
		element := v
		element.index, element.node, element.text = fmt.Sprintf("%s[%d]", v.index, i), nil, strings.TrimSpace(part)
		elements = append(elements, element.follow())
	}
	return elements, true
}

// sequence returns the elements of a list's node.
func (v value) sequence(list *yaml.Node) []value {
	elements := make([]value, len(list.Content))
	for i, node := range list.Content {
		element := v
		element.index = fmt.Sprintf("%s[%d]", v.index, i)
		if !v.inside {
			element.at = origin{line: node.Line}
		}
		elements[i] = element.of(node)
	}
	return elements
}

// mapping returns the keys and values of a mapping, which text may hold too in YAML's or JSON's form.
func (v value) mapping(wanted string) (iter.Seq2[string, value], bool) {
	node := v.node
	if node == nil || node.Kind == yaml.ScalarNode {
		text, ok := v.scalar(wanted, "!!str")
		if !ok {
			return nil, false
		}
		if node, _ = parseYAML(text); node == nil {
			node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
		}
		v.inside = true
	}
	if node.Kind != yaml.MappingNode {
		v.fail("must be %s, but is %s", wanted, kindName(node))
		return nil, false
	}
	seen := map[string]bool{}
	for key := range pairs(node) {
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			v.fail("must be %s, in which each key is plain text and stands once", wanted)
			return nil, false
		}
		seen[key.Value] = true
	}
	return func(yield func(string, value) bool) {
		for key, val := range pairs(node) {
			if !yield(key.Value, v.under(key, val)) {
				return
			}
		}
	}, true
}

// under returns the value of a key inside v. What was parsed from text stands where the text stands.
func (v value) under(key, val *yaml.Node) value {
	child := v
	if !v.hidden {
		child.index += "." + shortKey(key.Value)
	}
	if !v.inside {
		child.at = origin{line: key.Line}
	}
	return child.of(val)
}

// pairs yields the keys and values of a mapping node.
func pairs(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], node.Content[i+1]) {
				return
			}
		}
	}
}

var keyForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*`)

// plainKey says that a key could be one of the form. "password:secret" without a blank is one key to YAML, so what is
// not plain is not printed.
func plainKey(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value != "" && keyForm.FindString(key.Value) == key.Value
}

// shortKey returns a key as an error may print it.
func shortKey(key string) string {
	if plain := strings.TrimLeft(key, "0123456789"); plain == "" || keyForm.FindString(key) == key && len(key) <= 249 {
		return key
	}
	return keyForm.FindString(key) + "..."
}

// kindName names what a node is, without its value or tag: both may be a secret that YAML reads otherwise than meant.
func kindName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	case yaml.ScalarNode, yaml.DocumentNode:
	}
	switch node.Tag {
	case "!!str":
		return "text"
	case "!!int":
		return "a whole number"
	case "!!float":
		return "a number with a point or an exponent"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	case "!!null":
		return "empty"
	}
	return "of another YAML type"
}
