package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxBody bounds a call's body: it holds at most a lane, and what an event wraps around it.
const maxBody = 64 << 10

// call is what Cloud Scheduler sends: an empty body is lane 0.
type call struct {
	Lane int
}

// badCall is a call that no retry makes better.
type badCall struct {
	status int
	reason string
}

func (e *badCall) Error() string { return e.reason }

const (
	asCall   = `send nothing, or JSON such as {"lane":0}`
	keyLane  = "lane"
	keyEvent = "message" // what a Pub/Sub push holds and a call does not
)

func notACall(format string, args ...any) error {
	return &badCall{http.StatusBadRequest, fmt.Sprintf(format, args...) + ": " + asCall}
}

// decode reads a call, strictly: a misspelt lane must not become lane 0. The call is the body itself, the data of a
// Pub/Sub push, or the data of a CloudEvent, which may in turn be a Pub/Sub push, as Eventarc sends it.
func decode(w http.ResponseWriter, r *http.Request) (call, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return call{}, &badCall{http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed: call with POST", r.Method)}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return call{}, &badCall{http.StatusBadRequest, fmt.Sprintf("the body could not be read, or is over %d bytes", maxBody)}
	}
	if body, err = eventData(r.Context(), r.Header, body); err != nil {
		return call{}, err
	}
	fields, err := object("the body", body)
	if err != nil {
		return call{}, err
	}
	if _, push := fields[keyEvent]; push {
		if fields, err = pushed(fields); err != nil {
			return call{}, err
		}
	}
	return decodeCall(fields)
}

func decodeCall(fields map[string]json.RawMessage) (call, error) {
	var called call
	for name, value := range fields {
		if name != keyLane {
			return call{}, notACall("the call has the unknown field %s", quote(name))
		}
		lane, err := strconv.Atoi(string(value)) // a null, which is what a forgotten variable becomes, is no number
		if err != nil {
			return call{}, notACall("the lane is no whole number")
		}
		called.Lane = lane
	}
	return called, nil
}

// pushed returns the call in a Pub/Sub push (https://cloud.google.com/pubsub/docs/push, "wrapped"): message.data is
// base64, and absent where the message has none. What else is in it is not ours.
func pushed(push map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if _, both := push[keyLane]; both {
		return nil, notACall("the body is a call and a Pub/Sub message at once")
	}
	message, err := object("the Pub/Sub message", push[keyEvent])
	if err != nil {
		return nil, err
	}
	var data []byte
	if encoded, given := message["data"]; given {
		if err := json.Unmarshal(encoded, &data); err != nil {
			return nil, notACall("the data of the Pub/Sub message is not base64")
		}
	}
	return object("the data of the Pub/Sub message", data)
}

// object reads a JSON object field by field: into a struct, encoding/json takes "LANE" for "lane" and the last of two
// lanes. Nothing at all is an object without fields.
func object(what string, text []byte) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(text) == 0 {
		return fields, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, notACall("%s is not a call", what)
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, isName := token.(string)
		var value json.RawMessage
		if err == nil && isName {
			err = decoder.Decode(&value)
		}
		if err != nil || !isName {
			return nil, notACall("%s is not a call", what)
		}
		if _, twice := fields[name]; twice {
			return nil, notACall("%s has the field %s twice", what, quote(name))
		}
		fields[name] = value
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, notACall("%s is not a call", what)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, notACall("%s holds more than one call", what)
	}
	return fields, nil
}

const maxQuoted = 40

// quote shows what a caller sent as one short word in quotes.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return strconv.Quote(s)
}
