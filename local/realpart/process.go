package realpart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrNotFound says that a part is neither running, nor installed, nor to be downloaded.
var ErrNotFound = errors.New("not found")

const (
	// startTimeout bounds how long a started part may take to answer. mongod takes about 1 s and the emulator 1.5 s
	// on two idle cores.
	startTimeout = 60 * time.Second
	// stopTimeout is how long a part may take to end by itself before it is killed: mongod waits for clients that are
	// still connected, and its journal makes a kill harmless.
	stopTimeout = 5 * time.Second
	// startAttempts: a free port can be taken by someone else before the part listens on it.
	startAttempts = 3
)

// Options say how a part is started. The zero value is good for tests.
type Options struct {
	// Dir keeps the part's data. Where it is empty, a temporary folder is used and removed by Stop.
	Dir string
	// Log receives the part's own output. Where it is nil, only the last lines are kept, for the error.
	Log io.Writer
	// CacheGB is the size of mongod's cache, 1 where it is 0.
	CacheGB float64
	// Env is added to the environment of a Program, as NAME=value.
	Env []string
}

// Process is a part that can be used: one that was started here, or one that was running already.
type Process struct {
	// URI connects to mongod; Host is the host:port of the emulator or a program. One of them is set.
	URI, Host string
	// Started is false where the part was found running and Stop leaves it alone.
	Started bool

	cmd     *exec.Cmd
	tail    *tail
	done    chan struct{} // closed when the child has ended
	err     error         // how the child ended; set before done is closed
	cleanup string        // a folder to remove after the end
	stop    sync.Once
}

// Stop ends a part that was started here and returns when it is gone. It may be called more than once.
func (p *Process) Stop() {
	if !p.Started {
		return
	}
	p.stop.Do(func() {
		// A temporary folder is thrown away, so nothing in it is worth an orderly end.
		if p.cleanup == "" {
			_ = terminate(p.cmd.Process.Pid)
			select {
			case <-p.done:
			case <-time.After(stopTimeout):
			}
		}
		_ = kill(p.cmd.Process.Pid)
		<-p.done
		if p.cleanup != "" {
			_ = os.RemoveAll(p.cleanup)
		}
	})
}

// launch starts a program in a process group of its own, tied to the life of this process where the system can.
func launch(opts Options, name string, args ...string) (*Process, error) {
	last := &tail{}
	out := io.Writer(last)
	if opts.Log != nil {
		out = io.MultiWriter(last, opts.Log)
	}
	cmd := exec.Command(name, args...) //nolint:gosec,noctx // the program is found by this package; Stop ends it, not a context
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	if len(opts.Env) > 0 {
		cmd.Env = append(cleanEnviron(), opts.Env...)
	}

	p := &Process{Started: true, cmd: cmd, tail: last, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the starting thread ends, not the process, so that thread is held
		// for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// running returns a part that somebody else runs, if one of its hosts can be reached at all.
func running(ctx context.Context, variable string, p *Process, hosts ...string) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := errors.New("it names no host")
	for _, host := range hosts {
		if _, _, splitErr := net.SplitHostPort(host); splitErr != nil {
			host = net.JoinHostPort(host, "27017") // MongoDB's default; the emulator's address always has a port
		}
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", host); err == nil {
			_ = conn.Close() // it was only a question
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s is set, and nothing answers there: %w", variable, err)
}

// cleanEnviron is this process's environment without what would steer a function: a pipeline that is configured in the
// shell must not be the one that a demo or a test writes to.
func cleanEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return strings.HasPrefix(name, "TIDEMARK_") || slices.Contains([]string{"FUNCTION_TARGET", "K_SERVICE", "PORT", "CLOUD_RUN_TIMEOUT_SECONDS"}, name)
	})
}

// waitReady calls ready until it returns nil, the child ends or the time is up.
func (p *Process) waitReady(ctx context.Context, what string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w: %s ended (%w) before it was ready: %s", errEarlyEnd, what, p.err, p.tail.last())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// waitListening waits until the part takes connections at its Host.
func (p *Process) waitListening(ctx context.Context, what string) error {
	return p.waitReady(ctx, what, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Host)
		if err != nil {
			return fmt.Errorf("dialling: %w", err)
		}
		return conn.Close()
	})
}

var errEarlyEnd = errors.New("the part did not stay up")

// retryStart calls start again while the part ends early, which is what a port that was taken meanwhile looks like.
func retryStart(start func() (*Process, error)) (*Process, error) {
	var errs []error
	for range startAttempts {
		p, err := start()
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, errEarlyEnd) {
			break
		}
	}
	return nil, errs[len(errs)-1]
}

func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", fmt.Errorf("reading a port: %w", err)
	}
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("closing a port: %w", err)
	}
	return port, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 8 << 10

// Write keeps the last bytes and never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

// last returns what is most likely the reason of an early end: the last line that looks like an error, else the last.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(string(bytes.TrimSpace(t.buf)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], `"s":"F"`) || strings.Contains(lines[i], `"s":"E"`) || strings.Contains(lines[i], "rror") {
			return lines[i]
		}
	}
	return lines[len(lines)-1]
}

// kill and terminate signal the whole group: a shell between us and the part must not outlive it.
func kill(pid int) error      { return signalGroup(pid, syscall.SIGKILL) }
func terminate(pid int) error { return signalGroup(pid, syscall.SIGTERM) }
