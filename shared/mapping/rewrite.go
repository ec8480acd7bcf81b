package mapping

import (
	"bytes"
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// rewrite appends the elements of the source from at to end, which were checked, as they are to be stored. It says
// whether names are repeated, and leaves the fields in p.names.
func (p *parser) rewrite(declared *node, at, end, level int) (repeats bool, err error) {
	first := len(p.names.fields)
	for at < end {
		typeAt := len(p.dst)
		value := at + 1 + bytes.IndexByte(p.src[at+1:], 0) + 1
		p.dst = append(p.dst, p.src[at:value]...)
		repeats = !p.names.note(p.dst, first, typeAt, level) || repeats
		child := declared
		if child != nil {
			child = child.child(p.src[at+1 : value-1])
		}
		if at, err = p.rewriteValue(child, typeAt, value, end, level+1); err != nil {
			return false, err
		}
	}
	return repeats, nil
}

func (p *parser) rewriteArray(declared *node, at, end, level int) (err error) {
	for at < end {
		typeAt := len(p.dst)
		value := at + 1 + bytes.IndexByte(p.src[at+1:], 0) + 1
		p.dst = append(p.dst, p.src[at:value]...)
		if at, err = p.rewriteValue(declared, typeAt, value, end, level+1); err != nil {
			return err
		}
	}
	return nil
}

// rewriteValue appends one value, whose type stands at typeAt, and returns the place behind it in the source.
func (p *parser) rewriteValue(declared *node, typeAt, at, end, level int) (next int, err error) {
	t := bsoncore.Type(p.dst[typeAt])
	typed := declared != nil && declared.kind != undeclared
	switch {
	case t == bsoncore.TypeArray, t == bsoncore.TypeEmbeddedDocument && !typed:
		return p.rewriteNested(declared, t, at, level)
	case t == bsoncore.TypeCodeWithScope && !typed:
		return p.rewriteCode(at, level)
	}
	value, _, _ := bsoncore.ReadValue(p.src[at:end], t) // it was checked
	next = at + len(value.Data)
	if typed {
		return next, p.typedBSON(declared, typeAt, at, value)
	}
	p.dst = append(p.dst, value.Data...)
	return next, nil
}

func (p *parser) rewriteNested(declared *node, t bsoncore.Type, at, level int) (next int, err error) {
	start, first := len(p.dst), len(p.names.fields)
	inner := at + int(binary.LittleEndian.Uint32(p.src[at:])) - 1
	p.dst = append(p.dst, 0, 0, 0, 0)
	repeats := false
	if t == bsoncore.TypeArray {
		err = p.rewriteArray(declared, at+4, inner, level)
	} else {
		repeats, err = p.rewrite(declared, at+4, inner, level)
	}
	if err != nil {
		return 0, err
	}
	if repeats {
		p.reorder(first, nil)
	}
	p.names.fields = p.names.fields[:first]
	p.close(start)
	return inner + 1, nil
}

// rewriteCode appends code with a scope.
func (p *parser) rewriteCode(at, level int) (next int, err error) {
	start := len(p.dst)
	scope := at + 8 + int(binary.LittleEndian.Uint32(p.src[at+4:]))
	p.dst = append(p.dst, 0, 0, 0, 0)
	p.dst = append(p.dst, p.src[at+4:scope]...)
	next, err = p.rewriteNested(nil, bsoncore.TypeEmbeddedDocument, scope, level+1)
	putLength(p.dst, start, len(p.dst)-start)
	return next, err
}
