package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"

	_ "github.com/tidemark/tidemark" // registers every function
	"github.com/tidemark/tidemark/local/realpart"
)

// Run serves until the process ends. With FUNCTION_TARGET set the framework serves that function at / only.
func Run(host, port string) error {
	if err := funcframework.StartHostPort(host, port); err != nil {
		return fmt.Errorf("serving functions at %s:%s: %w", host, port, err)
	}
	return errors.New("serving functions ended")
}

// AsChild turns a program into the function process when it was started as one by Child, and returns otherwise. It is
// the first call of main: one binary is then both the program and the function that it calls, as separate processes.
func AsChild() {
	port := os.Getenv(childPort)
	if port == "" {
		return
	}
	if err := Run("127.0.0.1", port); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// childPort is set in the environment of a function process.
const childPort = "TIDEMARK_SERVE_PORT"

// Child starts this program again as the function process: a process of its own, which can be killed. Its address is
// Process.Host.
func Child(ctx context.Context, log io.Writer, env ...string) (*realpart.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	process, err := realpart.Program(ctx, realpart.Options{Log: log, Env: env}, childPort, self)
	if err != nil {
		return nil, fmt.Errorf("starting the function process: %w", err)
	}
	return process, nil
}
