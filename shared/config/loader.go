package config

import (
	"context"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// prefix starts the name of every variable that overrides a key.
const prefix = "TIDEMARK_"

// variable returns the name of the environment variable that overrides a key.
func variable(path string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// origin says where a value stands: a line of the file, or an environment variable. Line 0 is the file as a whole.
type origin struct {
	line     int
	variable string
	// property names a Kafka property and its line, for what stands in the text of kafka.properties; inner is the line.
	property string
	inner    int
}

// loader collects what is found while the form is walked: values become Config, everything else becomes a problem.
type loader struct {
	ctx      context.Context // of the one Load: every parser may follow a reference
	env      Env
	vars     map[string]string
	file     string // as errors name it
	dir      string // where relative file:// paths start, "" for the working directory
	contents map[string]content
	problems []problem
	origins  map[string]origin // of every section and key that is set
	failed   map[string]bool   // keys that have a problem: rules over several keys skip them
	known    []string          // every key of the form, in its order
	forms    []formKey         // what they may hold
	sections []*section
	lent     map[string]value // what kafka.properties says for keys that neither file nor variables set
	notices  []string
	// wantsLogin says that kafka.properties names a protocol with SASL.
	wantsLogin bool
	// jaasModule is the login module of its sasl.jaas.config, "" without one.
	jaasModule string
}

// formKey is a key of the form as docs/config.md tells it.
type formKey struct {
	path, form, limits string
	words              []string
	// otherwise is the default, in the words of the file; "" where it is empty.
	otherwise string
	needed    bool
}

func newLoader(ctx context.Context, env Env) *loader {
	return &loader{
		ctx: ctx, env: env, vars: map[string]string{}, contents: map[string]content{},
		origins: map[string]origin{}, failed: map[string]bool{}, lent: map[string]value{},
	}
}

// section is one mapping of the file with the variables over it.
type section struct {
	loader *loader
	path   string
	// nodes and lines hold the keys that nobody asked for yet; what is left in the end is unknown.
	nodes map[string]*yaml.Node
	lines map[string]int
	// broken sections are no mapping: that is reported once, not again for each missing key.
	broken bool
}

// section opens a mapping below s. One that is absent or empty has no keys, and variables may still set some.
func (l *loader) section(path string, line int, node *yaml.Node) *section {
	s := &section{loader: l, path: path, nodes: map[string]*yaml.Node{}, lines: map[string]int{}}
	l.sections = append(l.sections, s)
	if node == nil || node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return s
	}
	if node.Kind != yaml.MappingNode {
		s.broken = true
		l.report(origin{line: line}, path, path, "must be a mapping, but is "+kindName(node))
		return s
	}
	for key, val := range pairs(node) {
		if !plainKey(key) {
			s.stray(key)
			continue
		}
		if first, twice := s.lines[key.Value]; twice {
			child := s.child(key.Value)
			l.report(origin{line: key.Line}, child, child, fmt.Sprintf("stands twice, first on line %d", first))
			continue
		}
		s.nodes[key.Value], s.lines[key.Value] = val, key.Line
	}
	return s
}

// section opens the mapping under a key of s.
func (s *section) section(key string) *section {
	path := s.child(key)
	node, line := s.nodes[key], s.lines[key]
	if node != nil {
		s.loader.origins[path] = origin{line: line}
		s.drop(key)
	}
	return s.loader.section(path, line, node)
}

func (s *section) child(key string) string {
	if s.path == "" {
		return key
	}
	return s.path + "." + key
}

func (s *section) drop(key string) {
	delete(s.nodes, key)
	delete(s.lines, key)
}

// locate says where a key is set. A variable wins over the file.
func (s *section) locate(key string) (at origin, given bool) {
	path := s.child(key)
	s.loader.known = append(s.loader.known, path)
	if line, found := s.lines[key]; found {
		at, given = origin{line: line}, true
	}
	if _, found := s.loader.vars[variable(path)]; found {
		at, given = origin{variable: variable(path)}, true
	}
	if given {
		s.loader.origins[path] = at
	}
	return at, given
}

// lookup returns the value of a key with its reference followed. A problem on the way is reported, and bad set.
func (s *section) lookup(key string) (v value, given bool) {
	at, given := s.locate(key)
	node := s.nodes[key]
	s.drop(key)
	path := s.child(key)
	lent, isLent := s.loader.lent[path]
	switch {
	case !given && isLent:
		s.loader.origins[path] = lent.at
		return lent, true
	case !given:
		return value{}, false
	case isLent:
		s.loader.notice("%s is not used for %s, which is set too, and wins", lent.at.property, path)
	}
	v = value{loader: s.loader, path: path, at: at}
	if at.variable != "" {
		v.text = s.loader.vars[at.variable]
		return v.follow(), true
	}
	return v.of(node), true
}

// need reads a key that must be given.
func need[T any](s *section, key string, p parser[T]) T {
	var none T
	v, given := s.lookup(key)
	note(s, key, p, none, true)
	if !given && !s.broken {
		path := s.child(key)
		s.loader.fail(path, "missing; write it, or set %s", variable(path))
	}
	return parsed(v, given, p, none)
}

// read reads a key that has a default.
func read[T any](s *section, key string, p parser[T], otherwise T) T {
	v, given := s.lookup(key)
	note(s, key, p, otherwise, false)
	return parsed(v, given, p, otherwise)
}

// note keeps what a key may hold.
func note[T any](s *section, key string, p parser[T], otherwise T, needed bool) {
	form := formKey{path: s.child(key), form: p.form, limits: p.limits, words: p.words, needed: needed}
	if p.show != nil && !needed {
		form.otherwise = p.show(otherwise)
	}
	s.loader.forms = append(s.loader.forms, form)
}

func parsed[T any](v value, given bool, p parser[T], otherwise T) T {
	if !given || v.bad {
		return otherwise
	}
	result, ok := p.parse(v)
	if !ok || v.refuseValue() {
		return otherwise
	}
	return result
}
