package lifecycle

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"
)

const (
	// patience is how long a drain waits for requests: Cloud Run kills the process 10 s after SIGTERM.
	patience = 9 * time.Second
	// flush is how long the last answer has to leave the process: the server sends it after the handler returned, and
	// functions-framework does not let anybody wait for that.
	flush = 250 * time.Millisecond
)

// Drain counts the running requests of a process and ends it in order. Make it with New.
type Drain struct {
	exit    func(code int)
	signals []os.Signal
	listen  sync.Once

	stopping chan struct{} // closed at the signal
	idle     chan struct{} // closed when, after the signal, no request is running

	mu      sync.Mutex
	stopped bool
	running int
}

// New returns a drain that calls exit, os.Exit outside of tests, after one of the signals. It listens from the first
// request on, so that a process which never serves keeps the default behaviour.
func New(exit func(code int), signals ...os.Signal) *Drain {
	return &Drain{exit: exit, signals: signals, stopping: make(chan struct{}), idle: make(chan struct{})}
}

// HTTP wraps a handler, so that a drain waits for its requests and Stopping tells them to end. Requests that come
// after the signal are answered with 503: the caller tries again, and reaches another instance.
func (d *Drain) HTTP(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d.listen.Do(d.start)
		if !d.enter() {
			http.Error(w, "this instance is stopping", http.StatusServiceUnavailable)
			return
		}
		defer d.leave()
		next(w, r.WithContext(context.WithValue(r.Context(), stoppingKey{}, d.stopping)))
	}
}

type stoppingKey struct{}

// Stopping returns a channel that is closed when the process is to end: finish what is in flight and answer, within
// 9 s. It is nil, which never is ready, for a context that does not come from a wrapped handler.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stoppingKey{}).(chan struct{})
	return stopping
}

func (d *Drain) start() {
	received := make(chan os.Signal, 1)
	signal.Notify(received, d.signals...)
	go func() {
		<-received
		// A second signal ends the process at once.
		signal.Stop(received)
		d.drain()
	}()
}

// drain tells the requests to end, waits for them and exits. The code is 0 also where one did not end in time: it
// loses nothing, and a failed instance would only be one more thing to look at.
func (d *Drain) drain() {
	d.stop()
	timeout := time.NewTimer(patience - flush)
	defer timeout.Stop()
	select {
	case <-d.idle:
		<-time.After(flush)
	case <-timeout.C:
	}
	d.exit(0)
}

func (d *Drain) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	close(d.stopping)
	if d.running == 0 {
		close(d.idle)
	}
}

func (d *Drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return false
	}
	d.running++
	return true
}

func (d *Drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	if d.stopped && d.running == 0 {
		close(d.idle)
	}
}
