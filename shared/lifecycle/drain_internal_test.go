package lifecycle

import (
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The tests here call drain where a signal would: a real one reaches every Drain of the process, and does so outside of
// synctest's clock. TestDrain_RealSignal in child_test.go sends real ones.

// harness is a Drain whose exit is seen.
type harness struct {
	*Drain
	exited chan int
}

func newHarness() harness {
	exited := make(chan int, 1)
	d := New(func(code int) { exited <- code })
	d.listen.Do(func() {}) // no signal is listened for
	return harness{Drain: d, exited: exited}
}

func serve(handler http.HandlerFunc) int {
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodPost, "/", nil))
	return w.Code
}

func TestDrain_WaitsForRunningRequestsThenExits0(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newHarness()
		codes := make(chan int, 2)
		for _, work := range []time.Duration{time.Second, 3 * time.Second} {
			go func() {
				codes <- serve(d.HTTP(func(_ http.ResponseWriter, r *http.Request) {
					<-Stopping(r.Context())
					<-time.After(work)
				}))
			}()
		}
		synctest.Wait()
		begin := time.Now()
		go d.drain()
		if code := <-d.exited; code != 0 {
			t.Errorf("exit code %d", code)
		}
		if took := time.Since(begin); took != 3*time.Second+flush {
			t.Errorf("exited after %s, want the longest request's 3 s and the flush", took)
		}
		if a, b := <-codes, <-codes; a != http.StatusOK || b != http.StatusOK {
			t.Errorf("answers %d and %d, want 200", a, b)
		}
	})
}

func TestDrain_GivesUpBeforeThePlatformKills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newHarness()
		release := make(chan struct{})
		defer close(release)
		go serve(d.HTTP(func(http.ResponseWriter, *http.Request) { <-release }))
		synctest.Wait()
		begin := time.Now()
		go d.drain()
		if code := <-d.exited; code != 0 {
			t.Errorf("exit code %d", code)
		}
		if took := time.Since(begin); took > 9*time.Second {
			t.Errorf("exited after %s, want at most 9 s", took)
		}
	})
}

func TestDrain_RefusesRequestsAfterTheSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newHarness()
		handler := d.HTTP(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		if code := serve(handler); code != http.StatusNoContent {
			t.Errorf("before: %d", code)
		}
		go d.drain()
		synctest.Wait()
		if code := serve(handler); code != http.StatusServiceUnavailable {
			t.Errorf("after: %d, want 503", code)
		}
		<-d.exited
	})
}

func TestDrain_PanickingRequestIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newHarness()
		func() {
			defer func() { _ = recover() }() // as functions-framework does
			serve(d.HTTP(func(http.ResponseWriter, *http.Request) { panic("a bug") }))
		}()
		begin := time.Now()
		go d.drain()
		<-d.exited
		if took := time.Since(begin); took != flush {
			t.Errorf("exited after %s, want %s", took, flush)
		}
	})
}

func TestStopping_IsNilOutsideOfAWrappedHandler(t *testing.T) {
	t.Parallel()
	if Stopping(t.Context()) != nil {
		t.Error("a channel that nobody will close")
	}
}

func TestNew_DoesNotListenBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	d := New(func(int) {}, syscall.SIGUSR2)
	listening := true
	d.listen.Do(func() { listening = false })
	if listening {
		t.Error("New took the signal over")
	}
}
