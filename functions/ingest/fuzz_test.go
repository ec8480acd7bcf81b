package ingest

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzCall holds what every body must give: a call, or one short line with a status of the 400s.
func FuzzCall(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `{"lane":1}`, `{"lane":1,"lane":0}`, `{"message":{"data":"eyJsYW5lIjoxfQ=="}}`, `{"message":{"data":"e30="},"subscription":"s"}`,
		`{` + attributes + `,"data":{"lane":1}}`, `{` + attributes + `,"data_base64":"e30="}`, `[{}]`, "{\"\\ud800\":1}",
	} {
		for _, contentType := range []string{"", "application/json", "application/cloudevents+json", "application/cloudevents-batch+json"} {
			f.Add(contentType, "", body)
			f.Add(contentType, "1.0", body)
		}
	}
	f.Fuzz(func(t *testing.T, contentType, version, body string) {
		request := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
		request.Header.Set("Content-Type", contentType)
		if version != "" {
			request.Header.Set("Ce-Specversion", version)
			request.Header.Set("Ce-Id", "1")
			request.Header.Set("Ce-Source", "s")
			request.Header.Set("Ce-Type", "t")
		}
		_, err := decode(httptest.NewRecorder(), request)
		if err == nil {
			return
		}
		bad := new(badCall)
		if !errors.As(err, &bad) || bad.status/100 != 4 || strings.ContainsAny(bad.reason, "\n\r") || bad.reason == "" {
			t.Errorf("%v", err)
		}
	})
}
