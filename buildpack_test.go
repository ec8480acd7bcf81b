package tidemark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// framework is the module whose packages the buildpack knows.
const framework = "github.com/GoogleCloudPlatform/functions-framework-go"

// mainFile is where the Go functions buildpack writes its main, inside of the uploaded module: see lib.go of
// cmd/go/functions_framework in github.com/GoogleCloudPlatform/buildpacks. What follows is its template for declarative
// functions, which registers nothing and so can start each of them by FUNCTION_TARGET.
const (
	mainFile = "functions.local/app/main.go"
	mainText = `package main

import (
	"log"
	"net/http"
	"os"

	_ "` + module + `"

	"` + framework + `/funcframework"
)

func main() {
	http.HandleFunc("/robots.txt", http.NotFound)
	http.HandleFunc("/favicon.ico", http.NotFound)

	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	if err := funcframework.Start(port); err != nil {
		log.Fatalf("Function failed to start: %v\n", err)
	}
}
`
)

// rootImports parses the root as the buildpack does: every .go file, those of tests too, and nothing below.
func rootImports(t *testing.T, dir string) (packages, imports []string, blank map[string]bool) {
	t.Helper()
	//nolint:staticcheck // the deprecated function is the buildpack's, and what it refuses is the question
	parsed, err := parser.ParseDir(token.NewFileSet(), dir, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	blank = map[string]bool{}
	for _, pkg := range parsed {
		for name, file := range pkg.Files {
			if strings.HasSuffix(name, "_test.go") {
				continue // they take part in what the package is, not in what is built
			}
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				imports = append(imports, path)
				blank[path] = isBlank(spec)
			}
		}
	}
	return slices.Sorted(maps.Keys(parsed)), imports, blank
}

func isBlank(spec *ast.ImportSpec) bool { return spec.Name != nil && spec.Name.Name == "_" }

func TestBuildpack_RootIsOnePackageThatIsDeclarative(t *testing.T) {
	t.Parallel()
	packages, imports, _ := rootImports(t, ".")
	if len(packages) != 1 {
		t.Errorf("the root has the packages %q: the buildpack refuses more than one, also one of tests", packages)
	}
	if !slices.Contains(imports, framework+"/functions") {
		t.Errorf("the root imports %q and not %s/functions: the buildpack would choose the template that calls the target by name",
			imports, framework)
	}
	if first, _, _ := strings.Cut(module, "/"); !strings.Contains(first, ".") {
		t.Errorf("module %s: the buildpack needs a dot in the first element", module)
	}
	if told := strings.TrimSpace(string(goList(t, "-m"))); told != module {
		t.Errorf("the module is %s, these tests are for %s", told, module)
	}
	// The buildpack takes a folder that has the root package's name for the function's package.
	if _, err := os.Stat(packages[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder %s: %v", packages[0], err)
	}
	if _, err := os.Stat("vendor"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder vendor, which the buildpack builds in another way: %v", err)
	}
}

func TestBuildpack_RootImportsEachFolderOfFunctions(t *testing.T) {
	t.Parallel()
	_, imports, blank := rootImports(t, ".")
	folders, err := os.ReadDir("functions")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, folder := range folders {
		if folder.IsDir() {
			want = append(want, module+"/functions/"+folder.Name())
		}
	}
	for _, path := range imports {
		if strings.HasPrefix(path, module+"/") {
			got = append(got, path)
			if !blank[path] {
				t.Errorf("the root imports %s by name: it is there to be registered", path)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(want, got) || len(want) == 0 {
		t.Errorf("the root imports %q, functions/ has %q", got, want)
	}
}

// This is the cloud's build and start, as far as it can be had without the builder's image. The archive of a deployment
// leaves local/ out, so that go.mod has requirements there that nothing needs, which `go mod tidy` of the buildpack drops.
// Here local/ is copied too: tidy must then have nothing to do, also with the main that the buildpack adds.
func TestBuildpack_BuildsAndServesTheTarget(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	copyModule(t, source)
	write(t, filepath.Join(source, mainFile), []byte(mainText))
	if packages, _, _ := rootImports(t, source); len(packages) != 1 {
		t.Errorf("the uploaded root has the packages %q", packages)
	}
	// The exit code says it: the output also tells what was downloaded.
	if diff, err := goIn(t, source, "mod", "tidy", "-diff"); err != nil {
		t.Errorf("go mod tidy would change something: %v\n%s", err, diff)
	}
	binary := filepath.Join(t.TempDir(), "function")
	if out, err := goIn(t, source, "build", "-o", binary, "./"+filepath.Dir(mainFile)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("Ingest", func(t *testing.T) {
		t.Parallel()
		serveTarget(t, binary)
	})
	t.Run("a target that is not registered", func(t *testing.T) {
		t.Parallel()
		out, err := start(t, binary, "Nothing", freePort(t)).wait(t)
		if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(out, `"Nothing"`) {
			t.Errorf("it ended with %v, want a failure that names the target: %s", err, out)
		}
	})
}

// serveTarget calls the function as Cloud Run would start it, without a configuration.
func serveTarget(t *testing.T, binary string) {
	t.Helper()
	port := freePort(t)
	function := start(t, binary, "Ingest", port)
	function.listens(t, port)
	url := "http://127.0.0.1:" + port + "/"

	status, header, body := call(t, http.MethodGet, url)
	if status != http.StatusMethodNotAllowed || header.Get("Allow") != http.MethodPost || len(body) != 1 || body["error"] == nil {
		t.Errorf("GET: %d, Allow %q, %v, want 405 and one JSON error", status, header.Get("Allow"), body)
	}
	status, _, body = call(t, http.MethodPost, url)
	text, _ := body["error"].(string)
	if status != http.StatusInternalServerError || !strings.Contains(text, "TIDEMARK_CONFIG") || strings.Contains(text, "\n") {
		t.Errorf("POST: %d %q, want 500 and one line that names TIDEMARK_CONFIG", status, text)
	}
	if body["outcome"] != "failed" || body["errorClass"] != "bad-config" {
		t.Errorf("POST: %v, want a report of a failed run", body)
	}
	t.Logf("POST without a configuration: %d %s", status, text)

	if err := function.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	out, err := function.wait(t)
	if err != nil {
		t.Errorf("after SIGTERM it ended with %v, want 0: %s", err, out)
	}
	if lines := strings.Count(out, `"message":"run"`); lines != 1 {
		t.Errorf("%d lines of a run in the log, want 1: %s", lines, out)
	}
}

// copyModule copies what git tracks or would track: what is ignored is never uploaded.
func copyModule(t *testing.T, to string) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("asking git for the files of the module: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet in git's index
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), content)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// goIn runs the go command as the buildpack does: it may change go.mod, in the copy. With a warm module cache it needs
// no network.
func goIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "PWD="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// process is the built function while it runs.
type process struct {
	cmd  *exec.Cmd
	out  *bytes.Buffer // read it when it has ended
	done chan error
}

func start(t *testing.T, binary, target, port string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p := &process{cmd: exec.CommandContext(ctx, binary), out: &bytes.Buffer{}, done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "TIDEMARK_") })
	p.cmd.Env = append(p.cmd.Env, "FUNCTION_TARGET="+target, "PORT="+port)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p
}

func (p *process) wait(t *testing.T) (string, error) {
	t.Helper()
	select {
	case err := <-p.done:
		return p.out.String(), err
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not end")
		return "", nil
	}
}

// listens waits until the process takes connections.
func (p *process) listens(t *testing.T, port string) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case err := <-p.done:
			t.Fatalf("the process ended with %v: %s", err, p.out)
		case <-deadline:
			t.Fatalf("the process does not listen at port %s: %v", port, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// call returns an answer's status, header and JSON body.
func call(t *testing.T, method, url string) (int, http.Header, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{}
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatalf("%s: %d, no JSON: %s", method, response.StatusCode, text)
	}
	return response.StatusCode, response.Header, body
}
