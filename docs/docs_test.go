// Package docs_test holds the documents to the source: what they name exists, and what the code can say is explained.
package docs_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/tidemark/tidemark/shared/config"
)

// root is the module's folder.
var root = os.DirFS("..")

func TestDocs_NameOnlyWhatExists(t *testing.T) {
	t.Parallel()
	module := readModule(t)
	for _, doc := range documents(t) {
		for _, problem := range module.check(doc, read(t, doc)) {
			t.Error(problem)
		}
	}
}

// TestCheck_FindsEachKindOfMistake is the check on the checker.
func TestCheck_FindsEachKindOfMistake(t *testing.T) {
	t.Parallel()
	text := "`pull.Runner.Run` and `pull.Runner.Walk`, `lease.Take`, `lease.holder` and `lease.holders`, `pul.Runner`,\n" +
		"`run.limits.memory` and `run.limits.memori`, `kgo.Client`, `retention.ms`, `config.example.yaml`,\n" +
		"`shared/pull` and `shared/push`, `shared/pull/*_test.go`, `make test` and `REQUIRE_REAL=1 make tests`,\n" +
		"`TestLane_DeletedByHand_IsFatal` and `TestLane_DeletedByHand_IsFine`,\n" +
		"[a](architecture.md), [b](architectura.md), [c](architecture.md#words), [d](architecture.md#wards), [e](https://example.com/x).\n" +
		"```\nmake demo\nmake demon # pull.Nothing\n```\n"
	want := []string{
		"docs/fake.md:1: `pull.Runner.Walk` is nothing in the source, the configuration or the lane document",
		"docs/fake.md:1: `lease.holders` is nothing in the source, the configuration or the lane document",
		"docs/fake.md:1: `pul.Runner` is of no package",
		"docs/fake.md:2: `run.limits.memori` is nothing in the source, the configuration or the lane document",
		"docs/fake.md:3: `shared/push` does not exist",
		"docs/fake.md:3: the Makefile has no target tests",
		"docs/fake.md:4: there is no TestLane_DeletedByHand_IsFine",
		"docs/fake.md:5: the link architectura.md leads nowhere",
		"docs/fake.md:5: the link architecture.md#wards leads to no heading",
		"docs/fake.md:8: the Makefile has no target demon",
	}
	if diff := cmp.Diff(want, readModule(t).check("docs/fake.md", text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestArchitecture_ExplainsEveryClass(t *testing.T) {
	t.Parallel()
	inCode := readModule(t).classes
	inDocs := map[string]bool{}
	text := read(t, "docs/architecture.md")
	for _, heading := range []string{"### Fatal classes", "### Reason classes of dead letters"} {
		_, section, found := strings.Cut(text, heading+"\n")
		if !found {
			t.Fatalf("docs/architecture.md has no %q", heading)
		}
		section, _, _ = strings.Cut(section, "\n#")
		for line := range strings.Lines(section) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				for _, word := range inlineCode.FindAllStringSubmatch(cells[1], -1) {
					inDocs[word[1]] = true
				}
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(inCode)), slices.Sorted(maps.Keys(inDocs))); diff != "" {
		t.Errorf("classes (-in the source +in docs/architecture.md):\n%s", diff)
	}
}

func TestSource_NamesOnlyDocumentsThatExist(t *testing.T) {
	t.Parallel()
	named := 0
	for _, file := range sourceFiles(t) {
		text := read(t, file)
		for _, doc := range regexp.MustCompile(`docs/[\w./-]+\.md`).FindAllString(text, -1) {
			named++
			if !exists(doc) {
				t.Errorf("%s names %s, which does not exist", file, doc)
			}
		}
		for _, heading := range regexp.MustCompile(`docs/architecture\.md, \\"([^\\]+)\\"`).FindAllStringSubmatch(text, -1) {
			if !headings(read(t, "docs/architecture.md"))[slug(heading[1])] {
				t.Errorf("%s names the heading %q of docs/architecture.md, which does not exist", file, heading[1])
			}
		}
	}
	if named == 0 {
		t.Error("no document is named in the source: is it still looked at?")
	}
}

func TestReadme_IsShortAndItsPipelineLoads(t *testing.T) {
	t.Parallel()
	text := read(t, "README.md")
	if lines := strings.Count(text, "\n"); lines > 120 {
		t.Errorf("README.md has %d lines, at most 120 are read", lines)
	}
	_, rest, _ := strings.Cut(text, "```yaml\n")
	pipeline, _, _ := strings.Cut(rest, "```")
	loaded, err := config.Load(t.Context(), config.Env{
		Environ:  []string{"TIDEMARK_CONFIG_INLINE=" + pipeline, "KAFKA_USER=u", "KAFKA_PASSWORD=p"},
		ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		Secret:   func(context.Context, string) ([]byte, error) { return []byte("mongodb://localhost"), nil },
	})
	if err != nil || loaded.Pipeline != "orders" {
		t.Errorf("the README's pipeline: %v", err)
	}
}

func TestDecisions_HaveOneForm(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(root, "docs/adr/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	for i, name := range names {
		text := read(t, name)
		if number := fmt.Sprintf("%04d", i+1); !strings.HasPrefix(path.Base(name), number+"-") || !strings.HasPrefix(text, "# "+number+": ") {
			t.Errorf("%s: the next number is %s, in the name and in the title", name, number)
		}
		var found []string
		for line := range strings.Lines(text) {
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				found = append(found, strings.TrimSpace(heading))
			}
		}
		if diff := cmp.Diff([]string{"Context", "Decision", "Consequences", "Evidence"}, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if lines := strings.Count(text, "\n"); lines > 45 {
			t.Errorf("%s has %d lines: a decision is one page", name, lines)
		}
	}
}

func TestPictures_AreXML(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(root, "docs/*.svg")
	if err != nil || len(names) == 0 {
		t.Fatalf("no pictures: %v", err)
	}
	for _, name := range names {
		decoder := xml.NewDecoder(strings.NewReader(read(t, name)))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestCompose_IsYAMLWithTheThreeParts(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Image       string         `yaml:"image"`
			Ports       []string       `yaml:"ports"`
			Healthcheck map[string]any `yaml:"healthcheck"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "local/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"firestore", "kafka", "mongodb"}, slices.Sorted(maps.Keys(compose.Services))); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	for name, service := range compose.Services {
		_, version, tagged := strings.Cut(path.Base(service.Image), ":")
		if !tagged || version == "latest" || service.Healthcheck["test"] == nil {
			t.Errorf("%s: image %q must have a version, and the service a health check", name, service.Image)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to the network", name, port)
			}
		}
	}
}

// module is what the documents may name.
type module struct {
	symbols  map[string]bool // package.Name and package.Type.Name, also fields and methods
	packages map[string]bool // of this module, by the name of their folder
	imported map[string]bool // of others
	tests    map[string]bool
	literals map[string]bool
	consts   map[string]string // package.Name to its text
	classes  map[string]bool   // of errors and dead letters
	stored   map[string]bool   // fields of the lane document
	targets  map[string]bool   // of the Makefile
	form     string            // config.example.yaml
}

func readModule(t *testing.T) *module {
	t.Helper()
	m := &module{
		symbols: map[string]bool{}, packages: map[string]bool{}, imported: map[string]bool{}, tests: map[string]bool{},
		literals: map[string]bool{}, consts: map[string]string{}, classes: map[string]bool{}, stored: map[string]bool{},
		targets: map[string]bool{}, form: read(t, "config.example.yaml"),
	}
	var calls []func()
	for _, file := range sourceFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, m.add(path.Base(path.Dir("/tidemark/"+file)), strings.HasSuffix(file, "_test.go"), parsed))
	}
	for _, collect := range calls { // when every constant is known
		collect()
	}
	for _, target := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		m.targets[target[1]] = true
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(read(t, "shared/localcheckpoint/testdata/golden/schema1.json")), &document); err != nil {
		t.Fatal(err)
	}
	for name, value := range document {
		m.stored[name] = true
		if inner, ok := value.(map[string]any); ok {
			for field := range inner {
				m.stored[name+"."+field] = true
			}
		}
	}
	return m
}

// add notes what a file declares, and returns what is to be done when all files were added.
func (m *module) add(pkg string, test bool, file *ast.File) func() {
	for _, spec := range file.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			m.imported[path.Base(name)] = true
		}
	}
	if test {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				m.tests[f.Name.Name] = true
			}
		}
		return func() {}
	}
	m.packages[pkg] = true
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			m.symbols[pkg+"."+receiver(decl)+decl.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				m.addSpec(pkg, spec)
			}
		}
	}
	return func() { ast.Inspect(file, func(n ast.Node) bool { m.look(pkg, n); return true }) }
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return "?."
}

func (m *module) addSpec(pkg string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for i, name := range spec.Names {
			m.symbols[pkg+"."+name.Name] = true
			if i < len(spec.Values) {
				if text, ok := literal(spec.Values[i]); ok {
					m.consts[pkg+"."+name.Name] = text
				}
			}
		}
	case *ast.TypeSpec:
		m.symbols[pkg+"."+spec.Name.Name] = true
		var fields *ast.FieldList
		switch of := spec.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				m.symbols[pkg+"."+spec.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// classConst is how packages name their classes.
var classConst = regexp.MustCompile(`^[cC]lass[A-Z]`)

// look notes texts, and the classes that errors are made with.
func (m *module) look(pkg string, n ast.Node) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if text, ok := literal(n); ok {
			m.literals[text] = true
		}
	case *ast.ValueSpec:
		for _, name := range n.Names {
			if text := m.consts[pkg+"."+name.Name]; text != "" && classConst.MatchString(name.Name) {
				m.classes[text] = true
			}
		}
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) < 2 || pkg == "pulltest" {
			return
		}
		on, _ := called.X.(*ast.Ident)
		made := on != nil && on.Name == "fault" && (called.Sel.Name == "Fatalf" || called.Sel.Name == "Poisonf")
		if !made && (pkg != "mapping" || called.Sel.Name != "fail") {
			return
		}
		if text, ok := literal(n.Args[0]); ok {
			m.classes[text] = true
		} else if name, ok := n.Args[0].(*ast.Ident); ok && m.consts[pkg+"."+name.Name] != "" {
			m.classes[m.consts[pkg+"."+name.Name]] = true
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	makeCall   = regexp.MustCompile(`^(?:\w+=\S+ )*make ([a-z0-9-]+)`)
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	filePath   = regexp.MustCompile(`^(shared|functions|local|docs|testdata)/[\w./*-]*$`)
	dotted     = regexp.MustCompile(`^[a-zA-Z]+(\.[A-Za-z]\w*){1,2}$`)
	fileName   = regexp.MustCompile(`\.(go|mod|sum|yaml|yml|json|md|svg)$`)
)

// check returns what a document says that is not so, one line each.
func (m *module) check(doc, text string) (problems []string) {
	fenced, number := false, 0
	for line := range strings.Lines(text) {
		number++
		say := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: ", doc, number)+fmt.Sprintf(format, args...))
		}
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			m.checkTarget(line, say)
			continue
		}
		for _, word := range inlineCode.FindAllStringSubmatch(line, -1) {
			m.checkTarget(word[1], say)
			m.checkName(word[1], say)
		}
		for _, target := range link.FindAllStringSubmatch(line, -1) {
			checkLink(doc, target[1], say)
		}
	}
	return problems
}

func (m *module) checkTarget(text string, say func(string, ...any)) {
	if call := makeCall.FindStringSubmatch(text); call != nil && !m.targets[call[1]] {
		say("the Makefile has no target %s", call[1])
	}
}

func (m *module) checkName(name string, say func(string, ...any)) {
	switch {
	case testName.MatchString(name):
		if !m.tests[name] {
			say("there is no %s", name)
		}
	case filePath.MatchString(name):
		if !exists(strings.TrimSuffix(name, "/")) {
			say("`%s` does not exist", name)
		}
	case dotted.MatchString(name) && !fileName.MatchString(name):
		m.checkDotted(name, say)
	}
}

// sections are the first words of configuration keys.
var sections = []string{"kafka", "source", "record", "sink", "deadLetters", "checkpoint", "run"}

// checkDotted looks for a name with dots among the symbols, the keys of the configuration, the fields of the lane
// document and the texts of the source. What begins as none of these do is somebody else's, unless it looks like Go's.
func (m *module) checkDotted(name string, say func(string, ...any)) {
	first, rest, _ := strings.Cut(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	key := slices.Contains(sections, first) && regexp.MustCompile(`\b`+last+`:`).MatchString(m.form)
	switch exported := rest[0] >= 'A' && rest[0] <= 'Z'; {
	case m.symbols[name], key, m.stored[name], m.literals[name]:
	case m.packages[first], slices.Contains(sections, first), m.stored[first]:
		say("`%s` is nothing in the source, the configuration or the lane document", name)
	case exported && !m.imported[first]:
		say("`%s` is of no package", name)
	}
}

func checkLink(doc, target string, say func(string, ...any)) {
	if strings.HasPrefix(target, "https://") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := doc
	if file != "" {
		to = path.Join(path.Dir(doc), file)
	}
	if !exists(to) {
		say("the link %s leads nowhere", target)
		return
	}
	if anchor == "" {
		return
	}
	text, err := fs.ReadFile(root, to)
	if err != nil || !headings(string(text))[anchor] {
		say("the link %s leads to no heading", target)
	}
}

// headings returns the anchors of a document, as GitHub makes them.
func headings(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		if title := strings.TrimLeft(line, "#"); len(title) < len(line) && strings.HasPrefix(title, " ") {
			found[slug(strings.TrimSpace(title))] = true
		}
	}
	return found
}

var notInSlug = regexp.MustCompile(`[^\w\- ]`)

func slug(title string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

func exists(pattern string) bool {
	found, err := fs.Glob(root, pattern)
	return err == nil && len(found) > 0
}

func documents(t *testing.T) []string {
	t.Helper()
	docs := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	return append(docs, files(t, "docs", ".md")...)
}

func sourceFiles(t *testing.T) []string {
	t.Helper()
	atRoot, err := fs.Glob(root, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(atRoot, files(t, "shared", ".go"), files(t, "functions", ".go"), files(t, "local", ".go"))
}

func files(t *testing.T, dir, ext string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(root, dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ext {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s files in %s: %v", ext, dir, err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
