package mapping

import (
	"bytes"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// part is one value of the object that a wrapper holds.
type part struct {
	kind     byte   // the first of its JSON: a quote, a digit, or a brace where it is itself a wrapper of a text
	from, to int    // its place in dst, while the parts are read
	text     []byte // afterwards
}

// wrappedParts reads a wrapper that holds an object.
func (p *parser) wrappedParts(w wrapper, typeAt int) error {
	at, start := p.pos, len(p.dst)
	names := [2]string{}
	switch w {
	case wrapBinary:
		names = [2]string{"base64", "subType"}
	case wrapRegex:
		names = [2]string{"pattern", "options"}
	case wrapTimestamp:
		names = [2]string{"t", "i"}
	case wrapDBPointer:
		names = [2]string{"$ref", "$id"}
	case wrapDate:
		names[0] = wrapperNames[wrapLong]
	default:
	}
	parts, err := p.parts(w, names)
	if err != nil {
		return err
	}
	p.names.spare = append(p.names.spare[:0], p.dst[start:]...)
	p.dst = p.dst[:start]
	for i := range parts {
		parts[i].text = p.names.spare[parts[i].from-start : parts[i].to-start]
	}
	if !p.joinParts(w, typeAt, &parts[0], &parts[1]) {
		return p.badWrapper(w, at)
	}
	return nil
}

// joinParts appends the value that the parts stand for, and says whether there is one.
func (p *parser) joinParts(w wrapper, typeAt int, a, b *part) (ok bool) {
	switch w {
	case wrapBinary:
		p.dst[typeAt] = byte(bsoncore.TypeBinary)
		p.dst, ok = appendBinary(p.dst, a.text, b.text)
		return ok && a.kind == '"' && b.kind == '"'
	case wrapRegex:
		p.dst[typeAt] = byte(bsoncore.TypeRegex)
		// "Options are identified by characters, which must be stored in alphabetical order" (BSON specification).
		slices.Sort(b.text)
		p.dst = append(append(p.dst, a.text...), 0)
		p.dst = append(append(p.dst, b.text...), 0)
		return a.kind == '"' && b.kind == '"' && bytes.IndexByte(a.text, 0) < 0 && bytes.IndexByte(b.text, 0) < 0
	case wrapTimestamp:
		t, ok1 := parseWholeNumber(a.text)
		i, ok2 := parseWholeNumber(b.text)
		p.dst[typeAt] = byte(bsoncore.TypeTimestamp)
		p.dst = bsoncore.AppendTimestamp(p.dst, uint32(t), uint32(i))
		return ok1 && ok2 && a.kind == '0' && b.kind == '0' && t >= 0 && t <= math.MaxUint32 && i >= 0 && i <= math.MaxUint32
	case wrapDBPointer:
		id, ok := parseObjectID(b.text)
		p.dst[typeAt] = byte(bsoncore.TypeDBPointer)
		p.dst = appendString(p.dst, a.text)
		p.dst = append(p.dst, id[:]...)
		return ok && a.kind == '"' && b.kind == '{'
	default:
		millis, ok := parseWholeNumber(a.text)
		p.setDate(typeAt, millis)
		return ok && a.kind == '"'
	}
}

// parts reads an object that has fields of exactly the names. Their texts are appended to dst. Of a repeated name the
// last is kept, as everywhere.
func (p *parser) parts(w wrapper, names [2]string) (parts [2]part, err error) {
	if p.peek() != '{' {
		return parts, p.badWrapper(w, p.pos)
	}
	opened := p.pos
	p.pos++
	for more := true; more; {
		at := p.skip()
		which, err := p.partName(w, names)
		if err != nil {
			return parts, err
		}
		if parts[which].kind != 0 && p.rejectRepeats {
			return parts, p.repeated(at)
		}
		if parts[which], err = p.part(w); err != nil {
			return parts, err
		}
		if more, err = p.next('}'); err != nil {
			return parts, err
		}
	}
	if parts[0].kind == 0 || parts[1].kind == 0 && names[1] != "" {
		return parts, p.badWrapper(w, opened)
	}
	if names[1] == "" {
		parts[1].from, parts[1].to = parts[0].to, parts[0].to
	}
	return parts, nil
}

// partName reads a name and the colon behind it, and says which of the names it is.
func (p *parser) partName(w wrapper, names [2]string) (int, error) {
	at, start := p.pos, len(p.dst)
	if p.peek() != '"' {
		return 0, p.badWrapper(w, at)
	}
	if _, err := p.str(); err != nil {
		return 0, err
	}
	which := slices.Index(names[:], string(p.dst[start:]))
	p.dst = p.dst[:start]
	if which < 0 || names[which] == "" {
		return 0, p.badWrapper(w, at)
	}
	if p.token() != ':' {
		return 0, p.malformed("a colon")
	}
	p.pos++
	return which, nil
}

func (p *parser) part(w wrapper) (part, error) {
	read := part{from: len(p.dst)}
	switch c := p.token(); {
	case c == '"':
		read.kind = '"'
		if _, err := p.str(); err != nil {
			return read, err
		}
	case isDigit(c):
		read.kind = '0'
		literal, _, err := p.literal()
		if err != nil {
			return read, err
		}
		p.dst = append(p.dst, literal...)
	case c == '{' && w == wrapDBPointer:
		inner, err := p.parts(wrapOID, [2]string{wrapperNames[wrapOID]})
		if err != nil {
			return read, err
		}
		if inner[0].kind != '"' {
			return read, p.badWrapper(w, p.pos)
		}
		return part{kind: '{', from: inner[0].from, to: inner[0].to}, nil
	default:
		return read, p.badWrapper(w, p.pos)
	}
	read.to = len(p.dst)
	return read, nil
}
