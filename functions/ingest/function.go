package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lifecycle"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/telemetry"
)

func init() { //nolint:gochecknoinits // the functions framework finds functions by what they register here
	functions.HTTP("Ingest", lifecycle.New(os.Exit, syscall.SIGTERM).HTTP(newFunction().ServeHTTP))
}

// maxBody bounds a call's body: it holds at most a lane.
const maxBody = 64 << 10

// function handles the calls of one instance. What it needs is built at the first call and kept only on success, so
// that a passing failure does not stay.
type function struct {
	service service
	logger  *slog.Logger
}

// call is what Cloud Scheduler sends: an empty body is lane 0.
type call struct {
	Lane laneNumber `json:"lane"`
}

// laneNumber refuses null, which would be lane 0 otherwise: it is what a forgotten variable becomes.
type laneNumber int

// UnmarshalJSON reads a whole number.
func (n *laneNumber) UnmarshalJSON(text []byte) error {
	lane, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("reading a lane: %w", err)
	}
	*n = laneNumber(lane)
	return nil
}

// ServeHTTP handles one call: decode, run, report.
func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	called, err := decode(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	// The caller may give up before the run's time is over, and Cloud Scheduler's attempt deadline does. The run goes on
	// to its own end then, and commits what it has moved.
	ctx := context.WithoutCancel(r.Context())
	report, err := f.service.run(ctx, called, lifecycle.Stopping(r.Context()))
	if bad := new(badCall); errors.As(err, &bad) {
		refuse(w, bad)
		return
	}
	telemetry.LogReport(ctx, f.logger, report)
	answer(w, status(err), report)
}

// badCall is a call that no retry makes better.
type badCall struct {
	status int
	reason string
}

func (e *badCall) Error() string { return e.reason }

// decode reads a call, strictly: a misspelt lane must not become lane 0.
func decode(w http.ResponseWriter, r *http.Request) (call, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return call{}, &badCall{http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed: call with POST", r.Method)}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return call{}, &badCall{http.StatusBadRequest, fmt.Sprintf("the body could not be read, or is over %d bytes", maxBody)}
	}
	called := call{}
	if len(body) == 0 {
		return called, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&called); err != nil || bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return call{}, &badCall{http.StatusBadRequest, `the body is not a call: send nothing, or JSON such as {"lane":0}`}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return call{}, &badCall{http.StatusBadRequest, `the body holds more than one call: send nothing, or JSON such as {"lane":0}`}
	}
	return called, nil
}

// status maps an error's kind. The codes only tell alerts apart: Cloud Scheduler tries all of them again alike.
func status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	switch fault.KindOf(err) {
	case fault.Transient:
		return http.StatusServiceUnavailable
	case fault.Conflict:
		return http.StatusOK
	case fault.Poison, fault.Fatal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

func refuse(w http.ResponseWriter, err error) {
	bad := new(badCall)
	errors.As(err, &bad)
	answer(w, bad.status, map[string]string{"error": bad.reason})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller is gone: the report is in the log
}

// failed is the report of a call that did not come as far as a run. A report's error is one line, and a configuration's
// lists its problems in one line each.
func failed(err error) record.Report {
	text := strings.NewReplacer(":\n", ": ", "\n", "; ").Replace(err.Error())
	return record.Report{
		Outcome: record.Failed, Error: text, ErrorKind: fault.KindOf(err).String(), ErrorClass: fault.ClassOf(err),
		Ranges: []record.RangeReport{}, Gaps: []record.GapReport{},
	}
}
