package main

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/shared/config"
)

func TestMain(m *testing.M) {
	if os.Getenv("TIDEMARK_TEST_AS_EMULATOR") != "" {
		main() // this program again, as the emulator
		return
	}
	os.Exit(m.Run())
}

// emulator starts the emulator on the example pipeline and returns its output.
func emulator(t *testing.T, port string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-config", filepath.Join("..", "pipeline.example.yaml"), "-port", port, "-schedule", "none")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_AS_EMULATOR=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func waitFor(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	var seen []string
	for lines.Scan() {
		if seen = append(seen, lines.Text()); strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("%q was not printed; what was: %q", text, seen)
}

func TestEmulator_CtrlC_DrainsAndEndsWell(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	cmd, lines := emulator(t, port)
	waitFor(t, lines, "serving http://127.0.0.1:"+port+"/Ingest for pipeline local-orders")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, lines, "commits what it has moved")
	for lines.Scan() { // until the process has closed its end
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the emulator ended with %v", err)
	}
}

func TestEmulator_PortTaken_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	cmd, lines := emulator(t, port)
	waitFor(t, lines, "PORT=")
	if err := cmd.Wait(); err == nil {
		t.Error("the emulator ended well")
	}
}

func TestExamplePipeline_Loads(t *testing.T) {
	t.Parallel()
	env := config.Env{Environ: []string{"TIDEMARK_CONFIG=" + filepath.Join("..", "pipeline.example.yaml")}, ReadFile: os.ReadFile}
	if _, err := config.Load(t.Context(), env); err != nil {
		t.Fatal(err)
	}
}
