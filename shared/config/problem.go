package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tidemark/tidemark/shared/fault"
)

// problem is one line of the error that Load returns.
type problem struct {
	at   origin
	name string // the key, with the element of a list
	text string
	// passing problems are gone when the store of secrets answers again.
	passing bool
}

func (p problem) line(file string) string {
	where := file
	switch {
	case p.at.variable != "":
		where = p.at.variable
	case p.at.line > 0:
		where = fmt.Sprintf("%s:%d", file, p.at.line)
	}
	if p.name == "" {
		return where + ": " + p.text
	}
	return where + ": " + p.name + ": " + p.text
}

// report adds a problem of a key. Where the key's value came out of kafka.properties, the property is named instead.
func (l *loader) report(at origin, path, name, text string) {
	l.failed[path] = true
	if at.property != "" {
		name = at.property + strings.TrimPrefix(name, path)
	}
	l.problems = append(l.problems, problem{at: at, name: name, text: text})
}

// fail adds a problem of a key at the place where it, or the nearest section around it, stands.
func (l *loader) fail(path, format string, args ...any) {
	l.report(l.nearest(path), path, path, fmt.Sprintf(format, args...))
}

func (l *loader) nearest(path string) origin {
	for at := path; ; {
		if found, ok := l.origins[at]; ok {
			return found
		}
		dot := strings.LastIndexByte(at, '.')
		if dot < 0 {
			return origin{}
		}
		at = at[:dot]
	}
}

// failWith reports what following a reference came to.
func (v value) failWith(err error) {
	v.fail("%s", err.Error())
	v.loader.problems[len(v.loader.problems)-1].passing = fault.KindOf(err) == fault.Transient
}

// fine says that none of the keys has a problem, so that a rule over them may be judged.
func (l *loader) fine(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return l.failed[path] })
}

// stray reports a key that cannot be one of the form.
func (s *section) stray(key *yaml.Node) {
	text := "keys must be plain text"
	if key.Kind == yaml.ScalarNode {
		text = "unknown key; is a blank missing after a colon?"
	}
	name := s.path
	if begin := keyForm.FindString(key.Value); begin != "" {
		name = s.child(begin + "...")
	}
	s.loader.report(origin{line: key.Line}, name, name, text)
}

// reportUnknown reports keys of the file and variables that the form does not know. Call it once all is read.
func (l *loader) reportUnknown() {
	for _, s := range l.sections {
		for key, line := range s.lines {
			path, text := s.child(key), "unknown key; write sections nested, not with dots"
			if !strings.Contains(key, ".") {
				text = "unknown key" + l.suggest(path, asItIs[string])
			}
			l.report(origin{line: line}, path, path, text)
		}
	}
	names := map[string]bool{pathVariable: true, inlineVariable: true}
	for _, path := range l.known {
		names[variable(path)] = true
	}
	for name := range l.vars {
		if names[name] || !strings.HasPrefix(name, prefix) {
			continue
		}
		if nearest := l.suggest(name, variable); nearest != "" || l.claims(name) {
			l.report(origin{variable: name}, name, "", "no key has this variable"+nearest)
		}
	}
}

// claims says that a variable's name begins as those of a section do. Others with our prefix belong to other programs,
// unless their names are nearly those of ours.
func (l *loader) claims(name string) bool {
	return slices.ContainsFunc(l.sections, func(s *section) bool {
		return s.path != "" && (name == variable(s.path) || strings.HasPrefix(name, variable(s.path)+"_"))
	})
}

// suggest names the known key or section, in the given spelling, that is nearest to one that is not known.
func (l *loader) suggest(unknown string, spell func(path string) string) string {
	var candidates []string
	for _, path := range l.known {
		candidates = append(candidates, spell(path))
	}
	for _, s := range l.sections {
		if s.path != "" && spell(s.path) == s.path { // a section has no variable
			candidates = append(candidates, s.path)
		}
	}
	best := nearestOf(unknown, candidates)
	if best == "" {
		best = l.elsewhere(unknown, spell)
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// nearestOf returns the candidate that at most two slips turn into a text, in lower or upper case; "" for none.
func nearestOf(unknown string, candidates []string) string {
	const farthest = 2
	best, distance := "", farthest+1
	for _, known := range candidates {
		if max(len(known), len(unknown))-min(len(known), len(unknown)) > farthest {
			continue
		}
		if near := editDistance(strings.ToLower(unknown), strings.ToLower(known)); near < distance {
			best, distance = known, near
		}
	}
	return best
}

// elsewhere finds the right name in the wrong section, such as records under run: the nearest section wins.
func (l *loader) elsewhere(unknown string, spell func(path string) string) string {
	last, best, shared := "."+unknown[strings.LastIndexByte(unknown, '.')+1:], "", -1
	for _, path := range l.known {
		if strings.HasSuffix(path, last) && commonPrefix(path, unknown) > shared {
			best, shared = spell(path), commonPrefix(path, unknown)
		}
	}
	return best
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// editDistance is the optimal string alignment distance: how many letters must be put in, taken out, changed, or
// swapped with their neighbour.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) {
		rows[0][j+1] = j + 1
	}
	for i := range len(a) {
		for j := range len(b) {
			change := rows[i][j]
			if a[i] != b[j] {
				change++
			}
			best := min(rows[i][j+1]+1, rows[i+1][j]+1, change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				best = min(best, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = best
		}
	}
	return rows[len(a)][len(b)]
}

// failure returns all problems as one error, nil where there is none: first the file's in the order of lines, then
// those of variables. It is Transient if waiting alone may help, else Fatal.
func (l *loader) failure() error {
	if len(l.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(l.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.at.variable, b.at.variable), cmp.Compare(a.at.line, b.at.line),
			cmp.Compare(a.at.inner, b.at.inner), cmp.Compare(a.name, b.name))
	})
	lines := make([]error, len(l.problems))
	passing := true
	for i, p := range l.problems {
		lines[i] = errors.New(p.line(l.file))
		passing = passing && p.passing
	}
	if passing {
		return fault.Transientf("reading the configuration: %w", errors.Join(lines...))
	}
	plural := "s"
	if len(lines) == 1 {
		plural = ""
	}
	return fault.Fatalf(badConfig, "reading the configuration: %d problem%s:\n%w", len(lines), plural, errors.Join(lines...))
}
