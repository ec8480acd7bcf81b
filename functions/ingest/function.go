package ingest

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
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

// function handles the calls of one instance. What it needs is built at the first call and kept only on success, so
// that a passing failure does not stay.
type function struct {
	service service
	logger  *slog.Logger
}

// ServeHTTP handles one call: decode, run, report.
func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	called, err := decode(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	report, err := f.service.run(r.Context(), called, lifecycle.Stopping(r.Context()))
	if bad := new(badCall); errors.As(err, &bad) {
		refuse(w, bad)
		return
	}
	telemetry.LogReport(r.Context(), f.logger, report)
	answer(w, status(err), report)
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
	pipeline := ""
	if unassembled, ok := errors.AsType[*assembleError](err); ok {
		pipeline = unassembled.pipeline
	}
	return record.Report{
		Pipeline: pipeline, Outcome: record.Failed, Error: text, ErrorKind: fault.KindOf(err).String(), ErrorClass: fault.ClassOf(err),
		Ranges: []record.RangeReport{}, Gaps: []record.GapReport{},
	}
}
