package mapping

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
)

// keyID appends the _id that is made of the record's key.
func (m *Mapper) keyID(p *parser, key []byte) error {
	if key == nil {
		return fault.Poisonf("no-key", "the key is null: the _id is made of it")
	}
	at := len(p.dst)
	p.dst = append(p.dst, 0, '_', 'i', 'd', 0)
	if err := p.key(m.o.KeyFormat, key, at, 2); err != nil {
		return fault.Poisonf("bad-key", "the key is no %s: %w", m.o.KeyFormat, err)
	}
	if m.o.ID.From == FromKeyField {
		if err := m.keepKeyField(p, at); err != nil {
			return err
		}
	}
	if p.dst[at] == byte(bsoncore.TypeNull) {
		return fault.Poisonf("no-key", "the key, or the field of it that makes the _id, is null")
	}
	return checkID(p.dst[at:])
}

// keepKeyField puts one field of the key, whose element begins at at, in the place of the key.
func (m *Mapper) keepKeyField(p *parser, at int) error {
	const header = len("\x00_id\x00")
	key := bsoncore.Value{Type: bsoncore.Type(p.dst[at]), Data: p.dst[at+header:]}
	if key.Type != bsoncore.TypeEmbeddedDocument {
		return fault.Poisonf("bad-key", "the key is no document: the _id is made of its field %s", m.o.ID.Field)
	}
	value, ok := inside(key, m.keyField)
	if !ok {
		return fault.Poisonf("no-key", "the key has no field %s: the _id is made of it", m.o.ID.Field)
	}
	p.dst[at] = byte(value.Type)
	p.dst = append(p.dst[:at+header], value.Data...)
	return nil
}

// key appends a key as one value and sets its type at typeAt. A document in it is of the level. Nothing is declared of
// the fields of a key.
func (p *parser) key(format Format, key []byte, typeAt, level int) error {
	p.source(key, format, nil)
	switch format {
	case String, Bytes:
		return p.unparsed(format, typeAt)
	case BSON:
		p.dst[typeAt] = byte(bsoncore.TypeEmbeddedDocument)
		return p.bsonValue(level)
	case JSON, ExtJSON:
	}
	p.byteOrderMark()
	if err := p.value(nil, typeAt, level); err != nil {
		return err
	}
	return p.end()
}
