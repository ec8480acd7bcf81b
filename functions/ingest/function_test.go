package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/lifecycle"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/telemetry"
)

func TestMain(m *testing.M) { realtest.Main(m) }

// stand is the function over parts in memory: all of it is real but Kafka, MongoDB and Firestore.
type stand struct {
	*function

	source *pulltest.MemSource
	sink   *pulltest.MemSink
	store  lease.Store
	runner *pull.Runner
	log    *lines
	builds int // calls of the builder; calls of the handler are one after the other where it counts
}

// newStand has two lanes and a topic of two partitions, one for each, with 20 records in each.
func newStand(t *testing.T) *stand {
	t.Helper()
	mapper, err := mapping.New(mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{
		source: pulltest.NewSource(), sink: pulltest.NewMemSink(pulltest.MemSinkOptions{}),
		store: localcheckpoint.NewMemory(nil), log: &lines{},
	}
	s.source.AddTopic("orders", 2)
	for i := range 40 {
		s.source.Produce("orders", int32(i%2), record.Record{Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	logger := telemetry.NewLogger(s.log, "", slog.LevelInfo)
	s.runner = &pull.Runner{
		Settings: pull.Settings{
			Pipeline: "orders", Topics: []string{"orders"}, Lanes: 2, Layout: 1, Identity: map[string]string{"sink": "shop.orders"},
			Starting: record.StartingOffsets{Mode: record.StartEarliest}, StartingText: "earliest",
			MinPerPartition: 1, InFlight: 1 << 20, ChunkRecords: 100, ChunkBytes: 1 << 20, Writers: 2,
			LeaseLength: time.Minute, Heartbeat: 20 * time.Second, CommitEvery: time.Second,
			Reserve: time.Second, Patience: time.Second, MaxRejectRatio: 0.5, RejectWindow: 100,
		},
		Source: s.source, Sink: s.sink, Converter: mapper, Checkpoints: s.store, NewRunID: newRunID, Logger: logger,
	}
	s.function = &function{logger: logger, service: service{build: func(context.Context) (*pipeline, error) {
		s.builds++
		return &pipeline{runner: s.runner, deadline: time.Minute}, nil
	}}}
	return s
}

// lines is a log that may be written by several goroutines.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// answered is an answer with its JSON body.
type answered struct {
	*httptest.ResponseRecorder

	body   map[string]any
	report record.Report
}

func (f *function) call(t *testing.T, method, body string) answered {
	t.Helper()
	recorder := httptest.NewRecorder()
	f.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body)))
	return decodeAnswer(t, recorder)
}

func decodeAnswer(t *testing.T, recorder *httptest.ResponseRecorder) answered {
	t.Helper()
	a := answered{ResponseRecorder: recorder}
	if err := errors.Join(json.Unmarshal(recorder.Body.Bytes(), &a.body), json.Unmarshal(recorder.Body.Bytes(), &a.report)); err != nil {
		t.Fatalf("%d: %v: %s", recorder.Code, err, recorder.Body)
	}
	if got := recorder.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	return a
}

func TestServeHTTP_RefusesWhatIsNoCallAndRunsNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, method, body string
		status             int
		says               string
	}{
		{"GET", "GET", "", 405, "POST"},
		{"HEAD", "HEAD", "", 405, "POST"},
		{"PUT", "PUT", `{"lane":0}`, 405, "POST"},
		{"body over the limit", "POST", `{"lane":0}` + strings.Repeat(" ", maxBody), 400, "65536"},
		{"misspelt field", "POST", `{"lanes":1}`, 400, "lane"},
		{"second field", "POST", `{"lane":0,"pipeline":"orders"}`, 400, "lane"},
		{"second document", "POST", `{"lane":0}{"lane":1}`, 400, "more than one"},
		{"text behind it", "POST", `{"lane":0} and more`, 400, "more than one"},
		{"text", "POST", `lane 0`, 400, "JSON"},
		{"cut off", "POST", `{"lane":`, 400, "JSON"},
		{"only blanks", "POST", " \n", 400, "JSON"},
		{"text for a number", "POST", `{"lane":"1"}`, 400, "JSON"},
		{"null for a lane", "POST", `{"lane":null}`, 400, "JSON"},
		{"null for a call", "POST", ` null `, 400, "JSON"},
		{"lane twice", "POST", `{"lane":1,"lane":0}`, 400, "JSON"},
		{"lane in capitals", "POST", `{"LANE":1}`, 400, "JSON"},
		{"lane in two spellings", "POST", `{"lane":1,"Lane":0}`, 400, "JSON"},
		{"lane within lane", "POST", `{"lane":{"lane":1}}`, 400, "JSON"},
		{"no comma", "POST", `{"lane":1 "lane":0}`, 400, "JSON"},
		{"comma without more", "POST", `{"lane":1,}`, 400, "JSON"},
		{"no end", "POST", `{"lane":1`, 400, "JSON"},
		{"wrong end", "POST", `{"lane":1]`, 400, "JSON"},
		{"fraction", "POST", `{"lane":0.5}`, 400, "JSON"},
		{"beyond 64 bits", "POST", `{"lane":99999999999999999999}`, 400, "JSON"},
		{"list", "POST", `[0]`, 400, "JSON"},
		{"number", "POST", `1`, 400, "JSON"},
		{"negative lane", "POST", `{"lane":-1}`, 400, "lanes 0 to 1"},
		{"lane behind the last", "POST", `{"lane":2}`, 400, "lanes 0 to 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			got := s.call(t, test.method, test.body)
			reason, _ := got.body["error"].(string)
			if got.Code != test.status || len(got.body) != 1 || !strings.Contains(reason, test.says) || strings.Contains(reason, "\n") {
				t.Errorf("%d %v, want %d and an error that says %q", got.Code, got.body, test.status, test.says)
			}
			if allow := got.Header().Get("Allow"); (allow == "POST") != (test.status == 405) {
				t.Errorf("Allow is %q with status %d", allow, test.status)
			}
			snap, err := s.store.Load(t.Context(), 0)
			if err != nil || snap.Doc != nil || len(s.sink.Documents()) != 0 || s.log.String() != "" {
				t.Errorf("something ran: checkpoint %v, %v, %d documents, log %q", snap.Doc, err, len(s.sink.Documents()), s.log)
			}
		})
	}
}

func TestServeHTTP_RunsTheLaneThatIsNamedAndLane0WithoutABody(t *testing.T) {
	t.Parallel()
	for body, lane := range map[string]int{"": 0, "{}": 0, `{"lane":0}`: 0, ` {"lane":1} ` + "\n": 1} {
		s := newStand(t)
		got := s.call(t, http.MethodPost, body)
		if got.Code != 200 || got.report.Outcome != record.Done || got.report.Lane != lane || got.report.Written != 20 {
			t.Errorf("%q: %d %+v, want lane %d done", body, got.Code, got.report, lane)
		}
		for _, doc := range s.sink.Documents() { // orders/0 is lane 0 of 2 and has the even numbers
			if n := int(doc.Lookup("n").AsInt64()); n%2 != lane {
				t.Errorf("%q: lane %d wrote record %d", body, lane, n)
			}
		}
	}
}

func TestServeHTTP_StatusTellsAlertsApart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		arrange func(t *testing.T, s *stand)
		status  int
		outcome record.Outcome
		kind    string
		level   string
	}{
		{"done", func(*testing.T, *stand) {}, 200, record.Done, "", "INFO"},
		{"partial", func(_ *testing.T, s *stand) { s.runner.MaxRecords = 5 }, 200, record.Partial, "", "INFO"},
		{"a partition has no leader at a first run", func(_ *testing.T, s *stand) {
			s.runner.Starting, s.runner.StartingText = record.StartingOffsets{Mode: record.StartLatest}, "latest"
			s.source.Hide("orders", 0, true)
			s.source.Hide("orders", 1, true)
		}, 503, record.Failed, "transient", "WARNING"},
		{"the topic does not exist", func(_ *testing.T, s *stand) { s.source.RemoveTopic("orders") }, 500, record.Failed, "fatal", "CRITICAL"},
		{"retention passed the checkpoint", func(t *testing.T, s *stand) {
			t.Helper()
			s.runner.MaxRecords = 5
			s.call(t, http.MethodPost, "")
			s.source.DeleteRecords("orders", 0, 9)
			s.source.DeleteRecords("orders", 1, 9)
		}, 500, record.Failed, "fatal", "CRITICAL"},
		{"another run holds the lane", func(t *testing.T, s *stand) {
			t.Helper()
			s.edit(t, func(doc *record.Checkpoint) {
				doc.Lease = record.Lease{Holder: "another", Epoch: 7, ExpiresAt: time.Now().Add(time.Hour)}
			})
		}, 200, record.Skipped, "", "INFO"},
		{"paused", func(t *testing.T, s *stand) {
			t.Helper()
			s.edit(t, func(doc *record.Checkpoint) { doc.Paused = true })
		}, 200, record.Paused, "", "INFO"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			test.arrange(t, s)
			before := len(s.log.String())
			got := s.call(t, http.MethodPost, "")
			if got.Code != test.status || got.report.Outcome != test.outcome || got.report.ErrorKind != test.kind {
				t.Errorf("%d %s %q (%s), want %d %s %q", got.Code, got.report.Outcome, got.report.ErrorKind, got.report.Error,
					test.status, test.outcome, test.kind)
			}
			if failed := test.outcome == record.Failed; failed != (got.report.Error != "") || strings.Contains(got.report.Error, "\n") {
				t.Errorf("error %q", got.report.Error)
			}
			line := s.log.String()[before:]
			if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"severity":"`+test.level+`"`) {
				t.Errorf("log %q, want one line of severity %s", line, test.level)
			}
		})
	}
}

// edit makes a first run of lane 0 and changes its document as an operator or another run would.
func (s *stand) edit(t *testing.T, change func(*record.Checkpoint)) {
	t.Helper()
	s.call(t, http.MethodPost, "")
	snap, err := s.store.Load(t.Context(), 0)
	if err != nil || snap.Doc == nil {
		t.Fatalf("no document after a run: %v", err)
	}
	doc := snap.Doc.Clone()
	change(&doc)
	doc.Seq++
	if _, err := s.store.Update(t.Context(), doc, snap.Revision, nil); err != nil {
		t.Fatal(err)
	}
	s.source.Produce("orders", 0, record.Record{Value: []byte(`{"n":100}`)})
	s.source.Produce("orders", 1, record.Record{Value: []byte(`{"n":101}`)})
}

func TestStatus_EachKindHasItsOwn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 200},
		{io.EOF, 503},
		{fault.Transientf("x"), 503},
		{fault.Conflictf("x"), 200},
		{fault.Fatalf("class", "x"), 500},
		{fault.Poisonf("class", "x"), 500},
		{fmt.Errorf("wrapped: %w", fault.Fatalf("class", "x")), 500},
	} {
		if got := status(test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
}

// keys of a report, as docs/architecture.md has them.
var (
	always    = []string{"run", "pipeline", "lane", "outcome", "startedAt", "durationMs", "ranges", "read", "written", "duplicates", "deadLettered", "filtered", "gaps", "undecided", "remaining", "oldestUnprocessedAgeSeconds"}
	rangeKeys = []string{"topic", "partition", "from", "to", "doneTo", "logEnd"}
)

func TestServeHTTP_ReportHasTheDocumentedKeysAndNoOther(t *testing.T) {
	t.Parallel()
	check := func(what string, got map[string]any, want ...string) {
		t.Helper()
		keys := slices.Sorted(maps.Keys(got))
		slices.Sort(want)
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	s := newStand(t)
	s.runner.MaxRecords = 5
	partial := s.call(t, http.MethodPost, "")
	check("partial", partial.body, append(slices.Clone(always), "startedFrom", "limitedBy")...)
	s.runner.MaxRecords = 0
	done := s.call(t, http.MethodPost, "")
	check("done", done.body, append(slices.Clone(always), "startedFrom")...)
	check("range", done.body["ranges"].([]any)[0].(map[string]any), rangeKeys...)
	idle := s.call(t, http.MethodPost, "")
	check("idle", idle.body, append(slices.Clone(always), "startedFrom")...)
	s.source.RemoveTopic("orders")
	s.runner.Topics = []string{"unknown"}
	failed := s.call(t, http.MethodPost, "")
	check("failed", failed.body, append(slices.Clone(always), "error", "errorKind", "errorClass")...)
	other := newStand(t)
	other.edit(t, func(doc *record.Checkpoint) {
		doc.Lease = record.Lease{Holder: "another", Epoch: 7, ExpiresAt: time.Now().Add(time.Hour)}
	})
	check("skipped", other.call(t, http.MethodPost, "").body, append(slices.Clone(always), "startedFrom", "notices")...)

	for name, answer := range map[string]answered{"idle": idle, "failed": failed} {
		if ranges, ok := answer.body["ranges"].([]any); !ok || len(ranges) != 0 {
			t.Errorf("%s: ranges are %v, want an empty list, never null", name, answer.body["ranges"])
		}
		if gaps, ok := answer.body["gaps"].([]any); !ok || len(gaps) != 0 {
			t.Errorf("%s: gaps are %v, want an empty list, never null", name, answer.body["gaps"])
		}
	}
	if partial.body["oldestUnprocessedAgeSeconds"] != nil || done.body["oldestUnprocessedAgeSeconds"] != 0.0 {
		t.Errorf("ages %v and %v, want null where something is left and 0 where nothing is",
			partial.body["oldestUnprocessedAgeSeconds"], done.body["oldestUnprocessedAgeSeconds"])
	}
}

// hanging is a source whose last 10 records of each partition belong to a transaction that hangs from the moment that
// reading begins: a run can neither read them nor end by itself.
type hanging struct{ *pulltest.MemSource }

func (h hanging) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) pull.Reader {
	for _, rng := range ranges {
		h.SetLSO(rng.Partition.Topic, rng.Partition.ID, rng.To-10)
	}
	return h.MemSource.Open(ctx, ranges, topicIDs)
}

// until waits for something that comes soon.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.After(20 * time.Second); !done(); {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	until(t, what, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

func TestServeHTTP_CallerThatGoesAwayDoesNotStopTheRun(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.runner.Source = hanging{s.source}
	left, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-r.Context().Done()
			close(left)
		}()
		s.ServeHTTP(w, r)
		close(ended)
	}))
	t.Cleanup(server.Close)

	ctx, goAway := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			gone <- err
			return
		}
		response, err := server.Client().Do(request)
		if err == nil {
			err = errors.Join(errors.New("it was answered"), response.Body.Close())
		}
		gone <- err
	}()
	until(t, "the first half of the records", func() bool { return len(s.sink.Documents()) == 10 })
	goAway()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	within(t, left, "the server to notice that the caller is gone")
	s.source.SetLSO("orders", 0, record.Unknown)
	s.source.SetLSO("orders", 1, record.Unknown)
	within(t, ended, "the run to end")
	if got := len(s.sink.Documents()); got != 20 || !strings.Contains(s.log.String(), `"outcome":"done"`) {
		t.Errorf("%d documents, log %s, want 20 and a run that is done", got, s.log)
	}
	snap, err := s.store.Load(t.Context(), 0)
	if err != nil || snap.Doc.Lease.Holder != "" || snap.Doc.LastRun == "" {
		t.Errorf("document %+v, %v, want the lease given back", snap.Doc, err)
	}
}

// The signal is a real one, sent to this process; only the exit is not.
func TestServeHTTP_SIGTERM_EndsTheRunAsPartialAndKeepsWhatWasMoved(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.runner.Source = hanging{s.source}
	exited := make(chan struct{})
	drain := lifecycle.New(func(code int) {
		if code != 0 {
			t.Errorf("the process would end with %d", code)
		}
		close(exited)
	}, syscall.SIGTERM)
	handler := drain.HTTP(s.ServeHTTP)
	recorder := httptest.NewRecorder()
	ended := make(chan struct{})
	go func() {
		handler(recorder, httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "/", http.NoBody))
		close(ended)
	}()
	until(t, "the first half of the records", func() bool { return len(s.sink.Documents()) == 10 })
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	within(t, ended, "the run to end")
	within(t, exited, "the process to exit")
	got := decodeAnswer(t, recorder)
	if got.Code != 200 || got.report.Outcome != record.Partial || got.report.LimitedBy != "stop" ||
		got.report.Written != 10 || *got.report.Remaining != 10 {
		t.Errorf("%d %+v, want 200 and a partial run that was stopped after 10 of 20", got.Code, got.report)
	}
	snap, err := s.store.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for partition, position := range snap.Doc.Offsets {
		if position.Offset != 10 {
			t.Errorf("%s is at %d, want 10", partition, position.Offset)
		}
	}
	late := httptest.NewRecorder()
	handler(late, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
	if late.Code != http.StatusServiceUnavailable {
		t.Errorf("a call after the signal was answered with %d", late.Code)
	}
}

func TestNewRunID_IsUniqueAndSortsByTime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	first := newRunID()
	for range 1000 {
		seen[newRunID()] = true
	}
	until(t, "the next millisecond", func() bool { return newRunID()[:20] > first[:20] })
	if last := newRunID(); len(seen) != 1000 || last <= first {
		t.Errorf("%d of 1000 ids are different; %s then %s", len(seen), first, last)
	}
}
