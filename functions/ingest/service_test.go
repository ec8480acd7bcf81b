package ingest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

func TestService_FailedBuildIsNotKeptAndAGoodOneIs(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	good := s.service.build
	failures := []error{
		fault.Transientf("reading the configuration: a secret cannot be read now"),
		fault.Fatalf("bad-config", "reading the configuration: 2 problems:\n%w", errors.Join(errors.New("a"), errors.New("b"))),
	}
	s.service.build = func(ctx context.Context) (*pipeline, error) {
		if s.builds < len(failures) {
			s.builds++
			return nil, failures[s.builds-1]
		}
		return good(ctx)
	}
	for i, want := range []struct {
		status  int
		outcome record.Outcome
		text    string
	}{
		{503, record.Failed, "reading the configuration: a secret cannot be read now"},
		{500, record.Failed, "reading the configuration: 2 problems: a; b"},
		{200, record.Done, ""},
		{200, record.Idle, ""},
	} {
		got := s.call(t, http.MethodPost, "")
		if got.Code != want.status || got.report.Outcome != want.outcome || got.report.Error != want.text {
			t.Errorf("call %d: %d %s %q, want %v", i+1, got.Code, got.report.Outcome, got.report.Error, want)
		}
	}
	if s.builds != 3 {
		t.Errorf("built %d times, want 3: twice in vain, then once for all", s.builds)
	}
	if got := strings.Count(s.log.String(), "\n"); got != 4 {
		t.Errorf("%d log lines for 4 calls: %s", got, s.log)
	}
}

// queue makes calls at the same time and returns their answers once they are all waiting for a build. It is for
// synctest's clock.
func (s *stand) queue(ctx context.Context, calls int) <-chan *httptest.ResponseRecorder {
	answers := make(chan *httptest.ResponseRecorder, calls)
	for range calls {
		go func() {
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody))
			answers <- recorder
		}()
	}
	synctest.Wait()
	return answers
}

func TestService_CallsShareOneBuildAndItsFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		good := s.service.build
		s.service.build = func(context.Context) (*pipeline, error) {
			s.builds++
			<-time.After(time.Second)
			return nil, fault.Transientf("Secret Manager did not answer")
		}
		const calls = 4
		began := time.Now()
		answers := s.queue(t.Context(), calls)
		for range calls {
			got := decodeAnswer(t, <-answers)
			if got.Code != 503 || got.report.Error != "Secret Manager did not answer" {
				t.Errorf("%d %q, want 503 and the failure of the build", got.Code, got.report.Error)
			}
		}
		if took := time.Since(began); s.builds != 1 || took != time.Second {
			t.Errorf("%d builds in %s, want one for all calls in 1 s", s.builds, took)
		}
		s.service.build = good
		if got := s.call(t, http.MethodPost, ""); got.Code != 200 || s.builds != 2 {
			t.Errorf("the call after it: %d with %d builds, want 200 and a build of its own", got.Code, s.builds)
		}
	})
}

// The build is for all: the caller that began it may go away.
func TestService_CallerThatGoesAwayWaitsNoLongerAndLeavesTheBuildToTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		good, finish := s.service.build, make(chan struct{})
		s.service.build = func(ctx context.Context) (*pipeline, error) {
			select {
			case <-finish:
				return good(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		first := s.queue(leaving, 1)
		second := s.queue(t.Context(), 1)
		leave()
		if got := decodeAnswer(t, <-first); got.Code != 503 || !strings.Contains(got.report.Error, "waiting for the pipeline to be built") {
			t.Errorf("the call that went away: %d %q, want 503 at once", got.Code, got.report.Error)
		}
		close(finish)
		if got := decodeAnswer(t, <-second); got.Code != 200 || got.report.Outcome != record.Done || s.builds != 1 {
			t.Errorf("the call that waited: %d %+v, %d builds, want 200 with the one build", got.Code, got.report, s.builds)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got := decodeAnswer(t, <-s.queue(gone, 1)); got.Code != 200 {
			t.Errorf("a call that needs no build: %d, want it to run to its end", got.Code)
		}
	})
}

func TestService_StopWhileWaitingForTheBuildIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		finish, stop := make(chan struct{}), make(chan struct{})
		s.service.build = func(context.Context) (*pipeline, error) {
			<-finish
			return nil, errors.New("nobody waits for it")
		}
		defer close(finish)
		failures := make(chan error, 2)
		for range cap(failures) {
			go func() {
				_, err := s.service.run(t.Context(), call{}, stop)
				failures <- err
			}()
		}
		synctest.Wait()
		close(stop)
		for range cap(failures) {
			if err := <-failures; status(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "stopping") {
				t.Errorf("%v, status %d, want 503 that says why", err, status(err))
			}
		}
	})
}

// At the default of 128MiB the program's own 26 MiB and 80 % of the limit together were over it.
func TestSoftLimit_LeavesRoomForTheProgramItself(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	for memory, want := range map[int64]int64{64: 30, 128: 94, 1000: 800} {
		if got := softLimit(memory * mebibyte); got != want*mebibyte {
			t.Errorf("of %d MiB the runtime gets %d, want %d", memory, got/mebibyte, want)
		}
	}
}
