package ingest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// eventData returns the data of a CloudEvent, and the body itself where it is none. An event comes in one of two forms
// (CloudEvents "HTTP Protocol Binding" 1.0.2): binary, its attributes in headers, or structured, all of it in the body.
func eventData(ctx context.Context, header http.Header, body []byte) ([]byte, error) {
	message := cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(body)))
	switch message.ReadEncoding() {
	case binding.EncodingUnknown:
		return body, nil
	case binding.EncodingBatch:
		return nil, notACall("a batch of CloudEvents is more than one call")
	case binding.EncodingBinary, binding.EncodingStructured, binding.EncodingEvent:
	}
	event, err := binding.ToEvent(ctx, message)
	if err == nil {
		err = event.Validate()
	}
	if err != nil {
		return nil, notACall("the CloudEvent is not valid (%s)", strings.Join(strings.Fields(err.Error()), " "))
	}
	return event.Data(), nil
}
