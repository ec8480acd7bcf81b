package mapping

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// settleID decides about the _id once the value's fields are read, which begin at fields. It says in w whose it is, and
// returns the element that is still to be put in front of the fields, nil where it stands there.
func (m *Mapper) settleID(p *parser, fields int, w *record.Write) (front []byte, err error) {
	var own []byte
	i := p.names.found[idName]
	if i != none {
		own = p.element(p.names.fields, i)
	}
	if m.o.ID.From == FromCoordinates {
		if own == nil {
			return nil, nil
		}
		w.OwnID = true
		if i > 0 || p.moves {
			front = own
			p.drop(idName)
		}
		return front, checkID(own)
	}
	w.OwnID = true
	rule := p.dst[4:fields]
	if m.o.ID.From == FromFields {
		at := len(p.dst)
		if err := m.fieldsID(p); err != nil {
			return nil, err
		}
		// The element stands behind the fields only until they are arranged.
		front, p.dst = p.dst[at:], p.dst[:at]
		if err := checkID(front); err != nil {
			return nil, err
		}
		rule = front
	}
	if own != nil && !bytes.Equal(own, rule) {
		return nil, fault.Poisonf("id-conflict", "the _id of the value is not that of the rule %q: type and value must be the same", m.o.ID.From)
	}
	p.drop(idName)
	return front, nil
}

// fieldsID appends the _id that is made of fields of the value.
func (m *Mapper) fieldsID(p *parser) error {
	typeAt := len(p.dst)
	p.dst = append(p.dst, byte(bsoncore.TypeEmbeddedDocument), '_', 'i', 'd', 0)
	at := len(p.dst)
	several := len(m.idFields) > 1
	if several {
		p.dst = append(p.dst, 0, 0, 0, 0)
	}
	for i, path := range m.idFields {
		value, ok := p.top(path[0], typeAt)
		if ok {
			value, ok = inside(value, path[1:])
		}
		if !ok || value.Type == bsoncore.TypeNull {
			return fault.Poisonf("no-key", "the value has no field %s, or it is null: the _id is made of it", m.o.ID.Fields[i])
		}
		if several {
			p.dst = append(p.dst, byte(value.Type))
			p.dst = append(p.dst, path[len(path)-1]...)
			p.dst = append(p.dst, 0)
		} else {
			p.dst[typeAt] = byte(value.Type)
		}
		p.dst = append(p.dst, value.Data...)
	}
	if several {
		p.close(at)
	}
	return nil
}

// top returns the value of a top-level field. The fields end at end.
func (p *parser) top(name string, end int) (bsoncore.Value, bool) {
	for i := range p.names.fields {
		f := &p.names.fields[i]
		if f.latest != repeat && string(p.nameOf(f)) == name {
			element := p.elementTo(p.names.fields, i, end)
			return bsoncore.Value{Type: bsoncore.Type(element[0]), Data: element[2+len(name):]}, true
		}
	}
	return bsoncore.Value{}, false
}

// inside follows a path into sub-documents. An array has no names, and so no field of a path.
func inside(value bsoncore.Value, path []string) (bsoncore.Value, bool) {
	for _, name := range path {
		if value.Type != bsoncore.TypeEmbeddedDocument {
			return value, false
		}
		found := false
		for rest := value.Data[4:]; len(rest) > 1 && !found; {
			element, next, ok := bsoncore.ReadElement(rest)
			if !ok {
				return value, false
			}
			if string(element.KeyBytes()) == name {
				value, found = element.Value(), true
			}
			rest = next
		}
		if !found {
			return value, false
		}
	}
	return value, true
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

// settable says whether $set takes a name for that of a top-level field.
func settable(name []byte) bool {
	return len(name) > 0 && bytes.IndexByte(name, '.') < 0
}
