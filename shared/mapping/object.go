package mapping

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func (p *parser) object(declared *node, typeAt, level int) error {
	at, opened, first := len(p.dst), p.pos, len(p.names.fields)
	p.dst[typeAt] = byte(bsoncore.TypeEmbeddedDocument)
	p.dst = append(p.dst, 0, 0, 0, 0)
	repeats, err := p.members(declared, level)
	if err != nil {
		return err
	}
	wraps := false
	if p.extended {
		if wraps, err = p.unwrap(typeAt, at, first, opened); err != nil {
			return err
		}
	}
	if repeats && !wraps {
		p.reorder(first, nil)
	}
	p.names.fields = p.names.fields[:first]
	if !wraps {
		p.close(at)
	}
	return nil
}

// members reads an object's fields and says whether names are repeated. It leaves the fields in p.names.
func (p *parser) members(declared *node, level int) (repeats bool, err error) {
	if level > maxLevels && !p.extended {
		return false, p.tooDeep()
	}
	first := len(p.names.fields)
	p.pos++
	if p.token() == '}' {
		if level > maxLevels {
			return false, p.tooDeep()
		}
		p.pos++
		return false, nil
	}
	for {
		typeAt := len(p.dst)
		again, err := p.name(first, level)
		if err != nil {
			return false, err
		}
		repeats = repeats || again
		if p.token() != ':' {
			return false, p.malformed("a colon")
		}
		p.pos++
		if err := p.member(declared, typeAt, level); err != nil {
			return false, err
		}
		if more, err := p.next('}'); err != nil || !more {
			return repeats, err
		}
	}
}

// member reads the value of a field, whose element is begun, in an object of the level.
func (p *parser) member(declared *node, typeAt, level int) error {
	if p.extended && level > 1 {
		if w := wrapperOf(p.dst[typeAt+1 : len(p.dst)-1]); w != noWrapper {
			return p.wrapped(w, typeAt, level)
		}
		// What is too deep for a document can still be a value with its wrapper around it.
		if level > maxLevels {
			return p.tooDeep()
		}
	}
	if declared != nil {
		declared = declared.child(p.dst[typeAt+1 : len(p.dst)-1])
	}
	return p.value(declared, typeAt, level+1)
}

// name reads the name of a field and begins its element, whose type is still to be set.
func (p *parser) name(first, level int) (repeated bool, err error) {
	if p.token() != '"' {
		return false, p.malformed("a field name in quotes")
	}
	at := p.pos
	start := len(p.dst)
	if length, tag, short := p.shortName(); short {
		repeated = !p.names.enter(p.dst, first, level, start, length, tag)
	} else {
		p.dst = append(p.dst, 0)
		plain, err := p.str()
		if err != nil {
			return false, err
		}
		if !plain && bytes.IndexByte(p.dst[start+1:], 0) >= 0 {
			return false, p.fail("bad-field-name", at, "a field name holds U+0000, at which BSON would cut it off")
		}
		p.dst = append(p.dst, 0)
		repeated = !p.names.note(p.dst, first, start, level)
	}
	if repeated && p.rejectRepeats {
		return false, p.repeated(at)
	}
	return repeated, nil
}

// shortName reads a plain name of up to 15 bytes, which two words hold with the quote behind it, and returns its length
// and tag. false is no answer: nothing is read then.
func (p *parser) shortName() (length int, tag uint64, ok bool) {
	const room = 17
	start := len(p.dst)
	if len(p.src)-p.pos < room || cap(p.dst)-start < room {
		return 0, 0, false
	}
	src, dst := (*[room]byte)(p.src[p.pos:]), (*[room]byte)(p.dst[start:start+room])
	tag = binary.LittleEndian.Uint64(src[1:])
	found := notPlain(tag)
	if found != 0 {
		length = firstByte(found)
		// All bits below the byte that is marked.
		tag &= (found&-found - 1) >> 7
		binary.LittleEndian.PutUint64(dst[1:], tag)
	} else {
		w := binary.LittleEndian.Uint64(src[9:])
		if found = notPlain(w); found == 0 {
			return 0, 0, false
		}
		more := firstByte(found)
		length = 8 + more
		binary.LittleEndian.PutUint64(dst[1:], tag)
		binary.LittleEndian.PutUint64(dst[9:], w)
		tag = binary.LittleEndian.Uint64(src[1+more&7:])
	}
	if src[1+length&15] != '"' {
		return 0, 0, false
	}
	dst[0], dst[1+length&15] = 0, 0
	p.dst = p.dst[:start+length+2]
	p.pos += length + 2
	return length, tag, true
}

func (p *parser) array(declared *node, level int) error {
	if level > maxLevels {
		return p.tooDeep()
	}
	at := len(p.dst)
	p.dst = append(p.dst, 0, 0, 0, 0)
	p.pos++
	if p.token() == ']' {
		p.pos++
		p.close(at)
		return nil
	}
	for i := int64(0); ; i++ {
		typeAt := len(p.dst)
		p.dst = appendIndex(p.dst, 0, i)
		if err := p.value(declared, typeAt, level+1); err != nil {
			return err
		}
		more, err := p.next(']')
		if err != nil {
			return err
		}
		if !more {
			p.close(at)
			return nil
		}
	}
}

// next passes what stands between two values, or the end of their container.
func (p *parser) next(end byte) (more bool, err error) {
	if n := len(p.dst) - p.start; n > maxParts {
		return false, p.fail("too-large", p.pos, "the value needs more than "+strconv.Itoa(maxParts)+" bytes of BSON")
	}
	switch p.token() {
	case ',':
		p.pos++
		return true, nil
	case end:
		p.pos++
		return false, nil
	}
	return false, p.malformed("a comma or the end of the object or array")
}
