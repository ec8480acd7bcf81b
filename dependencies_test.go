package tidemark

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is the path of this module; packages of it are named without it, the root as ".".
const module = "github.com/tidemark/tidemark"

// rule says what some packages may import. A name is a package, a folder with all below it as "folder/...", or one of
// "std", the standard library, and "other", modules that are not ours.
type rule struct {
	name   string
	of     []string
	except []string // of these
	only   []string // nil for everything
	never  []string
}

// types are what any package may import, so that it can be read and tested without the rest.
var types = []string{"std", "other", "shared/record", "shared/fault"}

// rules hold for what is compiled into programs: tests may import what they like.
var rules = []rule{
	{
		name: "the root registers functions and does nothing else",
		of:   []string{"."}, only: []string{"functions/...", framework + "/functions"},
	},
	{
		name: "functions import what is shared, not each other",
		of:   []string{"functions/..."}, only: []string{"std", "other", "shared/..."},
	},
	{
		name: "the types stand on the standard library",
		of:   []string{"shared/record", "shared/fault"}, only: []string{"std"},
	},
	{
		name: "the planning is pure: types only",
		of:   []string{"shared/window"}, only: []string{"std", "shared/record", "shared/fault"},
	},
	{
		name: "the conversion knows the types, and of MongoDB its bson packages",
		of:   []string{"shared/mapping"}, only: append([]string{"std", "shared/record", "shared/fault"}, bsonPackages...),
	},
	{
		name: "the lease knows the types",
		of:   []string{"shared/lease"}, only: types,
	},
	{
		name: "the story knows the plan, the lease and the types, and no vendor",
		of:   []string{"shared/pull"}, only: append([]string{"shared/window", "shared/lease"}, types...),
	},
	{
		name: "checkpoint stores know the lease's document and the types",
		of:   []string{"shared/firecheckpoint", "shared/localcheckpoint"}, only: append([]string{"shared/lease"}, types...),
	},
	{
		name: "what else is shared knows the types only: adapters neither the story nor each other",
		of:   []string{"shared/..."}, only: types,
		except: []string{"shared/pull", "shared/firecheckpoint", "shared/localcheckpoint", "shared/pulltest"},
	},
	{
		name: "local is for a person's machine",
		of:   []string{".", "functions/...", "shared/..."}, never: []string{"local/..."},
	},
	{
		name: "test helpers are for tests",
		of:   []string{".", "functions/...", "shared/...", "local/..."}, except: []string{"shared/pulltest", "local/realpart/realtest"},
		never: []string{"testing/...", "net/http/httptest", "shared/pulltest", "local/realpart/realtest", "github.com/google/go-cmp/...", "pgregory.net/rapid"},
	},
}

// client is a vendor's client and the one package that may import it. Programs of local and pulltest look at the parts
// from outside, so they have clients of their own.
type client struct {
	of     string
	owner  string
	except map[string][]string // what others may have of it
}

var bsonPackages = []string{"go.mongodb.org/mongo-driver/v2/bson/...", "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"}

var clients = []client{
	{of: "github.com/twmb/franz-go/...", owner: "shared/kafkasource"},
	{of: "go.mongodb.org/mongo-driver/v2/...", owner: "shared/mongosink", except: map[string][]string{"shared/mapping": bsonPackages}},
	{of: "cloud.google.com/go/firestore/...", owner: "shared/firecheckpoint"},
	{of: "cloud.google.com/go/secretmanager/...", owner: "shared/secretmanager"},
}

func TestDependencies_PointOneWay(t *testing.T) {
	t.Parallel()
	imports := listImports(t)
	for _, must := range []string{".", "functions/ingest", "shared/pull", "shared/record"} {
		if _, found := imports[must]; !found {
			t.Fatalf("go list does not know %s: nothing was checked", must)
		}
	}
	for _, violation := range violations(imports) {
		t.Error(violation)
	}
}

// The binary that runs in the cloud links everything that is imported, also through other modules.
func TestDependencies_TheFunctionLinksNothingOfTests(t *testing.T) {
	t.Parallel()
	deps := strings.Fields(string(goList(t, "-deps", ".")))
	if len(deps) < 100 || !slices.Contains(deps, module+"/shared/kafkasource") {
		t.Fatalf("go list -deps tells %d packages without the adapters: nothing was checked", len(deps))
	}
	for _, dep := range linkedByMistake(deps) {
		t.Errorf("the function links %s: see `go list -deps -json . `, Imports", dep)
	}
}

// linkedByMistake returns what has no place in a function's binary.
func linkedByMistake(deps []string) []string {
	return slices.DeleteFunc(slices.Clone(deps), func(dep string) bool {
		return !matchesAny(short(dep), []string{"testing/...", "net/http/httptest", "shared/pulltest", "local/...", "github.com/twmb/franz-go/pkg/kfake/..."})
	})
}

// A checker that finds nothing proves nothing, so here each rule meets imports that break it.
func TestDependencies_TheCheckerFindsEachKindOfViolation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of, imports string
		rule        string // "" where it is allowed
	}{
		{".", "net/http", "the root registers"},
		{".", "shared/pull", "the root registers"},
		{"functions/ingest", "functions/status", "functions import what is shared"},
		{"functions/ingest", "local/serve", "local is for"},
		{"shared/record", "gopkg.in/yaml.v3", "the types stand"},
		{"shared/fault", "shared/record", "the types stand"},
		{"shared/window", "golang.org/x/sync/errgroup", "the planning is pure"},
		{"shared/window", "shared/lease", "the planning is pure"},
		{"shared/mapping", "go.mongodb.org/mongo-driver/v2/mongo", "the conversion knows"},
		{"shared/mapping", "go.mongodb.org/mongo-driver/v2/mongo", "one package imports"},
		{"shared/lease", "shared/window", "the lease knows"},
		{"shared/pull", "shared/mapping", "the story knows"},
		{"shared/pull", "shared/kafkasource", "the story knows"},
		{"shared/pull", "github.com/twmb/franz-go/pkg/kgo", "one package imports"},
		{"shared/localcheckpoint", "shared/firecheckpoint", "checkpoint stores know"},
		{"shared/kafkasource", "shared/pull", "adapters neither"},
		{"shared/kafkasource", "shared/lease", "adapters neither"},
		{"shared/mongosink", "shared/config", "adapters neither"},
		{"shared/config", "shared/secretmanager", "adapters neither"},
		{"shared/newcomer", "shared/pull", "adapters neither"},
		{"shared/telemetry", "functions/ingest", "adapters neither"},
		{"shared/telemetry", "local/realpart", "local is for"},
		{"shared/telemetry", "testing", "test helpers are"},
		{"shared/telemetry", "testing/iotest", "test helpers are"},
		{"local/demo", "shared/pulltest", "test helpers are"},
		{"shared/telemetry", "github.com/twmb/franz-go/pkg/kadm", "one package imports"},
		{"shared/config", "cloud.google.com/go/secretmanager/apiv1", "one package imports"},
		{"functions/ingest", "cloud.google.com/go/firestore", "one package imports"},

		{"shared/mapping", "go.mongodb.org/mongo-driver/v2/bson", ""},
		{"shared/kafkasource", "github.com/twmb/franz-go/pkg/kmsg", ""},
		{"shared/localcheckpoint", "shared/lease", ""},
		{"shared/pulltest", "testing", ""},
		{"shared/pulltest", "go.mongodb.org/mongo-driver/v2/bson", ""},
		{"local/demo", "github.com/twmb/franz-go/pkg/kfake", ""},
		{"functions/ingest", "shared/mongosink", ""},
		{"shared/telemetry", "testingground.example/x", ""},
	} {
		found := violations(owned(map[string][]string{test.of: {test.imports}}))
		switch {
		case test.rule == "" && len(found) > 0:
			t.Errorf("%s importing %s is allowed, found %q", test.of, test.imports, found)
		case test.rule != "" && !slices.ContainsFunc(found, func(v string) bool {
			return strings.HasPrefix(v, test.of+" imports "+test.imports+": ") && strings.Contains(v, test.rule)
		}):
			t.Errorf("%s importing %s breaks %q, found %q", test.of, test.imports, test.rule, found)
		}
	}
	if found := violations(map[string][]string{"shared/record": nil}); len(found) != len(clients) {
		t.Errorf("nobody imports the %d clients, found %q", len(clients), found)
	}
	if got := linkedByMistake([]string{"fmt", "testing", module + "/shared/pull", module + "/shared/pulltest", "github.com/twmb/franz-go/pkg/kfake"}); len(got) != 3 {
		t.Errorf("linked by mistake: %q, want 3 packages", got)
	}
}

// owned adds what each owner imports, so that only the made-up imports are wrong.
func owned(imports map[string][]string) map[string][]string {
	for _, c := range clients {
		imports[c.owner] = append(imports[c.owner], strings.TrimSuffix(c.of, "/..."))
	}
	return imports
}

// violations names the package, the import and the rule of each import that a rule forbids.
func violations(imports map[string][]string) []string {
	var found []string
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		for _, imported := range imports[pkg] {
			for _, r := range rules {
				if r.forbids(pkg, imported) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", pkg, imported, r.name))
				}
			}
			for _, c := range clients {
				if c.forbids(pkg, imported) {
					found = append(found, fmt.Sprintf("%s imports %s: one package imports a vendor's client, here %s", pkg, imported, c.owner))
				}
			}
		}
	}
	for _, c := range clients {
		if !slices.ContainsFunc(imports[c.owner], func(imported string) bool { return matches(imported, c.of) }) {
			found = append(found, fmt.Sprintf("%s does not import %s: the table of clients is out of date", c.owner, c.of))
		}
	}
	return found
}

func (r rule) forbids(pkg, imported string) bool {
	if !matchesAny(pkg, r.of) || matchesAny(pkg, r.except) {
		return false
	}
	return r.only != nil && !matchesAny(imported, r.only) || matchesAny(imported, r.never)
}

func (c client) forbids(pkg, imported string) bool {
	outside := matchesAny(pkg, []string{"local/...", "shared/pulltest"})
	return matches(imported, c.of) && pkg != c.owner && !outside && !matchesAny(imported, c.except[pkg])
}

func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(name, pattern) })
}

func matches(name, pattern string) bool {
	switch pattern {
	case "std":
		return !ours(name) && !foreign(name)
	case "other":
		return foreign(name)
	}
	folder, below := strings.CutSuffix(pattern, "/...")
	return name == folder || below && strings.HasPrefix(name, folder+"/")
}

// ours says that a name is one of this module's, as short has them.
func ours(name string) bool {
	return name == "." || matchesAny(name, []string{"functions/...", "shared/...", "local/..."})
}

// foreign modules have a dot in the first element of their path.
func foreign(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return name != "." && strings.Contains(first, ".")
}

// short is a package's name without the module's.
func short(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// listImports returns what each package imports outside of its tests.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	decoder := json.NewDecoder(strings.NewReader(string(goList(t, "-json=ImportPath,Imports", "./..."))))
	for {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return imports
		}
		if err != nil {
			t.Fatal(err)
		}
		name := short(pkg.ImportPath)
		imports[name] = []string{}
		for _, imported := range pkg.Imports {
			imports[name] = append(imports[name], short(imported))
		}
	}
}

func goList(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	return out
}
