package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/telemetry"
)

// line decodes the one line that was written.
func line(t *testing.T, out *bytes.Buffer) map[string]any {
	t.Helper()
	if got := strings.Count(out.String(), "\n"); got != 1 {
		t.Fatalf("%d lines, want 1: %s", got, out)
	}
	var fields map[string]any
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return fields
}

func TestNewLogger_WritesCloudLoggingsKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		level slog.Level
		want  string
	}{
		{slog.LevelInfo, "INFO"}, {slog.LevelWarn, "WARNING"}, {slog.LevelError, "ERROR"}, {telemetry.LevelCritical, "CRITICAL"},
	} {
		var out bytes.Buffer
		telemetry.NewLogger(&out, "my-project", slog.LevelInfo).LogAttrs(t.Context(), test.level, "hello", slog.Int("count", 3))
		got := line(t, &out)
		at, _ := got["time"].(string)
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Error(err)
		}
		delete(got, "time")
		want := map[string]any{"severity": test.want, "message": "hello", "count": 3.0}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// The ids come out of a request that functions-framework really serves: it alone can put them into a context.
func TestNewLogger_CarriesTheIDsOfTheRequestOutsideOfGroups(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 1)
	if err := funcframework.RegisterHTTPFunctionContext(t.Context(), "/ids", func(_ http.ResponseWriter, r *http.Request) {
		contexts <- r.Context()
	}); err != nil {
		t.Fatal(err)
	}
	url := serve(t) + "/ids"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Cloud-Trace-Context", "105445aa7843bc8bf206b120001000/1f;o=1")
	request.Header.Set("Function-Execution-Id", "exec-1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := <-contexts
	for project, trace := range map[string]string{
		"my-project": "projects/my-project/traces/105445aa7843bc8bf206b120001000",
		"":           "105445aa7843bc8bf206b120001000",
	} {
		var out bytes.Buffer
		logger := telemetry.NewLogger(&out, project, slog.LevelInfo).With(slog.String("lane", "0")).WithGroup("group").With(slog.Int("a", 1))
		logger.InfoContext(ctx, "hello", slog.Int("b", 2))
		got := line(t, &out)
		delete(got, "time")
		want := map[string]any{
			"severity": "INFO", "message": "hello", "lane": "0",
			"logging.googleapis.com/trace":  trace,
			"logging.googleapis.com/spanId": "1f",
			"logging.googleapis.com/labels": map[string]any{"execution_id": "exec-1"},
			"group":                         map[string]any{"a": 1.0, "b": 2.0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// serve starts functions-framework, which serves until the test binary ends: it has no shutdown.
func serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = funcframework.StartHostPort("127.0.0.1", port) }()
	deadline := time.After(10 * time.Second)
	for {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close()
			return "http://" + address
		}
		select {
		case <-deadline:
			t.Fatal("functions-framework does not serve")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// full is a report in which every field is set.
func full() record.Report {
	age := 12.5
	return record.Report{
		Run: "r1", Pipeline: "orders", Lane: 2, Outcome: record.Partial, StartedFrom: "checkpoint",
		Ranges: []record.RangeReport{{Topic: "orders", Partition: 3, From: 10, To: 20, DoneTo: 15, LogEnd: 30}},
		Read:   5, Written: 3, Duplicates: 1, DeadLettered: 1, Filtered: 7,
		Gaps:      []record.GapReport{{Topic: "orders", Partition: 3, From: 4, To: 10, Reason: "offset-before-log-start"}},
		Undecided: 8, Unanswered: 2, Remaining: new(int64(15)), OldestUnprocessedAgeSeconds: &age, LimitedBy: "time", DurationMs: 99,
		Notices: []string{"a notice"}, Error: "an error", ErrorKind: "transient", ErrorClass: "a-class",
		StartedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func logged(t *testing.T, report record.Report) map[string]any {
	t.Helper()
	var out bytes.Buffer
	telemetry.LogReport(t.Context(), telemetry.NewLogger(&out, "", slog.LevelInfo), report)
	return line(t, &out)
}

var camel = regexp.MustCompile(`([a-z])([A-Z])`)

// A field that is added to the report must reach the log line: none is left out, and all are snake_case.
func TestLogReport_HoldsEveryFieldOfTheReport(t *testing.T) {
	t.Parallel()
	report := full()
	got := logged(t, report)
	fields := reflect.TypeOf(report)
	for i := range fields.NumField() {
		if reflect.ValueOf(report).Field(i).IsZero() {
			t.Fatalf("full leaves %s out", fields.Field(i).Name)
		}
		key, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		key = strings.ToLower(camel.ReplaceAllString(key, "${1}_$2"))
		if _, found := got[key]; !found {
			t.Errorf("the line has no %s", key)
		}
	}
	for key := range got {
		if strings.ToLower(key) != key {
			t.Errorf("%s is not snake_case", key)
		}
	}
	if got["gap_records"] != 6.0 {
		t.Errorf("gap_records = %v, want 6", got["gap_records"])
	}
}

func TestLogReport_UnknownAgeIsNull(t *testing.T) {
	t.Parallel()
	if age, found := logged(t, record.Report{Outcome: record.Done})["oldest_unprocessed_age_seconds"]; !found || age != nil {
		t.Errorf("age = %v (%t), want null", age, found)
	}
}

func TestLogReport_SeverityIsForThePersonOnCall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		report record.Report
		want   string
	}{
		{record.Report{Outcome: record.Done}, "INFO"},
		{record.Report{Outcome: record.Idle}, "INFO"},
		{record.Report{Outcome: record.Partial}, "INFO"},
		{record.Report{Outcome: record.Paused}, "INFO"},
		{record.Report{Outcome: record.Skipped, Error: "the lane is held", ErrorKind: "conflict"}, "INFO"},
		{record.Report{Outcome: record.Done, Gaps: full().Gaps}, "WARNING"},
		{record.Report{Outcome: record.Failed, ErrorKind: "transient"}, "WARNING"},
		{record.Report{Outcome: record.Failed, ErrorKind: "poison"}, "ERROR"},
		{record.Report{Outcome: record.Failed}, "ERROR"},
		{record.Report{Outcome: record.Failed, ErrorKind: "fatal"}, "CRITICAL"},
	} {
		if got := logged(t, test.report)["severity"]; got != test.want {
			t.Errorf("%s %s: %v, want %s", test.report.Outcome, test.report.ErrorKind, got, test.want)
		}
	}
}

func TestLogReport_ManyPartitionsStayInsideOneEntry(t *testing.T) {
	t.Parallel()
	report := record.Report{Outcome: record.Done}
	for i := range int32(5000) {
		report.Ranges = append(report.Ranges, record.RangeReport{Topic: strings.Repeat("t", 249), Partition: i, From: 1 << 60, To: 1 << 61})
		report.Gaps = append(report.Gaps, record.GapReport{Topic: strings.Repeat("t", 249), Partition: i, From: 1 << 40, To: 1 << 41})
	}
	var out bytes.Buffer
	telemetry.LogReport(t.Context(), telemetry.NewLogger(&out, "", slog.LevelInfo), report)
	const most = 256 << 10
	if out.Len() > most {
		t.Errorf("%d bytes, Cloud Logging takes %d", out.Len(), most)
	}
	if got := line(t, &out)["ranges_total"]; got != 5000.0 {
		t.Errorf("ranges_total = %v", got)
	}
}
