package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxBody bounds a call's body: it holds at most a lane.
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
	if len(body) == 0 {
		return call{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	called, ok := decodeObject(decoder)
	if !ok {
		return call{}, &badCall{http.StatusBadRequest, `the body is not a call: send nothing, or JSON such as {"lane":0}`}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return call{}, &badCall{http.StatusBadRequest, `the body holds more than one call: send nothing, or JSON such as {"lane":0}`}
	}
	return called, nil
}

// decodeObject reads an object token by token: into a struct, encoding/json takes "LANE" for "lane" and the last of
// two lanes. A null, which is what a forgotten variable becomes, is no number.
func decodeObject(decoder *json.Decoder) (call, bool) {
	called, seen := call{}, false
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return call{}, false
	}
	for decoder.More() {
		if key, err := decoder.Token(); err != nil || key != "lane" || seen {
			return call{}, false
		}
		seen = true
		value, err := decoder.Token()
		number, ok := value.(json.Number)
		if err != nil || !ok {
			return call{}, false
		}
		if called.Lane, err = strconv.Atoi(number.String()); err != nil {
			return call{}, false
		}
	}
	_, err := decoder.Token() // the closing brace
	return called, err == nil
}
