package lifecycle_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"

	"github.com/tidemark/tidemark/shared/lifecycle"
)

// childPort tells the test binary to be the server that is stopped, on this port.
const childPort = "LIFECYCLE_TEST_CHILD_PORT"

func TestMain(m *testing.M) {
	if port := os.Getenv(childPort); port != "" {
		fmt.Println(child(port))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// child serves one function with functions-framework. It says on stdout when a request is running, and answers it half
// a second after the signal, with a text longer than the server's buffers.
func child(port string) error {
	drain := lifecycle.New(os.Exit, syscall.SIGTERM)
	err := funcframework.RegisterHTTPFunctionContext(context.Background(), "/", drain.HTTP(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		fmt.Println("running")
		<-lifecycle.Stopping(r.Context())
		<-time.After(500 * time.Millisecond)
		_, _ = io.WriteString(w, answer())
	}))
	if err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	if err := funcframework.StartHostPort("127.0.0.1", port); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func answer() string { return strings.Repeat("partial, kept. ", 2000) }

func TestDrain_RealSignal_RunningRequestIsAnsweredInFullAndTheProcessExits0(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	url, process, lines := startChild(ctx, t)

	type result struct {
		text string
		err  error
	}
	answered := make(chan result, 1)
	go func() {
		text, err := call(ctx, http.MethodPost, url)
		answered <- result{text, err}
	}()
	for lines.Scan() && lines.Text() != "running" {
		// functions-framework prints a line of its own at its start.
	}
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	got := <-answered
	if got.err != nil || got.text != answer() {
		t.Errorf("answer of %d bytes, error %v, want %d bytes", len(got.text), got.err, len(answer()))
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the process ended with %v, want exit code 0", err)
	}
}

func startChild(ctx context.Context, t *testing.T) (url string, process *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	port := freePort(t)
	process = exec.CommandContext(ctx, os.Args[0])
	process.Env = append(os.Environ(), childPort+"="+port)
	process.Stderr = os.Stderr
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	url = "http://127.0.0.1:" + port + "/"
	for {
		if _, err := call(ctx, http.MethodGet, url); err == nil {
			return url, process, bufio.NewScanner(stdout)
		}
		select {
		case <-ctx.Done():
			t.Fatal("the child does not serve")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func call(ctx context.Context, method, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", fmt.Errorf("making the request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("calling: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", response.StatusCode)
	}
	return string(text), nil
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
