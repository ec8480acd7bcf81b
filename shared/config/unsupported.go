package config

import (
	"slices"
	"strings"
)

// restriction narrows a key of the form to what this version does.
type restriction struct {
	// allowed are the values that work. Without any, the key itself is refused.
	allowed []string
	// instead is the next step for the operator.
	instead string
}

// unsupported lists what the form allows and this version refuses. Supporting one of them is deleting its line.
var unsupported = map[string]restriction{ //nolint:gochecknoglobals // an immutable table
	"kafka.properties":        {nil, "write kafka.bootstrapServers, kafka.tls and kafka.sasl out"},
	"kafka.tls.certFile":      {nil, "use kafka.sasl"},
	"kafka.tls.keyFile":       {nil, "use kafka.sasl"},
	"kafka.sasl.mechanism":    {[]string{"PLAIN"}, "use PLAIN"},
	"source.subscribePattern": {nil, "name the topics in source.subscribe"},
	"record.format":           {[]string{"json"}, "use json"},
	"record.keyFormat":        {[]string{"string"}, "use string, the key is not parsed in insert mode"},
	"record.id":               {[]string{"coordinates"}, "use coordinates"},
	"record.metadata":         {[]string{""}, "leave it out"},
	"sink.mode":               {[]string{"insert"}, "use insert"},
	"sink.tombstones":         {[]string{"deadLetter"}, "use deadLetter"},
	"checkpoint.mirrorGroup":  {[]string{""}, "leave it out"},
}

// refuseValue reports a value, legal by the form, that this version does not do.
func (v value) refuseValue() bool {
	limit, found := unsupported[v.path]
	if !found || !v.structured() && slices.Contains(limit.allowed, v.text) {
		return false
	}
	v.fail("%s is not supported by this version: %s", v.shown(), limit.instead)
	return true
}

// refuse reports a key that this version does not do at all. Its value is not looked at, so that a reference in it is
// not followed for nothing.
func (s *section) refuse(key string) {
	at, given := s.locate(key)
	if !given {
		return
	}
	s.drop(key)
	path := s.child(key)
	s.loader.report(at, path, path, "not supported by this version: "+unsupported[path].instead)
}

// secretLike says that a text could hold a credential although its key is no Secret: a URI in the wrong place.
func secretLike(text string) bool {
	return strings.Contains(text, "://") || strings.Contains(text, "@")
}
