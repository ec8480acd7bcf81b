package config

import (
	"errors"
	"net"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// The rules here say what is wrong with a text, as the end of a sentence that begins with it, or "".

func anything(string) string { return "" }

func notEmpty(s string) string {
	if s == "" {
		return "is empty"
	}
	return ""
}

// optional lets a text be empty.
func optional(rule func(string) string) func(string) string {
	return func(s string) string {
		if s == "" {
			return ""
		}
		return rule(s)
	}
}

// folder is a path that the operating system takes as it is: no shell has read it.
func folder(s string) string {
	if strings.HasPrefix(s, "~") {
		return "begins with ~, which no shell expands here: write the folder out"
	}
	return notEmpty(s)
}

// reservedInFirestore: ids of the form __x__ are refused by Firestore, in documents, collections and map keys.
var reservedInFirestore = regexp.MustCompile(`^__.*__$`)

var pipelineForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

const pipelineNames = "1 to 128 letters, digits, _ or -"

// pipelineName is the id of a Firestore document and part of the name of a file.
func pipelineName(s string) string {
	if !pipelineForm.MatchString(s) {
		return "is no pipeline name: write " + pipelineNames
	}
	if reservedInFirestore.MatchString(s) {
		return "is no pipeline name: Firestore keeps names of the form __x__ for itself"
	}
	return ""
}

var topicForm = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// topicName follows org.apache.kafka.common.internals.Topic, but for names that a checkpoint document cannot hold.
func topicName(s string) string {
	if !topicForm.MatchString(s) || s == "." || s == ".." {
		return "is no topic name: Kafka takes 1 to 249 letters, digits, '.', '_' or '-'"
	}
	if reservedInFirestore.MatchString(s) {
		return "cannot be read: Firestore, which keeps the checkpoint, has names of the form __x__ for itself"
	}
	return ""
}

// topicPattern is a regular expression of package regexp. Java's own additions would match something else or nothing.
func topicPattern(s string) string {
	if s == "" {
		return "is empty"
	}
	_, err := regexp.Compile(s)
	if err == nil {
		return ""
	}
	reason := "it cannot be compiled"
	if found, ok := errors.AsType[*syntax.Error](err); ok { // which repeats a part of the expression beside its code
		reason = found.Code.String()
	}
	return "is no regular expression of RE2, which has no look-arounds, back references or possessive quantifiers as Java's: " + reason
}

// broker is host:port. Other clients take a scheme before it, which TLS and SASL say here.
func broker(s string) string {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || n == 0 || strings.ContainsAny(host, "/@ ") {
		return "is no broker: write host:port, without a scheme"
	}
	return ""
}

func mongoURI(s string) string {
	if !strings.HasPrefix(s, "mongodb://") && !strings.HasPrefix(s, "mongodb+srv://") {
		return "must begin with mongodb:// or mongodb+srv://"
	}
	return ""
}

// mongoDatabase follows the naming restrictions of MongoDB's manual, those of Windows servers included.
func mongoDatabase(s string) string {
	if s == "" || len(s) > 63 || strings.ContainsAny(s, "/\\. \"$*<>:|?\x00") {
		return "is no database name: MongoDB takes 1 to 63 bytes without / \\ . \" $ * < > : | ? and blanks"
	}
	switch strings.ToLower(s) { // names that differ in case only cannot stand beside each other
	case "local":
		return "cannot be written to: it is the server's own, and MongoDB does not replicate it"
	case "admin", "config":
		return "cannot be written to: it is the server's own, for its users and its settings"
	}
	return ""
}

const collectionNames = "no $, not system.*"

// mongoCollection follows the naming restrictions of MongoDB's manual.
func mongoCollection(s string) string {
	if s == "" || strings.ContainsAny(s, "$\x00") || strings.HasPrefix(s, "system.") || strings.HasPrefix(s, ".") {
		return "is no collection name: MongoDB takes names without $ that do not begin with system. or a dot"
	}
	return ""
}

const fieldNames = "no dot, not $*, not _id"

// fieldName is the name of a top-level field of ours. A dot or $ would mean something else in queries and updates.
func fieldName(s string) string {
	if s == "" || s == "_id" || strings.HasPrefix(s, "$") || strings.ContainsAny(s, ".\x00") {
		return "is no field name: it must not be empty or _id, begin with $, or hold a dot"
	}
	return ""
}

// idField is the name of a top-level field that an _id is taken from. MongoDB takes no $ at the start of a name in an _id.
func idField(s string) string {
	if s == "" || strings.HasPrefix(s, "$") || strings.ContainsAny(s, ".\x00") {
		return "is no top-level field: it must not be empty, begin with $, or hold a dot"
	}
	return ""
}

// fieldPath is dotted names.
func fieldPath(s string) string {
	for name := range strings.SplitSeq(s, ".") {
		if name == "" || strings.Contains(name, "\x00") {
			return "is no path of field names with dots between them"
		}
	}
	return ""
}

// firestoreCollection follows "Constraints on collection IDs" of Firestore's documentation.
func firestoreCollection(s string) string {
	if s == "" || len(s) > 1500 || strings.Contains(s, "/") || s == "." || s == ".." || reservedInFirestore.MatchString(s) {
		return "is no Firestore collection name: it must not be empty, . or .., hold a slash, or be of the form __x__"
	}
	return ""
}

// resourceID is one part of a Google Cloud resource name.
func resourceID(s string) string {
	if s == "" || strings.ContainsAny(s, "/ ") {
		return "is no id: it must not be empty or hold a slash or a blank"
	}
	return ""
}
