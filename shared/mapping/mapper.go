package mapping

import (
	"hash/maphash"
	"strings"
	"sync"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// DefaultGuardField is the name of the guard where Options gives none.
const DefaultGuardField = "_tidemark"

const (
	// MongoDB "Limits and Thresholds": a document has at most 16 MiB. Some servers store deeper documents than 100
	// levels; mongod refuses the 181st.
	maxDocument = 16 << 20
	maxLevels   = 180
	// maxParts bounds the memory of a conversion: fields that a later one of the same name replaces are only taken out
	// when their object ends.
	maxParts = 2 * maxDocument
)

const idField = "_id"

// Options says how values are converted. The zero value converts without declared fields.
type Options struct {
	// GuardField names the field that holds the guard; "" is DefaultGuardField.
	GuardField string
	// Dates, EpochSeconds, ObjectIDs and Decimals are dotted paths of fields that have a type which JSON lacks.
	Dates, EpochSeconds, ObjectIDs, Decimals []string
	// RejectDuplicateKeys refuses an object with two fields of one name, instead of keeping the last.
	RejectDuplicateKeys bool
	// Wrap is the name that a value which is no object is stored under; "" refuses such values.
	Wrap string
}

// Mapper converts records. It is safe for concurrent use.
type Mapper struct {
	guardField    string
	wrap          string
	declared      *node
	rejectRepeats bool
	seed          maphash.Seed
	parsers       sync.Pool // of *parser
}

// New checks the options. Its errors are Fatal, of class "bad-mapping".
func New(o Options) (*Mapper, error) {
	if o.GuardField == "" {
		o.GuardField = DefaultGuardField
	}
	if o.GuardField == idField || !plainName(o.GuardField) || strings.ContainsAny(o.GuardField, ".$") {
		return nil, badMapping("guardField: %q cannot hold the guard: use a name without \".\" and \"$\" that is not _id", o.GuardField)
	}
	if o.Wrap != "" && !plainName(o.Wrap) {
		return nil, badMapping("wrap: %q is no field name: it must be UTF-8 without U+0000", o.Wrap)
	}
	if o.Wrap == o.GuardField {
		return nil, badMapping("wrap: %q is the field of the guard, which would replace the value: use another name", o.Wrap)
	}
	declared, err := declare(o)
	if err != nil {
		return nil, err
	}
	return &Mapper{
		guardField:    o.GuardField,
		wrap:          o.Wrap,
		declared:      declared,
		rejectRepeats: o.RejectDuplicateKeys,
		seed:          maphash.MakeSeed(),
	}, nil
}

func badMapping(format string, args ...any) error {
	return fault.Fatalf("bad-mapping", format, args...)
}

func plainName(name string) bool {
	return utf8.ValidString(name) && !strings.Contains(name, "\x00")
}

// Value appends the BSON document of a value to dst. With an error it returns dst as it was.
func (m *Mapper) Value(dst, value []byte) ([]byte, error) {
	p := m.take(value)
	defer m.give(p)
	start := len(dst)
	p.begin(append(dst, 0, 0, 0, 0), start)
	if err := p.text(); err != nil {
		return dst, err
	}
	p.arrange(0, none, none)
	p.close(start)
	if err := checkSize(len(p.dst) - start); err != nil {
		return dst, err
	}
	return p.dst, nil
}

// Convert makes the write of one record in insert mode, where a null value has nothing to store (class "null-value").
//
// The _id of the value is kept: it moves to the front, and the guard is stored as the last field. It is refused
// (bad-id) where mongod would refuse it: an array, a regular expression, or a name with a leading $ anywhere inside.
// Without one the _id is made of the coordinates, and no guard is needed.
//
// A field of the value that has the guard's name is never stored, or a record could forge the origin of its document
// and a writer that compares guards would take another record for stored. It is left out and the true guard is stored
// as the last field, also beside an _id made of coordinates.
//
// The document of the write is never changed or used again by the Mapper. Small documents share chunks of memory, so
// that one kept for long keeps up to 64 KiB.
func (m *Mapper) Convert(rec record.Record, topic record.Topic) (record.Write, error) {
	if rec.Value == nil {
		return record.Write{}, fault.Poisonf("null-value", "the value is null: insert mode has no document to store")
	}
	w := record.Write{Record: rec, Guard: record.Guard{
		Topic:       rec.Partition.Topic,
		Incarnation: topic.Incarnation,
		Rewrite:     topic.Rewrite,
		Partition:   rec.Partition.ID,
		Offset:      rec.Offset,
		Timestamp:   rec.Timestamp,
	}}
	p := m.take(rec.Value)
	defer m.give(p)
	start, err := m.document(p, &w)
	if err != nil {
		return record.Write{}, err
	}
	w.Document = p.arena.keep(p.dst, start)
	return w, nil
}

// document builds the document of w in the parser's dst and returns where it starts. The value's fields are converted
// behind an _id of coordinates. If they bring an _id of their own, the document begins later, so that nothing moves.
func (m *Mapper) document(p *parser, w *record.Write) (int, error) {
	dst := append(p.arena.room(len(p.src)), 0, 0, 0, 0)
	dst = appendCoordinates(dst, w.Guard)
	fields := len(dst)
	p.begin(dst, fields-4)
	if err := p.text(); err != nil {
		return 0, err
	}
	id, guard := p.find(idField), p.find(m.guardField)
	p.arrange(0, id, guard)
	start := 0
	if id != none {
		w.OwnID, start = true, fields-4
		if err := checkID(p.dst[fields:]); err != nil {
			return 0, err
		}
	}
	if w.OwnID || guard != none {
		p.dst = appendGuard(p.dst, m.guardField, w.Guard)
	}
	p.close(start)
	return start, checkSize(len(p.dst) - start)
}

func checkSize(n int) error {
	if n > maxDocument {
		return fault.Poisonf("too-large", "the document has %d bytes of BSON, MongoDB takes %d", n, maxDocument)
	}
	return nil
}

// checkID refuses what mongod refuses as an _id. The elements begin with it.
func checkID(elements []byte) error {
	id, _, ok := bsoncore.ReadElement(elements)
	if !ok {
		return fault.Poisonf("bad-id", "the _id cannot be read")
	}
	switch value := id.Value(); value.Type {
	case bsoncore.TypeArray, bsoncore.TypeRegex, bsoncore.TypeUndefined:
		return fault.Poisonf("bad-id", "the _id is of the type %s, which MongoDB refuses", value.Type)
	case bsoncore.TypeEmbeddedDocument:
		if hasDollarName(value.Data) {
			return fault.Poisonf("bad-id", "the _id holds a field name that begins with $, which MongoDB refuses")
		}
	default:
	}
	return nil
}

// hasDollarName looks into documents and arrays at any depth, which the conversion has bounded.
func hasDollarName(doc []byte) bool {
	for rest := doc[4:]; len(rest) > 1; {
		element, next, ok := bsoncore.ReadElement(rest)
		if !ok {
			return true
		}
		if key := element.KeyBytes(); len(key) > 0 && key[0] == '$' {
			return true
		}
		value := element.Value()
		if nested := value.Type == bsoncore.TypeEmbeddedDocument || value.Type == bsoncore.TypeArray; nested && hasDollarName(value.Data) {
			return true
		}
		rest = next
	}
	return false
}

func (m *Mapper) take(value []byte) *parser {
	p, ok := m.parsers.Get().(*parser)
	if !ok {
		p = &parser{declared: m.declared, wrap: m.wrap, rejectRepeats: m.rejectRepeats, names: names{seed: m.seed}}
	}
	p.src = value
	return p
}

// give returns a parser without what belongs to the caller, and without memory that only a rare value needs.
func (m *Mapper) give(p *parser) {
	p.src, p.dst = nil, nil
	p.names.trim()
	m.parsers.Put(p)
}
