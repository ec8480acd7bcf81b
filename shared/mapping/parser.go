package mapping

import (
	"bytes"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
)

// parser reads one JSON text and appends its BSON to dst. It calls itself for each level, at most maxLevels deep.
type parser struct {
	declared      *node
	wrap          string
	rejectRepeats bool

	src   []byte
	pos   int
	dst   []byte
	start int  // of the document in dst
	moves bool // the top level holds repeated names

	names names
	arena arena
}

// begin sets the place of the document in dst, which ends where its fields are to be appended.
func (p *parser) begin(dst []byte, start int) { p.pos, p.dst, p.start = 0, dst, start }

// text appends the fields of the document that the text holds. Its fields stay in p.names for arrange and find.
func (p *parser) text() error {
	const byteOrderMark = "\xef\xbb\xbf"
	if len(p.src) >= len(byteOrderMark) && string(p.src[:len(byteOrderMark)]) == byteOrderMark {
		p.pos = len(byteOrderMark)
	}
	object := p.token() == '{'
	at := p.pos
	var err error
	if object {
		p.moves, err = p.members(p.declared, 1)
	} else {
		err = p.wrapped()
	}
	if err != nil {
		return err
	}
	if p.token(); p.pos < len(p.src) {
		return p.fail("trailing-data", p.pos, "something follows the JSON value")
	}
	if !object && p.wrap == "" {
		return p.fail("not-a-document", at, "the JSON value is no object; the option wrap would store it under a name")
	}
	return nil
}

// wrapped reads a value that is no object as the only field of the document.
func (p *parser) wrapped() error {
	p.moves = false
	at := len(p.dst)
	p.dst = append(p.dst, 0)
	p.dst = append(p.dst, p.wrap...)
	p.dst = append(p.dst, 0)
	p.names.note(p.dst, 0, at, 1)
	return p.value(p.declared.child(p.dst[at+1:len(p.dst)-1]), at, 2)
}

// value reads one value and sets its type at typeAt. A container in it is of the level.
func (p *parser) value(declared *node, typeAt, level int) error {
	c := p.token()
	if declared != nil && declared.kind != undeclared && c != '[' {
		return p.typed(declared, typeAt)
	}
	switch c {
	case '"':
		p.dst[typeAt] = byte(bsoncore.TypeString)
		at := len(p.dst)
		p.dst = append(p.dst, 0, 0, 0, 0)
		if _, err := p.str(); err != nil {
			return err
		}
		p.dst = append(p.dst, 0)
		putLength(p.dst, at, len(p.dst)-at-4)
		return nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number(typeAt)
	case '{':
		p.dst[typeAt] = byte(bsoncore.TypeEmbeddedDocument)
		return p.object(declared, level)
	case '[':
		p.dst[typeAt] = byte(bsoncore.TypeArray)
		return p.array(declared, level)
	default:
		return p.word(typeAt)
	}
}

func (p *parser) object(declared *node, level int) error {
	at, first := len(p.dst), len(p.names.fields)
	p.dst = append(p.dst, 0, 0, 0, 0)
	repeats, err := p.members(declared, level)
	if err != nil {
		return err
	}
	if repeats {
		p.reorder(first, none, none)
	}
	p.names.fields = p.names.fields[:first]
	p.close(at)
	return nil
}

// members reads an object's fields and says whether names are repeated. It leaves the fields in p.names.
func (p *parser) members(declared *node, level int) (repeats bool, err error) {
	if level > maxLevels {
		return false, p.tooDeep()
	}
	first := len(p.names.fields)
	p.pos++
	if p.token() == '}' {
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
		child := declared
		if child != nil {
			child = child.child(p.dst[typeAt+1 : len(p.dst)-1])
		}
		if err := p.value(child, typeAt, level+1); err != nil {
			return false, err
		}
		if more, err := p.next('}'); err != nil || !more {
			return repeats, err
		}
	}
}

// name reads the name of a field and begins its element, whose type is still to be set.
func (p *parser) name(first, level int) (repeated bool, err error) {
	if p.token() != '"' {
		return false, p.malformed("a field name in quotes")
	}
	at, start := p.pos, len(p.dst)
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
	if repeated && p.rejectRepeats {
		return false, p.fail("duplicate-key", at, "a field name stands twice in one object")
	}
	return repeated, nil
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
		p.dst = append(p.dst, 0)
		p.dst = strconv.AppendInt(p.dst, i, 10)
		p.dst = append(p.dst, 0)
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

// word reads true, false and null.
func (p *parser) word(typeAt int) error {
	rest := p.src[p.pos:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "null":
		p.dst[typeAt] = byte(bsoncore.TypeNull)
		p.pos += 4
	case len(rest) >= 4 && string(rest[:4]) == "true":
		p.dst[typeAt] = byte(bsoncore.TypeBoolean)
		p.dst = append(p.dst, 1)
		p.pos += 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		p.dst[typeAt] = byte(bsoncore.TypeBoolean)
		p.dst = append(p.dst, 0)
		p.pos += 5
	default:
		return p.malformed("a JSON value")
	}
	return nil
}

// token passes white space and returns the byte behind it, as peek does.
func (p *parser) token() byte {
	if p.pos < len(p.src) {
		if c := p.src[p.pos]; c > ' ' {
			return c
		}
	}
	return p.space()
}

func (p *parser) space() byte {
	for ; p.pos < len(p.src); p.pos++ {
		if c := p.src[p.pos]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			break
		}
	}
	return p.peek()
}

// peek returns the next byte, 0 at the end of the text: U+0000 is no part of JSON's grammar.
func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// fail makes the error of a place in the value. The problem must be a text of ours: values go into no message.
func (p *parser) fail(class string, at int, problem string) error {
	return fault.Poisonf(class, "byte %d: %s", at, problem)
}

func (p *parser) malformed(expected string) error {
	if p.pos >= len(p.src) {
		return p.fail("malformed-json", p.pos, "the JSON text ends where "+expected+" must stand")
	}
	return p.fail("malformed-json", p.pos, "not JSON: "+expected+" must stand here")
}

func (p *parser) tooDeep() error {
	return p.fail("too-deep", p.pos, "more than "+strconv.Itoa(maxLevels)+" levels, which MongoDB refuses")
}
