package mapping

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// wrapper is the name of a field that makes the object around it stand for a value (MongoDB Extended JSON v2,
// conversion table).
type wrapper int

const (
	noWrapper wrapper = iota
	wrapBinary
	wrapCode
	wrapDate
	wrapDBPointer
	wrapDecimal
	wrapDouble
	wrapInt
	wrapLong
	wrapMaxKey
	wrapMinKey
	wrapOID
	wrapRegex
	wrapScope
	wrapSymbol
	wrapTimestamp
	wrapUndefined
	wrapUUID
)

// wrapperOf returns the wrapper of a name. $ref, $id and $db of a DBRef are a convention, not a type: they stay fields.
func wrapperOf(name []byte) wrapper {
	if len(name) == 0 || name[0] != '$' {
		return noWrapper
	}
	for w, text := range wrapperNames {
		if string(name) == text {
			return wrapper(w)
		}
	}
	return noWrapper
}

//nolint:gochecknoglobals // a table that nothing changes
var wrapperNames = [...]string{
	noWrapper: "$", wrapBinary: "$binary", wrapCode: "$code", wrapDate: "$date", wrapDBPointer: "$dbPointer",
	wrapDecimal: "$numberDecimal", wrapDouble: "$numberDouble", wrapInt: "$numberInt", wrapLong: "$numberLong",
	wrapMaxKey: "$maxKey", wrapMinKey: "$minKey", wrapOID: "$oid", wrapRegex: "$regularExpression", wrapScope: "$scope",
	wrapSymbol: "$symbol", wrapTimestamp: "$timestamp", wrapUndefined: "$undefined", wrapUUID: "$uuid",
}

// wrapped reads the value of a wrapper's field and appends what it stands for as the value of that field. It comes into
// the place of the object when that ends, since only then it is known to have no other fields.
func (p *parser) wrapped(w wrapper, typeAt, level int) error {
	at := p.skip()
	switch w {
	case wrapCode:
		return p.wrappedString(w, typeAt, bsoncore.TypeJavaScript)
	case wrapSymbol:
		return p.wrappedString(w, typeAt, bsoncore.TypeSymbol)
	case wrapScope:
		return p.wrappedScope(typeAt, level+1)
	case wrapMinKey:
		return p.wrappedWord(w, typeAt, bsoncore.TypeMinKey, "1")
	case wrapMaxKey:
		return p.wrappedWord(w, typeAt, bsoncore.TypeMaxKey, "1")
	case wrapUndefined:
		return p.wrappedWord(w, typeAt, bsoncore.TypeUndefined, "true")
	case wrapBinary, wrapRegex, wrapTimestamp, wrapDBPointer:
		return p.wrappedParts(w, typeAt)
	case wrapDate:
		if p.peek() == '{' {
			return p.wrappedParts(w, typeAt)
		}
	case noWrapper, wrapDecimal, wrapDouble, wrapInt, wrapLong, wrapOID, wrapUUID:
	}
	if p.peek() != '"' {
		return p.badWrapper(w, at)
	}
	start := len(p.dst)
	if _, err := p.str(); err != nil {
		return err
	}
	// The text stands behind the end of dst: it is read before dst grows.
	text := p.dst[start:]
	p.dst = p.dst[:start]
	if !p.wrappedText(w, typeAt, text) {
		return p.badWrapper(w, at)
	}
	return nil
}

// wrappedText appends the value of a wrapper that holds a text, and says whether there is one.
func (p *parser) wrappedText(w wrapper, typeAt int, text []byte) bool {
	switch w {
	case wrapOID:
		id, ok := parseObjectID(text)
		p.dst[typeAt] = byte(bsoncore.TypeObjectID)
		p.dst = append(p.dst, id[:]...)
		return ok
	case wrapInt:
		n, ok := parseWholeNumber(text)
		p.dst[typeAt] = byte(bsoncore.TypeInt32)
		p.dst = bsoncore.AppendInt32(p.dst, int32(n))
		return ok && n >= math.MinInt32 && n <= math.MaxInt32
	case wrapLong:
		n, ok := parseWholeNumber(text)
		p.dst[typeAt] = byte(bsoncore.TypeInt64)
		p.dst = bsoncore.AppendInt64(p.dst, n)
		return ok
	case wrapDouble:
		f, ok := parseAnyDouble(text)
		p.dst[typeAt] = byte(bsoncore.TypeDouble)
		p.dst = bsoncore.AppendDouble(p.dst, f)
		return ok
	case wrapDecimal:
		high, low, ok := parseAnyDecimal(text)
		p.dst[typeAt] = byte(bsoncore.TypeDecimal128)
		p.dst = bsoncore.AppendDecimal128(p.dst, high, low)
		return ok
	case wrapDate:
		millis, ok := parseDate(text)
		p.setDate(typeAt, millis)
		return ok
	case wrapUUID:
		id, ok := parseUUID(text)
		p.dst[typeAt] = byte(bsoncore.TypeBinary)
		p.dst = bsoncore.AppendBinary(p.dst, uuidSubtype, id[:])
		return ok
	default:
		return false
	}
}

func (p *parser) wrappedString(w wrapper, typeAt int, t bsoncore.Type) error {
	if p.peek() != '"' {
		return p.badWrapper(w, p.pos)
	}
	p.dst[typeAt] = byte(t)
	return p.stringValue()
}

func (p *parser) wrappedScope(typeAt, level int) error {
	at := p.pos
	if p.peek() != '{' {
		return p.badWrapper(wrapScope, at)
	}
	if err := p.object(nil, typeAt, level); err != nil {
		return err
	}
	if p.dst[typeAt] != byte(bsoncore.TypeEmbeddedDocument) {
		return p.badWrapper(wrapScope, at)
	}
	return nil
}

// wrappedWord reads the only value that a wrapper can have.
func (p *parser) wrappedWord(w wrapper, typeAt int, t bsoncore.Type, word string) error {
	rest := p.src[p.pos:]
	if len(rest) < len(word) || string(rest[:len(word)]) != word || len(rest) > len(word) && isDigitOrPoint(rest[len(word)]) {
		return p.badWrapper(w, p.pos)
	}
	p.pos += len(word)
	p.dst[typeAt] = byte(t)
	return nil
}

func isDigitOrPoint(c byte) bool { return isDigit(c) || c == '.' || c|0x20 == 'e' }

// unwrap puts the value that an object wraps in its place, if it wraps one. The object's fields begin at first, its
// value at at, its text at opened.
func (p *parser) unwrap(typeAt, at, first, opened int) (bool, error) {
	fields := p.names.fields[first:]
	code, scope, others, wraps := none, none, 0, noWrapper
	for i := range fields {
		if fields[i].latest == repeat {
			continue
		}
		switch w := wrapperOf(p.nameOf(&fields[i])); w {
		case noWrapper:
			others++
		case wrapScope:
			scope, wraps = i, w
		default:
			if code != none {
				others++
			}
			code, wraps = i, w
		}
	}
	switch {
	case wraps == noWrapper:
		return false, nil
	case others > 0 || code == none:
		return false, p.badWrapper(wraps, opened)
	case scope == none:
		p.dst[typeAt] = p.element(fields, code)[0]
		p.dst = append(p.dst[:at], p.content(fields, code)...)
		return true, nil
	case wrapperOf(p.nameOf(&fields[code])) != wrapCode:
		return false, p.badWrapper(wrapScope, opened)
	}
	p.names.spare = append(p.names.spare[:0], p.content(fields, code)...)
	p.names.spare = append(p.names.spare, p.content(fields, scope)...)
	p.dst[typeAt] = byte(bsoncore.TypeCodeWithScope)
	p.dst = binary.LittleEndian.AppendUint32(p.dst[:at], uint32(4+len(p.names.spare)))
	p.dst = append(p.dst, p.names.spare...)
	return true, nil
}

// content returns the bytes of a field's value.
func (p *parser) content(fields []field, i int) []byte {
	return p.element(fields, i)[1+fields[i].name+1:]
}

// skip passes white space and returns the place behind it.
func (p *parser) skip() int {
	p.token()
	return p.pos
}

// badWrapper says that an object with the name of a wrapper is none.
func (p *parser) badWrapper(w wrapper, at int) error {
	return p.fail("bad-extjson", at, wrapperNames[w]+" is not as MongoDB Extended JSON v2 has it: exactly the fields of its kind, and a value that fits")
}

const uuidSubtype = 0x04

// parseUUID reads the form of RFC 4122, section 3, in either case.
func parseUUID(text []byte) (id [16]byte, ok bool) {
	if len(text) != 36 {
		return id, false
	}
	n := 0
	for i := 0; i < len(text); {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return id, false
			}
			i++
			continue
		}
		high, ok1 := hexDigit(text[i])
		low, ok2 := hexDigit(text[i+1])
		if !ok1 || !ok2 {
			return id, false
		}
		id[n] = high<<4 | low
		n++
		i += 2
	}
	return id, true
}

// appendBinary appends a binary whose base64 has padding, as the specification asks, and its subtype of one or two hex
// digits.
func appendBinary(dst, text, subtype []byte) ([]byte, bool) {
	var t byte
	for _, c := range subtype {
		digit, ok := hexDigit(c)
		if !ok {
			return dst, false
		}
		t = t<<4 | digit
	}
	if len(subtype) < 1 || len(subtype) > 2 || bytes.ContainsAny(text, "\r\n") {
		return dst, false
	}
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, t)
	if t == oldBinarySubtype {
		dst = append(dst, 0, 0, 0, 0)
	}
	content := len(dst)
	dst = slices.Grow(dst, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(dst[content:cap(dst)], text)
	dst = dst[:content+n]
	if t == oldBinarySubtype {
		putLength(dst, at+5, n)
	}
	putLength(dst, at, len(dst)-at-5)
	return dst, err == nil
}
