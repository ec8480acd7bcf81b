package config

import (
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/shared/record"
)

// ID says what the _id of a document is made of.
type ID struct {
	From   string   // coordinates, key, keyField, fields
	Field  string   // of the key, for keyField
	Fields []string // of the value, for fields
}

// The sources of an _id.
const (
	fromCoordinates = "coordinates"
	fromKey         = "key"
	fromKeyField    = "keyField"
	fromFields      = "fields"
)

// String returns the rule as one fixed text, for the identity of a pipeline: coordinates, key, keyField:ref or
// fields:customerId,orderId. A name that holds a comma or a quote stands in quotes.
func (id ID) String() string {
	switch id.From {
	case fromKeyField:
		return fromKeyField + ":" + quotedName(id.Field)
	case fromFields:
		names := make([]string, len(id.Fields))
		for i, name := range id.Fields {
			names[i] = quotedName(name)
		}
		return fromFields + ":" + strings.Join(names, ",")
	}
	return id.From
}

func quotedName(name string) string {
	if strings.ContainsAny(name, `,"`) {
		return strconv.Quote(name)
	}
	return name
}

// defaultID is what record.id is where it is not set: only a key can meet a document that is there already.
func defaultID(mode record.Mode) ID {
	if mode == record.Insert {
		return ID{From: fromCoordinates}
	}
	return ID{From: fromKey}
}

const idForms = "coordinates, key, {keyField: name} or {fields: [name, ...]}"

// idRule reads record.id.
func idRule() parser[ID] {
	return parser[ID]{form: idForms, show: ID.String, parse: parseID}
}

func parseID(v value) (ID, bool) {
	if !v.structured() && !strings.HasPrefix(strings.TrimSpace(v.text), "{") {
		return parseIDWord(v)
	}
	entries, ok := v.mapping(idForms)
	if !ok {
		return ID{}, false
	}
	id, keys := ID{}, 0
	for key, entry := range entries {
		keys++
		switch key {
		case fromKeyField:
			id.From = fromKeyField
			id.Field, ok = plain("", idField).parse(entry)
		case fromFields:
			id.From = fromFields
			id.Fields, ok = list(1, plain("", idField)).parse(entry)
		default:
			ok = false
			v.fail("must be %s", idForms)
		}
		if !ok || entry.bad {
			return ID{}, false
		}
	}
	if keys != 1 {
		v.fail("must be %s", idForms)
	}
	return id, keys == 1
}

func parseIDWord(v value) (ID, bool) {
	word, ok := v.scalar("one of "+idForms, "!!str")
	if !ok {
		return ID{}, false
	}
	if word != fromCoordinates && word != fromKey {
		v.fail("%s is none of %s", v.shown(), idForms)
		return ID{}, false
	}
	return ID{From: word}, true
}
