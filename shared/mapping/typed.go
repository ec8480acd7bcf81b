package mapping

import (
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// typed reads a value of a declared type. Arrays of it are read elsewhere.
func (p *parser) typed(declared *node, typeAt, level int) error {
	at := p.pos
	switch c := p.peek(); {
	case c == '"':
		start := len(p.dst)
		if _, err := p.str(); err != nil {
			return err
		}
		text := p.dst[start:]
		p.dst = p.dst[:start]
		return p.typedText(declared, typeAt, at, text)
	case c == '-' || isDigit(c):
		literal, integer, err := p.literal()
		if err != nil {
			return err
		}
		return p.typedNumber(declared, typeAt, at, literal, integer)
	case c == '{' && p.extended:
		return p.typedObject(declared, typeAt, level)
	case c == '{':
		return p.unfit(declared, at)
	}
	if err := p.word(typeAt); err != nil {
		return err
	}
	if p.dst[typeAt] != byte(bsoncore.TypeNull) {
		return p.unfit(declared, at)
	}
	return nil
}

// typedObject reads an object, which fits only if it wraps a value that does.
func (p *parser) typedObject(declared *node, typeAt, level int) error {
	at, start := p.pos, len(p.dst)
	if err := p.object(nil, typeAt, level); err != nil {
		return err
	}
	p.names.spare = append(p.names.spare[:0], p.dst[start:]...)
	p.dst = p.dst[:start]
	return p.typedBSON(declared, typeAt, at, bsoncore.Value{Type: bsoncore.Type(p.dst[typeAt]), Data: p.names.spare})
}

// typedBSON converts a value that is BSON already. What has the declared type stays as it is, texts and integers are
// converted as those of JSON are. A double has no decimal digits that could be kept, and counts nothing whole.
func (p *parser) typedBSON(declared *node, typeAt, at int, value bsoncore.Value) error {
	p.dst[typeAt] = byte(value.Type)
	if value.Type == bsoncore.TypeNull || isOf(declared.kind, value.Type) {
		p.dst = append(p.dst, value.Data...)
		return nil
	}
	var n int64
	switch value.Type {
	case bsoncore.TypeString:
		return p.typedText(declared, typeAt, at, value.Data[4:len(value.Data)-1])
	case bsoncore.TypeInt32:
		n = int64(value.Int32())
	case bsoncore.TypeInt64:
		n = value.Int64()
	default:
		return p.unfit(declared, at)
	}
	switch declared.kind {
	case decimal:
		return p.decimal(declared, typeAt, at, strconv.AppendInt(nil, n, 10))
	case date, epochSeconds:
		return p.typedInteger(declared, typeAt, at, n)
	case objectID, undeclared:
	}
	return p.unfit(declared, at)
}

// isOf says whether a BSON type is the declared one.
func isOf(k kind, t bsoncore.Type) bool {
	switch k {
	case date, epochSeconds:
		return t == bsoncore.TypeDateTime
	case objectID:
		return t == bsoncore.TypeObjectID
	case decimal:
		return t == bsoncore.TypeDecimal128
	case undeclared:
	}
	return false
}

// typedText converts a text, which stands behind the end of dst: it must be read before dst grows.
func (p *parser) typedText(declared *node, typeAt, at int, text []byte) error {
	switch declared.kind {
	case date:
		if millis, ok := parseDate(text); ok {
			p.setDate(typeAt, millis)
			return nil
		}
	case objectID:
		if id, ok := parseObjectID(text); ok {
			p.dst[typeAt] = byte(bsoncore.TypeObjectID)
			p.dst = append(p.dst, id[:]...)
			return nil
		}
	case decimal:
		return p.decimal(declared, typeAt, at, text)
	case epochSeconds, undeclared:
	}
	return p.unfit(declared, at)
}

func (p *parser) typedNumber(declared *node, typeAt, at int, literal []byte, integer bool) error {
	if declared.kind == decimal {
		return p.decimal(declared, typeAt, at, literal)
	}
	if declared.kind == objectID || !integer {
		return p.unfit(declared, at)
	}
	n, ok := parseInteger(literal)
	if !ok {
		return p.unfit(declared, at)
	}
	return p.typedInteger(declared, typeAt, at, n)
}

// typedInteger converts a number to a date.
func (p *parser) typedInteger(declared *node, typeAt, at int, n int64) error {
	if declared.kind == epochSeconds {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return p.unfit(declared, at)
		}
		n *= 1000
	}
	p.setDate(typeAt, n)
	return nil
}

func (p *parser) setDate(typeAt int, millis int64) {
	p.dst[typeAt] = byte(bsoncore.TypeDateTime)
	p.dst = bsoncore.AppendDateTime(p.dst, millis)
}

func (p *parser) decimal(declared *node, typeAt, at int, text []byte) error {
	high, low, ok, exact := parseDecimal(text)
	if !ok {
		return p.unfit(declared, at)
	}
	if !exact {
		return p.fail("number-out-of-range", at, declared.path+" has no exact decimal128: 34 digits are the most, and nothing is rounded")
	}
	p.dst[typeAt] = byte(bsoncore.TypeDecimal128)
	p.dst = bsoncore.AppendDecimal128(p.dst, high, low)
	return nil
}

// unfit says that a value is not of its declared type.
func (p *parser) unfit(declared *node, at int) error {
	switch declared.kind {
	case objectID:
		return p.fail("bad-object-id", at, declared.path+" is no text of 24 hex digits")
	case decimal:
		return p.fail("bad-decimal", at, declared.path+" is no decimal number")
	case epochSeconds:
		return p.fail("bad-date", at, declared.path+" is no whole number of seconds since 1970")
	case date, undeclared:
	}
	return p.fail("bad-date", at, declared.path+" is no date: RFC 3339 text or whole milliseconds since 1970")
}

func parseObjectID(text []byte) (id [12]byte, ok bool) {
	if len(text) != 2*len(id) {
		return id, false
	}
	for i := range id {
		high, ok1 := hexDigit(text[2*i])
		low, ok2 := hexDigit(text[2*i+1])
		if !ok1 || !ok2 {
			return id, false
		}
		id[i] = high<<4 | low
	}
	return id, true
}

// parseDate returns the milliseconds since 1970 of an RFC 3339 text, section 5.6, false where it is none or no BSON
// date stands for it. time.Parse is not used: it takes a comma for the point, offsets of 24:00, any number of fraction
// digits, and no lower-case t and z.
func parseDate(text []byte) (int64, bool) {
	const local = len("2006-01-02T15:04:05")
	if len(text) < local+1 || text[4] != '-' || text[7] != '-' || text[10]|0x20 != 't' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	century, ok1 := twoDigits(text, 0, 99)
	year, ok2 := twoDigits(text, 2, 99)
	month, ok3 := twoDigits(text, 5, 12)
	day, ok4 := twoDigits(text, 8, 31)
	hour, ok5 := twoDigits(text, 11, 23)
	minute, ok6 := twoDigits(text, 14, 59)
	second, ok7 := twoDigits(text, 17, 59)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 {
		return 0, false
	}
	t := time.Date(century*100+year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Day() != day || int(t.Month()) != month {
		return 0, false
	}
	millis, rest, ok := parseFraction(text[local:])
	if !ok {
		return 0, false
	}
	offset, ok := parseOffset(rest)
	return (t.Unix()-offset)*1000 + millis, ok
}

// parseFraction reads a point and 1 to 9 digits, or nothing, and returns what follows.
func parseFraction(text []byte) (millis int64, rest []byte, ok bool) {
	if text[0] != '.' {
		return 0, text, true
	}
	digits := 0
	for _, c := range text[1:] {
		if !isDigit(c) {
			break
		}
		if digits++; digits <= 3 {
			millis = millis*10 + int64(c-'0')
		}
	}
	for i := digits; i < 3; i++ {
		millis *= 10
	}
	return millis, text[1+digits:], digits >= 1 && digits <= 9
}

// parseOffset reads the offset of a date's end, in seconds.
func parseOffset(text []byte) (int64, bool) {
	if len(text) == 1 {
		return 0, text[0]|0x20 == 'z'
	}
	if len(text) != len("+00:00") || text[3] != ':' || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	hours, ok1 := twoDigits(text, 1, 23)
	minutes, ok2 := twoDigits(text, 4, 59)
	seconds := int64(hours*60+minutes) * 60
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, ok1 && ok2
}

func twoDigits(text []byte, at, highest int) (int, bool) {
	if !isDigit(text[at]) || !isDigit(text[at+1]) {
		return 0, false
	}
	n := int(text[at]-'0')*10 + int(text[at+1]-'0')
	return n, n <= highest
}
