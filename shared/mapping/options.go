package mapping

import (
	"strings"
	"unicode/utf8"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// DefaultGuardField is the name of the guard where Options gives none.
const DefaultGuardField = "_tidemark"

// DefaultWrap is the name that values of the formats string and bytes are stored under where Options gives none.
const DefaultWrap = "value"

const idField = "_id"

// Format is how the bytes of a value or a key are written.
type Format string

// The formats. ExtJSON is MongoDB Extended JSON v2, relaxed or canonical.
const (
	JSON    Format = "json"
	ExtJSON Format = "extjson"
	BSON    Format = "bson"
	String  Format = "string"
	Bytes   Format = "bytes"
)

// Tombstones is what becomes of records whose value is null.
type Tombstones string

// What becomes of tombstones: DeadLetter refuses them (null-value), Delete deletes the document of the key, Ignore
// skips them.
const (
	DeadLetter Tombstones = "deadLetter"
	Delete     Tombstones = "delete"
	Ignore     Tombstones = "ignore"
)

// IDFrom is where the _id comes from.
type IDFrom string

// Where the _id comes from: the coordinates of the record, its whole key, one field of the key, or fields of the value.
const (
	FromCoordinates IDFrom = "coordinates"
	FromKey         IDFrom = "key"
	FromKeyField    IDFrom = "keyField"
	FromFields      IDFrom = "fields"
)

// ID is the rule that gives a document its _id. The zero value is FromCoordinates in insert and FromKey in the keyed
// modes.
type ID struct {
	From IDFrom
	// Field is the dotted path of the field of the key, for FromKeyField.
	Field string
	// Fields are dotted paths of fields of the value, for FromFields. The value of a single one is the _id itself.
	// Several make a document, in this order, that names each by the last name of its path.
	Fields []string
}

// Options says how records are converted. The zero value converts JSON in insert mode, without declared fields.
type Options struct {
	// Format is that of the values; "" is JSON. KeyFormat is that of the keys; "" is String.
	Format, KeyFormat Format
	// Mode is what the sink does with the documents; "" is record.Insert.
	Mode record.Mode
	// ID says where the _id comes from.
	ID ID
	// Tombstones says what becomes of null values; "" is DeadLetter.
	Tombstones Tombstones
	// Metadata names a field for the origin, key and headers of the record; "" stores none.
	Metadata string
	// GuardField names the field that holds the guard; "" is DefaultGuardField.
	GuardField string
	// Dates, EpochSeconds, ObjectIDs and Decimals are dotted paths of fields that have a type which JSON lacks.
	Dates, EpochSeconds, ObjectIDs, Decimals []string
	// RejectDuplicateKeys refuses an object with two fields of one name, instead of keeping the last.
	RejectDuplicateKeys bool
	// Wrap is the name that a value which is no document is stored under. Where it is "", such values are refused in the
	// formats json and extjson, and stored under DefaultWrap in string and bytes. A value of format bson is a document.
	Wrap string
}

// complete fills in the defaults.
func (o Options) complete() Options {
	fill(&o.Format, JSON)
	fill(&o.KeyFormat, String)
	fill(&o.Mode, record.Insert)
	fill(&o.Tombstones, DeadLetter)
	fill(&o.GuardField, DefaultGuardField)
	if o.Format == String || o.Format == Bytes {
		fill(&o.Wrap, DefaultWrap)
	}
	if o.Mode == record.Insert {
		fill(&o.ID.From, FromCoordinates)
	} else {
		fill(&o.ID.From, FromKey)
	}
	return o
}

func fill[T ~string](option *T, value T) {
	if *option == "" {
		*option = value
	}
}

// check refuses what contradicts itself, in options that are complete.
func (o Options) check() error {
	for _, f := range []struct {
		option string
		format Format
	}{{"format", o.Format}, {"keyFormat", o.KeyFormat}} {
		switch f.format {
		case JSON, ExtJSON, BSON, String, Bytes:
		default:
			return badMapping("%s: %q is none of json, extjson, bson, string and bytes", f.option, f.format)
		}
	}
	if err := o.checkMode(); err != nil {
		return err
	}
	if err := o.checkNames(); err != nil {
		return err
	}
	return o.checkID()
}

func (o Options) checkMode() error {
	switch o.Mode {
	case record.Insert, record.Upsert, record.Update:
	default:
		return badMapping("mode: %q is none of insert, upsert and update", o.Mode)
	}
	switch o.Tombstones {
	case DeadLetter, Ignore:
	case Delete:
		if o.Mode == record.Insert {
			return badMapping("tombstones: delete needs the mode upsert or update: insert deletes nothing")
		}
		if o.ID.From == FromFields {
			return badMapping("tombstones: delete needs an _id from the key: a null value has no fields to take it from")
		}
	default:
		return badMapping("tombstones: %q is none of deadLetter, delete and ignore", o.Tombstones)
	}
	return nil
}

// checkNames looks at the names of top-level fields: the guard, the metadata and the wrap.
func (o Options) checkNames() error {
	if o.GuardField == idField || !topName(o.GuardField) {
		return badMapping("guardField: %q cannot hold the guard: use a name without \".\" and \"$\" that is not _id", o.GuardField)
	}
	if m := o.Metadata; m != "" && (m == idField || m == o.GuardField || !topName(m)) {
		return badMapping("metadata: %q cannot hold the metadata: use a name without \".\" and \"$\" that is neither _id nor the guard's", m)
	}
	switch {
	case o.Wrap == "":
		return nil
	case !plainName(o.Wrap):
		return badMapping("wrap: %q is no field name: it must be UTF-8 without U+0000", o.Wrap)
	case o.Wrap == o.GuardField:
		return badMapping("wrap: %q is the field of the guard, which would replace the value: use another name", o.Wrap)
	case o.Wrap == o.Metadata:
		return badMapping("wrap: %q is the field of the metadata, which would replace the value: use another name", o.Wrap)
	case o.Mode != record.Insert && o.Wrap == idField:
		return badMapping("wrap: _id is given by the rule of record.id in the mode %s: use another name", o.Mode)
	case o.Mode != record.Insert && o.Wrap[0] == '$', o.Mode == record.Update && strings.Contains(o.Wrap, "."):
		return badMapping("wrap: %q is no name for a top-level field in the mode %s: use one without \".\" and \"$\"", o.Wrap, o.Mode)
	}
	return nil
}

func (o Options) checkID() error {
	keyed := o.Mode != record.Insert
	switch o.ID.From {
	case FromCoordinates:
		if keyed {
			return badMapping("id: coordinates give each record an _id of its own, so the mode %s would find nothing to replace: use key, keyField or fields", o.Mode)
		}
	case FromKey:
	case FromKeyField:
		if o.KeyFormat == String || o.KeyFormat == Bytes {
			return badMapping("id: a key of the keyFormat %s has no field to take: use json, extjson or bson", o.KeyFormat)
		}
		if !fieldPath(o.ID.Field) {
			return badMapping("id: keyField %q is no dotted path of field names", o.ID.Field)
		}
	case FromFields:
		return o.checkIDFields()
	default:
		return badMapping("id: %q is none of coordinates, key, keyField and fields", o.ID.From)
	}
	return nil
}

func (o Options) checkIDFields() error {
	if len(o.ID.Fields) == 0 {
		return badMapping("id: fields names no field")
	}
	seen := map[string]bool{}
	for _, path := range o.ID.Fields {
		if !fieldPath(path) {
			return badMapping("id: %q is no dotted path of field names", path)
		}
		names := strings.Split(path, ".")
		if names[0] == o.GuardField || names[0] == o.Metadata {
			return badMapping("id: %q is a field of the guard or the metadata, which hold no part of the value", path)
		}
		last := names[len(names)-1]
		if len(o.ID.Fields) > 1 && last[0] == '$' {
			return badMapping("id: %q begins with $, which MongoDB refuses in an _id", last)
		}
		if seen[last] {
			return badMapping("id: two of the fields are named %q, and the _id can hold only one", last)
		}
		seen[last] = true
	}
	return nil
}

// fieldPath says whether a text is a dotted path of field names.
func fieldPath(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || !plainName(name) {
			return false
		}
	}
	return true
}

func topName(name string) bool { return plainName(name) && !strings.ContainsAny(name, ".$") }

func plainName(name string) bool {
	return utf8.ValidString(name) && !strings.Contains(name, "\x00")
}

func badMapping(format string, args ...any) error {
	return fault.Fatalf("bad-mapping", format, args...)
}
