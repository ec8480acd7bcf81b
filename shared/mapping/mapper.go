package mapping

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// MongoDB "Limits and Thresholds": a document has at most 16 MiB. Some servers store deeper documents than 100
	// levels; mongod refuses the 181st.
	maxDocument = 16 << 20
	maxLevels   = 180
	// maxParts bounds the memory of a conversion: fields that a later one of the same name replaces are only taken out
	// when their object ends.
	maxParts = 2 * maxDocument
)

// Mapper converts records. It is safe for concurrent use.
type Mapper struct {
	o        Options // complete
	declared *node
	keyField []string   // the path of FromKeyField
	idFields [][]string // the paths of FromFields
	seed     maphash.Seed
	parsers  sync.Pool // of *parser
}

// New checks the options. Its errors are Fatal, of class "bad-mapping".
func New(o Options) (*Mapper, error) {
	o = o.complete()
	if err := o.check(); err != nil {
		return nil, err
	}
	declared, err := declare(o)
	if err != nil {
		return nil, err
	}
	m := &Mapper{o: o, declared: declared, keyField: strings.Split(o.ID.Field, "."), seed: maphash.MakeSeed()}
	for _, path := range o.ID.Fields {
		m.idFields = append(m.idFields, strings.Split(path, "."))
	}
	return m, nil
}

// Value appends the BSON document of a value of the format to dst, without what Convert adds. With an error it returns
// dst as it was.
func (m *Mapper) Value(dst, value []byte) ([]byte, error) {
	p := m.take()
	defer m.give(p)
	start := len(dst)
	p.begin(append(dst, 0, 0, 0, 0), start)
	if err := p.fields(m.o.Format, value, m.declared); err != nil {
		return dst, err
	}
	p.arrange(nil)
	p.close(start)
	if err := checkSize(len(p.dst) - start); err != nil {
		return dst, err
	}
	return p.dst, nil
}

// Convert makes the write of one record.
//
// In insert the write is a Put of the value's fields behind an _id. Without a rule for it, an _id of the value is kept:
// it moves to the front, and the guard is stored as the last field. Without one it is made of the coordinates, and no
// guard is needed. A null value has nothing to store: it is refused (null-value), or a Skip where tombstones are
// ignored.
//
// In upsert and update the write is a Put of the value's fields behind the _id of the rule, always with the guard. A
// top-level name that begins with $ is refused (bad-field-name), and in update, where $set would take it for a path, an
// empty or dotted one too. A null value is a Delete of _id and guard, a refusal (null-value) or a Skip, as the option
// Tombstones says.
//
// With a rule a record without the field or the key is refused (no-key), one whose key cannot be read too (bad-key),
// and one whose value has an _id of other bytes (id-conflict). Under every rule the _id is refused where mongod would
// refuse it (bad-id): an array, a regular expression, or a name with a leading $ anywhere inside.
//
// A field of the value that has the guard's name is never stored, or a record could forge the origin of its document
// and a writer that compares guards would take another record for stored. It is left out and the true guard is stored
// as the last field, also beside an _id made of coordinates. Metadata stands before the guard, and instead of a field of
// its name.
//
// The document of the write is cut from the arena, and good until that is reset.
func (m *Mapper) Convert(arena *record.Arena, rec record.Record, topic record.Topic) (record.Write, error) {
	w := record.Write{Record: rec, Guard: record.Guard{
		Topic:       rec.Partition.Topic,
		Incarnation: topic.Incarnation,
		Rewrite:     topic.Rewrite,
		Partition:   rec.Partition.ID,
		Offset:      rec.Offset,
		Timestamp:   rec.Timestamp,
	}}
	if rec.Value == nil {
		switch m.o.Tombstones {
		case Delete:
			w.Op = record.Delete
		case Ignore:
			w.Op = record.Skip
			return w, nil
		case DeadLetter:
			return record.Write{}, fault.Poisonf("null-value", "the value is null and has no document: tombstones is deadLetter")
		}
	}
	p := m.take()
	defer m.give(p)
	start, err := 0, error(nil)
	if w.Op == record.Delete {
		err = m.remove(p, arena, &w)
	} else {
		start, err = m.put(p, arena, &w)
	}
	if err != nil {
		return record.Write{}, err
	}
	w.Document = arena.Keep(p.dst, start)
	return w, nil
}

// put builds the document of w in the parser's dst and returns where it starts. The value's fields are converted behind
// the _id. If there is no rule and they bring an _id of their own, the document begins later, so that nothing moves.
func (m *Mapper) put(p *parser, arena *record.Arena, w *record.Write) (start int, err error) {
	p.begin(append(arena.Room(room(len(w.Record.Value))), 0, 0, 0, 0), 0)
	switch m.o.ID.From {
	case FromKey, FromKeyField:
		if err := m.keyID(p, w.Record.Key); err != nil {
			return 0, err
		}
	case FromCoordinates:
		p.dst = appendCoordinates(p.dst, w.Guard)
	case FromFields:
	}
	fields := len(p.dst)
	if err := p.fields(m.o.Format, w.Record.Value, m.declared); err != nil {
		return 0, err
	}
	if err := m.checkFieldNames(p); err != nil {
		return 0, err
	}
	front, err := m.settleID(p, fields, w)
	if err != nil {
		return 0, err
	}
	if w.OwnID && m.o.ID.From == FromCoordinates {
		start = fields - 4
	}
	p.drop(guardName)
	p.drop(metadataName)
	p.arrange(front)
	if m.o.Metadata != "" {
		m.appendMetadata(p, w.Record)
	}
	if w.OwnID || p.names.found[guardName] != none {
		p.dst = appendGuard(p.dst, m.o.GuardField, w.Guard)
	}
	p.close(start)
	return start, checkSize(len(p.dst) - start)
}

// remove builds the document of a Delete: _id and guard. New has seen to it that the _id comes from the key.
func (m *Mapper) remove(p *parser, arena *record.Arena, w *record.Write) error {
	p.begin(append(arena.Room(room(len(w.Record.Key))), 0, 0, 0, 0), 0)
	w.OwnID = true
	if err := m.keyID(p, w.Record.Key); err != nil {
		return err
	}
	p.dst = appendGuard(p.dst, m.o.GuardField, w.Guard)
	p.close(0)
	return checkSize(len(p.dst))
}

// checkFieldNames refuses top-level names that the server takes in an insert and refuses, or takes for something else,
// in a keyed mode.
func (m *Mapper) checkFieldNames(p *parser) error {
	if m.o.Mode == record.Insert {
		return nil
	}
	for i := range p.names.fields {
		name := p.nameOf(&p.names.fields[i])
		if len(name) > 0 && name[0] == '$' {
			return fault.Poisonf("bad-field-name", "top-level field %d has a name that begins with $, which MongoDB refuses in the mode %s", i+1, m.o.Mode)
		}
		if m.o.Mode == record.Update && !settable(name) {
			return fault.Poisonf("bad-field-name", "top-level field %d has an empty name or one with a dot, which $set takes for a path", i+1)
		}
	}
	return nil
}

// room is what a document of so many bytes of JSON fits into, mostly.
func room(value int) int { return value + value/4 + 512 }

func checkSize(n int) error {
	if n > maxDocument {
		return fault.Poisonf("too-large", "the document has %d bytes of BSON, MongoDB takes %d", n, maxDocument)
	}
	return nil
}

func (m *Mapper) take() *parser {
	p, ok := m.parsers.Get().(*parser)
	if !ok {
		p = &parser{wrap: m.o.Wrap, rejectRepeats: m.o.RejectDuplicateKeys, names: newNames(m.seed, m.o)}
	}
	return p
}

// give returns a parser without what belongs to the caller, and without memory that only a rare value needs.
func (m *Mapper) give(p *parser) {
	p.src, p.dst, p.declared = nil, nil, nil
	p.names.trim()
	m.parsers.Put(p)
}
