package ingest

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/shared/record"
)

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// binaryEvent are the headers of a CloudEvent in binary form.
func binaryEvent() map[string]string {
	return map[string]string{
		"Ce-Id": "1", "Ce-Source": "//cloudscheduler", "Ce-Specversion": "1.0", "Ce-Type": "tick", "Content-Type": "application/json",
	}
}

func structured() map[string]string {
	return map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}
}

func (f *function) event(t *testing.T, headers map[string]string, body string) answered {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	f.ServeHTTP(recorder, request)
	return decodeAnswer(t, recorder)
}

const attributes = `"specversion":"1.0","id":"1","source":"//pubsub","type":"google.cloud.pubsub.topic.v1.messagePublished"`

func TestServeHTTP_RunsTheLaneThatAnEventNames(t *testing.T) {
	t.Parallel()
	push := func(data string) string {
		return `{"message":{"attributes":{"lane":"0"},"data":"` + base64Of(data) + `","messageId":"7","publishTime":"2026-01-01T00:00:00Z"},` +
			`"subscription":"projects/p/subscriptions/s","deliveryAttempt":2}`
	}
	for _, test := range []struct {
		name    string
		headers map[string]string
		body    string
		lane    int
	}{
		{"push", nil, push(`{"lane":1}`), 1},
		{"push of an empty object", nil, push(`{}`), 0},
		{"push without data", nil, `{"message":{"messageId":"7"},"subscription":"s"}`, 0},
		{"push of empty data", nil, `{"message":{"data":""}}`, 0},
		{"binary event", binaryEvent(), `{"lane":1}`, 1},
		{"binary event without data", binaryEvent(), ``, 0},
		{"structured event", structured(), `{` + attributes + `,"data":{"lane":1}}`, 1},
		{"structured event in base64", structured(), `{` + attributes + `,"data_base64":"` + base64Of(`{"lane":1}`) + `"}`, 1},
		{"structured event without data", structured(), `{` + attributes + `}`, 0},
		{"binary event of a push", binaryEvent(), push(`{"lane":1}`), 1},
		{"structured event of a push", structured(), `{` + attributes + `,"data":` + push(`{"lane":1}`) + `}`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := newStand(t).event(t, test.headers, test.body)
			if got.Code != 200 || got.report.Outcome != record.Done || got.report.Lane != test.lane || got.report.Written != 20 {
				t.Errorf("%d %+v, want lane %d done", got.Code, got.report, test.lane)
			}
		})
	}
}

func TestServeHTTP_RefusesEventsThatHoldNoCall(t *testing.T) {
	t.Parallel()
	without := func(name string) map[string]string {
		headers := binaryEvent()
		delete(headers, name)
		return headers
	}
	for _, test := range []struct {
		name    string
		headers map[string]string
		body    string
		says    string
	}{
		{"push of another text", nil, `{"message":{"data":"` + base64Of("lane 1") + `"}}`, "data of the Pub/Sub message"},
		{"push of a misspelt lane", nil, `{"message":{"data":"` + base64Of(`{"lanes":1}`) + `"}}`, `"lanes"`},
		{"push within a push", nil, `{"message":{"data":"` + base64Of(`{"message":{}}`) + `"}}`, `"message"`},
		{"push with broken base64", nil, `{"message":{"data":"!"}}`, "base64"},
		{"push with data that is no text", nil, `{"message":{"data":{"lane":1}}}`, "base64"},
		{"push with a lane beside it", nil, `{"message":{"data":""},"lane":1}`, "at once"},
		{"push with two messages", nil, `{"message":{},"message":{}}`, "twice"},
		{"message that is no object", nil, `{"message":"x"}`, "Pub/Sub message"},
		{"message in capitals", nil, `{"Message":{"data":""}}`, `"Message"`},
		{"lane beyond the last in a push", nil, `{"message":{"data":"` + base64Of(`{"lane":2}`) + `"}}`, "lanes 0 to 1"},
		{"event without an id", without("Ce-Id"), `{"lane":1}`, "id"},
		{"event without a source", without("Ce-Source"), `{"lane":1}`, "source"},
		{"event of another text", binaryEvent(), `lane 1`, "not a call"},
		{"structured event that is no JSON", structured(), `lane 1`, "CloudEvent"},
		{"structured event of a text", structured(), `{` + attributes + `,"data":"lane 1"}`, "not a call"},
		{"structured event with a misspelt lane", structured(), `{` + attributes + `,"data":{"lanes":1}}`, `"lanes"`},
		{"batch of events", map[string]string{"Content-Type": "application/cloudevents-batch+json"}, `[]`, "batch"},
		{"long unknown name", nil, `{"` + strings.Repeat("lane", 100) + `":1}`, "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			got := s.event(t, test.headers, test.body)
			reason, _ := got.body["error"].(string)
			if got.Code != 400 || !strings.Contains(reason, test.says) || strings.Contains(reason, "\n") || len(reason) > 300 {
				t.Errorf("%d %v, want 400 and an error that says %q", got.Code, got.body, test.says)
			}
			if s.builds > 1 || len(s.sink.Documents()) != 0 {
				t.Errorf("something ran: %d documents", len(s.sink.Documents()))
			}
		})
	}
}
