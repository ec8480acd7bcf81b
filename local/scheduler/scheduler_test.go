package scheduler_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/local/scheduler"
)

// inBubble calls a handler without a socket, which testing/synctest could not wait for. A caller that gives up leaves the
// handler running, as a real service does.
type inBubble struct{ handler http.HandlerFunc }

func (b inBubble) RoundTrip(r *http.Request) (*http.Response, error) {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		recorder := httptest.NewRecorder()
		b.handler(recorder, r.WithContext(context.WithoutCancel(r.Context())))
		answered <- recorder
	}()
	select {
	case recorder := <-answered:
		return recorder.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// clock notes when it is called, since it was made.
type clock struct {
	began time.Time
	mu    sync.Mutex
	calls []time.Duration
}

func newClock() *clock { return &clock{began: time.Now()} }

func (c *clock) tick() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, time.Since(c.began))
	return len(c.calls)
}

// runFor runs the job by its schedule for so long and returns when it was called. The bubble's time begins at midnight.
func runFor(t *testing.T, total time.Duration, job scheduler.Job, handler func(call int, w http.ResponseWriter)) []time.Duration {
	t.Helper()
	calls := newClock()
	s := scheduler.Scheduler{Client: &http.Client{Transport: inBubble{func(w http.ResponseWriter, _ *http.Request) {
		handler(calls.tick(), w)
	}}}}
	job.URL = "http://function.example/Ingest"
	ctx, cancel := context.WithTimeout(t.Context(), total)
	defer cancel()
	if err := s.Run(ctx, job); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	calls.mu.Lock()
	defer calls.mu.Unlock()
	return calls.calls
}

func TestRun_CallsByTheSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		job := scheduler.Job{Name: "j", Schedule: "*/5 * * * *", AttemptDeadline: time.Minute}
		got := runFor(t, 16*time.Minute, job, func(int, http.ResponseWriter) {})
		if diff := cmp.Diff([]time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The first call lasts from 5 to 17 minutes, so those that are due at 10 and 15 become one at 17.
func TestRun_ExecutionsNeverOverlapAndTheOneThatIsDueWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		job := scheduler.Job{Name: "j", Schedule: "*/5 * * * *", AttemptDeadline: 30 * time.Minute}
		got := runFor(t, 26*time.Minute, job, func(call int, _ http.ResponseWriter) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if call == 1 {
				<-time.After(12 * time.Minute)
			}
		})
		want := []time.Duration{5 * time.Minute, 17 * time.Minute, 20 * time.Minute, 25 * time.Minute}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if most.Load() != 1 {
			t.Errorf("%d calls at once, want 1", most.Load())
		}
	})
}

func TestRun_ScheduleThatCannotBe_IsAnErrorAndCallsNobody(t *testing.T) {
	t.Parallel()
	for _, schedule := range []string{"", "every minute", "* * * *", "0 0 30 2 *"} {
		s := scheduler.Scheduler{Client: http.DefaultClient, Observe: func(scheduler.Attempt) { t.Error("somebody was called") }}
		if err := s.Run(t.Context(), scheduler.Job{Name: "nightly", Schedule: schedule}); err == nil || !strings.Contains(err.Error(), "nightly") {
			t.Errorf("%q: %v, want an error that names the job", schedule, err)
		}
	}
}

func TestExecute_RetriesAfterPausesThatDouble(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		retries int
		good    int // the first call that succeeds
		want    []time.Duration
		status  int
	}{
		{"no retry", 0, 9, []time.Duration{0}, 503},
		{"until it succeeds", 5, 3, []time.Duration{0, 10 * time.Second, 30 * time.Second}, 200},
		{"until they are used up", 3, 9, []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second}, 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := newClock()
				var observed []int
				s := scheduler.Scheduler{
					Observe: func(a scheduler.Attempt) { observed = append(observed, a.Status) },
					Client: &http.Client{Transport: inBubble{func(w http.ResponseWriter, _ *http.Request) {
						if calls.tick() < test.good {
							w.WriteHeader(http.StatusServiceUnavailable)
						}
					}}},
				}
				job := scheduler.Job{Name: "j", URL: "http://f.example/", AttemptDeadline: time.Minute, RetryCount: test.retries, MinBackoff: 10 * time.Second}
				last := s.Execute(t.Context(), job)
				if diff := cmp.Diff(test.want, calls.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if last.Status != test.status || last.OK() != (test.status == 200) {
					t.Errorf("the last attempt has status %d and OK %t, want %d", last.Status, last.OK(), test.status)
				}
				if len(observed) != len(test.want) || observed[len(observed)-1] != test.status {
					t.Errorf("observed %v, want %d attempts", observed, len(test.want))
				}
			})
		})
	}
}

func TestExecute_EndOfTheSchedulerEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := newClock()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s := scheduler.Scheduler{Client: &http.Client{Transport: inBubble{func(w http.ResponseWriter, _ *http.Request) {
			calls.tick()
			w.WriteHeader(http.StatusInternalServerError)
		}}}}
		s.Execute(ctx, scheduler.Job{Name: "j", URL: "http://f.example/", AttemptDeadline: time.Minute, RetryCount: 5, MinBackoff: time.Hour})
		if took := time.Since(calls.began); took != 5*time.Second || len(calls.calls) != 1 {
			t.Errorf("%d calls in %s, want 1 in 5s", len(calls.calls), took)
		}
	})
}

// service is a real server whose handler ends only when it is told to.
type service struct {
	*httptest.Server

	entered, release, left chan struct{}
}

func startService(t *testing.T) *service {
	t.Helper()
	s := &service{entered: make(chan struct{}), release: make(chan struct{}), left: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the caller goes away
		close(s.entered)
		<-s.release
		close(s.left)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestExecute_AttemptDeadline_GivesUpAndLeavesTheFunctionRunning(t *testing.T) {
	t.Parallel()
	s := startService(t)
	attempt := (&scheduler.Scheduler{Client: s.Client()}).Execute(t.Context(), scheduler.Job{
		Name: "j", URL: s.URL, Body: `{"lane":0}`, AttemptDeadline: 200 * time.Millisecond,
	})
	if !errors.Is(attempt.Err, context.DeadlineExceeded) || attempt.Status != 0 || attempt.OK() {
		t.Errorf("status %d, error %v, OK %t, want no answer in time", attempt.Status, attempt.Err, attempt.OK())
	}
	if attempt.Duration < 200*time.Millisecond || attempt.Duration > 10*time.Second {
		t.Errorf("gave up after %s, want 200ms", attempt.Duration)
	}
	within(t, s.entered, "the handler to be reached")
	select {
	case <-s.left:
		t.Error("the handler ended with the attempt")
	default:
	}
	close(s.release)
	within(t, s.left, "the handler to end by itself")
}

func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
}

func TestExecute_CallsAsCloudSchedulerDoes(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got["method"], got["body"] = r.Method, string(body)
		for _, name := range []string{"Content-Type", "User-Agent", "X-CloudScheduler", "X-CloudScheduler-JobName"} {
			got[name] = r.Header.Get(name)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "the report")
	}))
	t.Cleanup(server.Close)
	var observed []scheduler.Attempt
	s := scheduler.Scheduler{Client: server.Client(), Observe: func(a scheduler.Attempt) { observed = append(observed, a) }}
	attempt := s.Execute(t.Context(), scheduler.Job{Name: "orders-1", URL: server.URL, Body: `{"lane":1}`, AttemptDeadline: 20 * time.Second})
	want := map[string]string{
		"method": "POST", "body": `{"lane":1}`, "Content-Type": "application/json",
		"User-Agent": "Google-Cloud-Scheduler", "X-CloudScheduler": "true", "X-CloudScheduler-JobName": "orders-1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !attempt.OK() || attempt.Job != "orders-1" || string(attempt.Body) != "the report" || len(observed) != 1 {
		t.Errorf("attempt %+v, observed %d", attempt, len(observed))
	}
}

func TestExecute_NobodyThere_IsAnAttemptWithoutAStatus(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	attempt := (&scheduler.Scheduler{Client: http.DefaultClient}).Execute(t.Context(), scheduler.Job{Name: "j", URL: server.URL, AttemptDeadline: 20 * time.Second})
	if attempt.Err == nil || attempt.Status != 0 || attempt.OK() {
		t.Errorf("attempt %+v, want an error and no status", attempt)
	}
}

// Each call is answered only when the other one has come too. The first fails: one success of the two is enough.
func TestExecute_Twice_MakesTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	both := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		nth := calls.Add(1)
		if nth == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-r.Context().Done():
			return
		}
		if nth == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	var mu sync.Mutex
	var statuses []int
	s := scheduler.Scheduler{Client: server.Client(), Observe: func(a scheduler.Attempt) {
		mu.Lock()
		defer mu.Unlock()
		statuses = append(statuses, a.Status)
	}}
	attempt := s.Execute(t.Context(), scheduler.Job{Name: "j", URL: server.URL, AttemptDeadline: 20 * time.Second, RetryCount: 3, Twice: true})
	slices.Sort(statuses)
	if diff := cmp.Diff([]int{200, 503}, statuses); diff != "" || !attempt.OK() {
		t.Errorf("OK %t, statuses (-want +got):\n%s", attempt.OK(), diff)
	}
}
