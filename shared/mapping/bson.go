package mapping

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

const (
	// The shortest document: its length and the zero at its end.
	minDocument = 5
	// A binary of this subtype holds its length twice (BSON specification).
	oldBinarySubtype = 0x02
)

// bsonFields appends the fields of the BSON document that the source is, which is of the level, and says whether names
// are repeated among them. The document is copied as it is and looked through; only where a name is repeated further
// down, or a declared field has another type, is it written anew.
func (p *parser) bsonFields(level int) (repeats bool, err error) {
	if len(p.src) > maxParts {
		return false, p.fail("too-large", 0, "the value has more than "+strconv.Itoa(maxParts)+" bytes of BSON")
	}
	end, err := p.bounds(0, len(p.src))
	if err != nil {
		return false, err
	}
	if end < len(p.src)-1 {
		return false, p.fail("trailing-data", end+1, "something follows the BSON document")
	}
	start, first := len(p.dst), len(p.names.fields)
	p.dst = append(p.dst, p.src[4:end]...)
	w := walk{p: p, base: start - 4}
	repeats, err = w.document(p.declared, 4, end, level)
	if err != nil || !w.changes {
		return repeats, err
	}
	p.dst, p.names.fields = p.dst[:start], p.names.fields[:first]
	return p.rewrite(p.declared, 4, end, level)
}

// bsonValue appends the BSON document that the source is as a value.
func (p *parser) bsonValue(level int) error {
	at, first := len(p.dst), len(p.names.fields)
	p.dst = append(p.dst, 0, 0, 0, 0)
	repeats, err := p.bsonFields(level)
	if err != nil {
		return err
	}
	if repeats {
		p.reorder(first, nil)
	}
	p.names.fields = p.names.fields[:first]
	p.close(at)
	return nil
}

// bounds returns the place of the zero that ends the document at at of the source. It must end before limit.
func (p *parser) bounds(at, limit int) (end int, err error) {
	n, ok := p.int32(at, limit)
	if !ok || n < minDocument || n > limit-at || p.src[at+n-1] != 0 {
		return 0, p.fail("malformed-bson", at, "no BSON document: its length does not lead to the zero at its end")
	}
	return at + n - 1, nil
}

// int32 reads an int32 of the source, false where it does not stand before limit.
func (p *parser) int32(at, limit int) (int, bool) {
	if limit-at < 4 {
		return 0, false
	}
	return int(int32(binary.LittleEndian.Uint32(p.src[at:]))), true
}

// walk looks through a BSON document that was copied: what stands at i of the source stands at base+i of dst.
type walk struct {
	p       *parser
	base    int
	changes bool // the copy is not what is to be stored
}

// document checks the elements from at to end and notes their names.
func (w *walk) document(declared *node, at, end, level int) (repeats bool, err error) {
	p := w.p
	if level > maxLevels {
		return false, p.fail("too-deep", at-4, tooManyLevels)
	}
	first := len(p.names.fields)
	for at < end {
		value, err := p.cstring(at+1, end)
		if err != nil {
			return false, err
		}
		if !p.names.note(p.dst[:w.base+value], first, w.base+at, level) {
			repeats = true
			if p.rejectRepeats {
				return false, p.repeated(at)
			}
		}
		child := declared
		if child != nil {
			child = child.child(p.src[at+1 : value-1])
		}
		if at, err = w.value(child, bsoncore.Type(p.src[at]), value, end, level+1); err != nil {
			return false, err
		}
	}
	return repeats, nil
}

// array checks the elements of an array. Their names are no names: BSON's specification asks for numbers, readers take
// any.
func (w *walk) array(declared *node, at, end, level int) error {
	if level > maxLevels {
		return w.p.fail("too-deep", at-4, tooManyLevels)
	}
	for at < end {
		value, err := w.p.cstring(at+1, end)
		if err != nil {
			return err
		}
		if at, err = w.value(declared, bsoncore.Type(w.p.src[at]), value, end, level+1); err != nil {
			return err
		}
	}
	return nil
}

// value checks one value and returns the place behind it. A document in it is of the level.
func (w *walk) value(declared *node, t bsoncore.Type, at, end, level int) (next int, err error) {
	p := w.p
	if declared != nil && declared.kind != undeclared && t != bsoncore.TypeNull && t != bsoncore.TypeArray && !isOf(declared.kind, t) {
		w.changes = true
	}
	switch t {
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
		inner, err := p.bounds(at, end)
		if err != nil {
			return 0, err
		}
		if t == bsoncore.TypeArray {
			return inner + 1, w.array(declared, at+4, inner, level)
		}
		return inner + 1, w.nested(declared, at+4, inner, level)
	case bsoncore.TypeCodeWithScope:
		return w.code(at, end, level)
	default:
		return p.scalar(t, at, end)
	}
}

// nested checks a document in a document.
func (w *walk) nested(declared *node, at, end, level int) error {
	first := len(w.p.names.fields)
	repeats, err := w.document(declared, at, end, level)
	w.p.names.fields = w.p.names.fields[:first]
	w.changes = w.changes || repeats
	return err
}

// code checks code with a scope, which counts for a level, as the object that wraps it in Extended JSON does.
func (w *walk) code(at, end, level int) (next int, err error) {
	p := w.p
	n, ok := p.int32(at, end)
	if !ok || n < 4 || n > end-at {
		return 0, p.fail("malformed-bson", at, "the length of a code with scope leads out of its document")
	}
	scope, err := p.text32(at+4, at+n)
	if err != nil {
		return 0, err
	}
	inner, err := p.bounds(scope, at+n)
	if err != nil {
		return 0, err
	}
	if inner+1 != at+n {
		return 0, p.fail("malformed-bson", at, "the length of a code with scope is not that of its parts")
	}
	return inner + 1, w.nested(nil, scope+4, inner, level+1)
}

// cstring checks the text that ends with a zero, and returns the place behind it.
func (p *parser) cstring(at, end int) (next int, err error) {
	n := bytes.IndexByte(p.src[at:end], 0)
	if n < 0 {
		return 0, p.fail("malformed-bson", at, "a name or a regular expression does not end in its document")
	}
	return at + n + 1, p.utf8(at, at+n)
}

// text32 checks the text whose length stands before it, and returns the place behind it.
func (p *parser) text32(at, end int) (next int, err error) {
	n, ok := p.int32(at, end)
	if !ok || n < 1 || n > end-at-4 || p.src[at+4+n-1] != 0 {
		return 0, p.fail("malformed-bson", at, "the length of a text does not lead to the zero at its end")
	}
	return at + 4 + n, p.utf8(at+4, at+4+n-1)
}

func (p *parser) utf8(from, to int) error {
	if bad := invalidUTF8(p.src[from:to]); bad != none {
		return p.fail("bad-utf8", from+bad, "not UTF-8")
	}
	return nil
}

// scalar checks a value that is no document, and returns the place behind it.
func (p *parser) scalar(t bsoncore.Type, at, end int) (next int, err error) {
	size := 0
	switch t {
	case bsoncore.TypeString, bsoncore.TypeJavaScript, bsoncore.TypeSymbol:
		return p.text32(at, end)
	case bsoncore.TypeDBPointer:
		if at, err = p.text32(at, end); err != nil {
			return 0, err
		}
		size = 12
	case bsoncore.TypeRegex:
		if at, err = p.cstring(at, end); err != nil {
			return 0, err
		}
		return p.cstring(at, end)
	case bsoncore.TypeBinary:
		return p.binary(at, end)
	case bsoncore.TypeBoolean:
		if at < end && p.src[at] > 1 {
			return 0, p.fail("malformed-bson", at, "a boolean is neither 0 nor 1")
		}
		size = 1
	case bsoncore.TypeInt32:
		size = 4
	case bsoncore.TypeDouble, bsoncore.TypeDateTime, bsoncore.TypeTimestamp, bsoncore.TypeInt64:
		size = 8
	case bsoncore.TypeObjectID:
		size = 12
	case bsoncore.TypeDecimal128:
		size = 16
	case bsoncore.TypeNull, bsoncore.TypeUndefined, bsoncore.TypeMinKey, bsoncore.TypeMaxKey:
	default:
		return 0, p.fail("malformed-bson", at, "the type of the element before this byte is not one of BSON 1.1")
	}
	if size > end-at {
		return 0, p.fail("malformed-bson", at, "the document ends inside a value")
	}
	return at + size, nil
}

func (p *parser) binary(at, end int) (next int, err error) {
	n, ok := p.int32(at, end)
	if !ok || n < 0 || n > end-at-5 {
		return 0, p.fail("malformed-bson", at, "the length of a binary leads out of its document")
	}
	next = at + 5 + n
	if p.src[at+4] == oldBinarySubtype {
		if inner, ok := p.int32(at+5, next); !ok || inner != n-4 {
			return 0, p.fail("malformed-bson", at, "the two lengths of a binary of subtype 2 contradict")
		}
	}
	return next, nil
}
