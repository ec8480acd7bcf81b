package serve_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/serve"
)

// TestMain makes the test binary the function process where Child started it.
func TestMain(m *testing.M) {
	serve.AsChild()
	os.Exit(m.Run())
}

func TestAsChild_ProcessThatIsNoChild_GoesOn(t *testing.T) {
	t.Parallel()
	serve.AsChild() // else this test process would be a server by now
}

func TestChild_ServesEachFunctionAtItsName(t *testing.T) {
	t.Parallel()
	log := &buffer{}
	child := start(t, log)
	for _, test := range []struct {
		method, path string
		status       int
		says         string
	}{
		{http.MethodPost, "/Ingest", http.StatusInternalServerError, "TIDEMARK_CONFIG"}, // it has no configuration
		{http.MethodGet, "/Ingest", http.StatusMethodNotAllowed, "POST"},
		{http.MethodPost, "/Nothing", http.StatusNotFound, ""},
	} {
		status, body, err := call(t, test.method, child.Host, test.path)
		if err != nil || status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s %s: %d %q, %v, want %d and %q", test.method, test.path, status, body, err, test.status, test.says)
		}
	}
	// What a child writes arrives a moment later.
	for deadline := time.After(20 * time.Second); !strings.Contains(log.String(), `"severity":"CRITICAL"`); {
		select {
		case <-deadline:
			t.Fatalf("the log has no line of the run: %s", log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestChild_IsAProcessOfItsOwnThatCanBeKilled(t *testing.T) {
	t.Parallel()
	child := start(t, io.Discard)
	if child.PID() == os.Getpid() {
		t.Fatal("the child is this process")
	}
	if _, _, err := call(t, http.MethodGet, child.Host, "/Ingest"); err != nil {
		t.Fatal(err)
	}
	child.Kill()
	if status, _, err := call(t, http.MethodGet, child.Host, "/Ingest"); err == nil {
		t.Errorf("a killed process answered with %d", status)
	}
}

func TestRun_PortThatIsTaken_IsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	child := start(t, io.Discard)
	host, port, _ := strings.Cut(child.Host, ":")
	if err := serve.Run(host, port); err == nil || !strings.Contains(err.Error(), child.Host) {
		t.Errorf("%v, want an error that names %s", err, child.Host)
	}
}

func start(t *testing.T, log io.Writer) *realpart.Process {
	t.Helper()
	child, err := serve.Child(t.Context(), log, "TIDEMARK_CONFIG=", "TIDEMARK_CONFIG_INLINE=", "FUNCTION_TARGET=")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Stop)
	return child
}

func call(t *testing.T, method, host, path string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// buffer may be written by the child while it is read here.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
