package mapping

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
)

// parser reads one value, or one key, and appends its BSON to dst. It calls itself for each level, at most maxLevels
// deep.
type parser struct {
	wrap          string
	rejectRepeats bool

	src      []byte
	pos      int
	declared *node
	extended bool // src is Extended JSON
	dst      []byte
	start    int  // of the document in dst
	moves    bool // the top level holds repeated names, or fields that are dropped

	names names
}

// begin sets the place of the document in dst, which ends where it is to be appended to.
func (p *parser) begin(dst []byte, start int) {
	p.dst, p.start, p.moves = dst, start, false
	p.names.begin()
}

// source sets what is read next, and what is declared of it.
func (p *parser) source(src []byte, format Format, declared *node) {
	p.src, p.pos, p.extended, p.declared = src, 0, format == ExtJSON, declared
}

// fields appends the fields of a value's document. They stay in p.names for arrange.
func (p *parser) fields(format Format, value []byte, declared *node) error {
	p.source(value, format, declared)
	switch format {
	case BSON:
		var err error
		p.moves, err = p.bsonFields(1)
		return err
	case String, Bytes:
		return p.unparsed(format, p.wrapper())
	case JSON, ExtJSON:
	}
	return p.text()
}

// text appends the fields of the document that a JSON text holds.
func (p *parser) text() error {
	p.byteOrderMark()
	if p.token() == '{' {
		var err error
		if p.moves, err = p.members(p.declared, 1); err != nil {
			return err
		}
		return p.end()
	}
	at := p.pos
	typeAt := p.wrapper()
	if err := p.value(p.declared.child([]byte(p.wrap)), typeAt, 2); err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	if p.wrap == "" {
		return p.fail("not-a-document", at, "the JSON value is no object; the option wrap would store it under a name")
	}
	return nil
}

// byteOrderMark passes one at the beginning (RFC 8259, section 8.1).
func (p *parser) byteOrderMark() {
	const mark = "\xef\xbb\xbf"
	if len(p.src) >= len(mark) && string(p.src[:len(mark)]) == mark {
		p.pos = len(mark)
	}
}

// end says what is wrong if the text goes on.
func (p *parser) end() error {
	if p.token(); p.pos < len(p.src) {
		return p.fail("trailing-data", p.pos, "something follows the JSON value")
	}
	return nil
}

// wrapper begins the element that a value which is no document is stored in, as the only one of the document.
func (p *parser) wrapper() (typeAt int) {
	typeAt = len(p.dst)
	p.dst = append(p.dst, 0)
	p.dst = append(p.dst, p.wrap...)
	p.dst = append(p.dst, 0)
	p.names.note(p.dst, 0, typeAt, 1)
	return typeAt
}

// unparsed appends the source as a string or as binary.
func (p *parser) unparsed(format Format, typeAt int) error {
	if format == Bytes {
		p.dst[typeAt] = byte(bsoncore.TypeBinary)
		p.dst = bsoncore.AppendBinary(p.dst, genericSubtype, p.src)
		return nil
	}
	if at := invalidUTF8(p.src); at != none {
		return p.fail("bad-utf8", at, "not UTF-8")
	}
	p.dst[typeAt] = byte(bsoncore.TypeString)
	p.dst = appendString(p.dst, p.src)
	return nil
}

// value reads one value and sets its type at typeAt. A container in it is of the level.
func (p *parser) value(declared *node, typeAt, level int) error {
	c := p.token()
	if declared != nil && declared.kind != undeclared && c != '[' {
		return p.typed(declared, typeAt, level)
	}
	switch c {
	case '"':
		p.dst[typeAt] = byte(bsoncore.TypeString)
		return p.stringValue()
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number(typeAt)
	case '{':
		return p.object(declared, typeAt, level)
	case '[':
		p.dst[typeAt] = byte(bsoncore.TypeArray)
		return p.array(declared, level)
	default:
		return p.word(typeAt)
	}
}

// stringValue reads a string in quotes and appends it as the value of an element.
func (p *parser) stringValue() error {
	at := len(p.dst)
	p.dst = append(p.dst, 0, 0, 0, 0)
	if _, err := p.str(); err != nil {
		return err
	}
	p.dst = append(p.dst, 0)
	putLength(p.dst, at, len(p.dst)-at-4)
	return nil
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

const tooManyLevels = "more than 180 levels, which MongoDB refuses"

func (p *parser) tooDeep() error { return p.fail("too-deep", p.pos, tooManyLevels) }

func (p *parser) repeated(at int) error {
	return p.fail("duplicate-key", at, "a field name stands twice in one object")
}
