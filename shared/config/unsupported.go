package config

import (
	"slices"
	"strings"
)

// restriction narrows a key of the form to what this version does.
type restriction struct {
	// allowed are the values that work.
	allowed []string
	// instead is the next step for the operator.
	instead string
}

// unsupported lists what the form allows and this version refuses. Supporting one of them is deleting its line.
var unsupported = map[string]restriction{ //nolint:gochecknoglobals // an immutable table
	"kafka.sasl.mechanism":   {[]string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, insteadOfOAuth},
	"checkpoint.mirrorGroup": {[]string{""}, "leave it out"},
}

// Google's "Configure a Kafka client for authentication" describes the login by a service account's key.
const insteadOfOAuth = "use PLAIN or SCRAM; Google's managed Kafka takes PLAIN too, with a service account's address as the username and its key in base64 as the password"

// refuseValue reports a value, legal by the form, that this version does not do.
func (v value) refuseValue() bool {
	limit, found := unsupported[v.path]
	if !found || !v.structured() && slices.Contains(limit.allowed, v.text) {
		return false
	}
	v.fail("%s is not supported by this version: %s", v.shown(), limit.instead)
	return true
}

// secretLike says that a text could hold a credential although its key is no Secret: a URI in the wrong place.
func secretLike(text string) bool {
	return strings.Contains(text, "://") || strings.Contains(text, "@")
}
