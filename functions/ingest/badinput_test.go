package ingest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tidemark/tidemark/shared/record"
)

const (
	// secret is in every credential and payload in every record value: neither may be told.
	secret  = "s3cr3t-word"
	payload = "4111-1111"
	// patience is how long a wrong setting may keep its finder waiting.
	patience = 15 * time.Second
)

// mistake is one way in which an operator's setup can be wrong, and what the answer must say.
type mistake struct {
	name   string
	make   func(*setup)
	status int
	class  string   // of a fatal error
	says   []string // all of it in one line
}

func (w *world) mistakes(t *testing.T, sasl *kfake.Cluster) []mistake {
	t.Helper()
	closed, silent := closedPort(t), mute(t)
	uri := func(host string) string {
		return "mongodb://ingest:" + secret + "@" + host + "/?directConnection=true"
	}
	return []mistake{
		{"bad config", func(s *setup) {
			s.pipeline = "no/name"
			s.brokers = []string{"kafka://" + secret + ":9092"}
			s.sasl = "{mechanism: PLAIN, username: reader, pasword: " + secret + "}"
			s.more = "sinks: {}\n"
		}, 500, "bad-config", []string{"problems", "pipeline", "kafka.bootstrapServers", "kafka.sasl.pasword", "sinks"}},
		{"bad MongoDB URI", func(s *setup) { s.mongo = "mongodb://ingest:" + secret + "%@127.0.0.1/" }, 500, "bad-mongodb-uri", []string{"MongoDB URI"}},
		{"Kafka is not there", func(s *setup) { s.brokers = []string{closed} }, 503, "", []string{closed, "brokers"}},
		{"MongoDB is not there", func(s *setup) { s.mongo = uri(closed) }, 503, "", []string{closed, "MongoDB"}},
		{"Firestore is not there", func(s *setup) { s.firestore = closed }, 503, "", []string{closed, project}},
		{"Kafka refuses the password", func(s *setup) {
			s.brokers = sasl.ListenAddrs()
			s.sasl = "{mechanism: PLAIN, username: reader, password: wrong-" + secret + "}"
		}, 500, "kafka-auth", []string{"reader", "kafka.sasl.password"}},
		{"unknown topic", func(s *setup) { s.topic += "-misspelt" }, 500, "unknown-topic", []string{"-misspelt", "source.subscribe"}},
		{"Kafka never answers", func(s *setup) { s.brokers = []string{silent} }, 503, "", []string{silent, "brokers"}},
		{"MongoDB never answers", func(s *setup) { s.mongo = uri(silent) }, 503, "", []string{silent, "MongoDB"}},
		{"Firestore never answers", func(s *setup) { s.firestore = silent }, 503, "", []string{silent, project}},
	}
}

// attempt is a mistake that is made.
type attempt struct {
	mistake

	right    setup
	ids      []string
	function *function
	log      *lines

	recorder *httptest.ResponseRecorder
	took     time.Duration
}

// Each mistake is made through the real wiring, is told within 15 s in one line with the right status, loses nothing,
// and tells neither a credential nor what is in a record. The wiring reads the environment, so that the functions are
// built one after the other; then they are called all at once, because the slow ones wait for their time-outs.
func TestIngest_BadInput_IsToldSoonInOneLineAndLosesNothing(t *testing.T) { //nolint:paralleltest // the wiring reads the environment, which is set here
	sasl := startKafka(t, kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", secret))
	w := newWorld(t, kfake.NumBrokers(1), kfake.AllowAutoTopicCreation()) // Tidemark itself never asks for that
	const records, poison = 20, 19
	var attempts []*attempt
	for i, m := range w.mistakes(t, sasl) {
		a := &attempt{mistake: m, right: w.setup(fmt.Sprintf("wrong-%d", i))}
		cluster, auth := w.kafka, []kgo.Opt(nil)
		if m.class == "kafka-auth" {
			cluster, auth = sasl, []kgo.Opt{kgo.SASL(plain.Auth{User: "reader", Pass: secret}.AsMechanism())}
			a.right.brokers = sasl.ListenAddrs()
			a.right.sasl = "{mechanism: PLAIN, username: reader, password: " + secret + "}"
		}
		wrong := a.right
		m.make(&wrong)
		a.ids = produce(t, cluster, a.right.topic, 1, numbered(records, `{"n":%d,"card":"`+payload+`"}`, poison), append(auth, kgo.AllowAutoTopicCreation())...)
		a.function, a.log, _ = w.wire(t, wrong) // its error is the answer to the call
		attempts = append(attempts, a)
	}
	var calls sync.WaitGroup
	for _, a := range attempts {
		calls.Go(func() {
			began := time.Now()
			a.recorder = httptest.NewRecorder()
			a.function.ServeHTTP(a.recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
			a.took = time.Since(began)
		})
	}
	calls.Wait()
	for _, a := range attempts {
		a.check(t)
		a.repair(t, w, poison)
	}
}

func (a *attempt) check(t *testing.T) {
	t.Helper()
	got := decodeAnswer(t, a.recorder)
	line := got.report.Error
	t.Logf("%-26s %d %7s  %s", a.name, got.Code, seconds(a.took), line)
	if got.Code != a.status || got.report.Outcome != record.Failed || got.report.ErrorClass != a.class {
		t.Errorf("%s: %d %s %q, want %d failed %q", a.name, got.Code, got.report.Outcome, got.report.ErrorClass, a.status, a.class)
	}
	if a.took > patience {
		t.Errorf("%s: told after %s, want %s at most", a.name, a.took, patience)
	}
	if line == "" || strings.ContainsAny(line, "\n\r") {
		t.Errorf("%s: the error is not one line: %q", a.name, line)
	}
	for _, what := range a.says {
		if !strings.Contains(line, what) {
			t.Errorf("%s: the error does not name %q: %s", a.name, what, line)
		}
	}
	if lines := strings.Count(a.log.String(), "\n"); lines != 1 {
		t.Errorf("%s: %d log lines, want 1:\n%s", a.name, lines, a.log)
	}
	for place, text := range map[string]string{"answer": a.recorder.Body.String(), "log": a.log.String()} {
		for _, word := range []string{secret, payload} {
			if strings.Contains(text, word) {
				t.Errorf("%s: the %s tells %q: %s", a.name, place, word, text)
			}
		}
	}
}

// repair runs with the right configuration: everything arrives.
func (a *attempt) repair(t *testing.T, w *world, poison int) {
	t.Helper()
	f, log, err := w.wire(t, a.right)
	if err != nil {
		t.Fatalf("%s: %v", a.name, err)
	}
	if got := f.call(t, http.MethodPost, ""); got.Code != 200 || got.report.Outcome != record.Done {
		t.Errorf("%s: the run after it ended with %d %s: %s", a.name, got.Code, got.report.Outcome, got.report.Error)
	}
	wantDocuments(t, w, a.right, a.ids, poison)
	if strings.Contains(log.String(), payload) || strings.Contains(log.String(), secret) {
		t.Errorf("%s: the log of the run after it tells too much: %s", a.name, log)
	}
}
