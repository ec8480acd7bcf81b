package mapping

import (
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// number reads a number into the type that its form asks for.
func (p *parser) number(typeAt int) error {
	if n, ok := p.smallInteger(); ok {
		p.dst[typeAt] = byte(bsoncore.TypeInt32)
		p.dst = bsoncore.AppendInt32(p.dst, n)
		return nil
	}
	at := p.pos
	literal, integer, err := p.literal()
	if err != nil {
		return err
	}
	if !integer {
		f, ok := parseDouble(literal)
		if !ok {
			return p.fail("number-out-of-range", at, "the number is beyond the range of a double")
		}
		p.dst[typeAt] = byte(bsoncore.TypeDouble)
		p.dst = bsoncore.AppendDouble(p.dst, f)
		return nil
	}
	if v, ok := parseInteger(literal); ok {
		if v >= math.MinInt32 && v <= math.MaxInt32 {
			p.dst[typeAt] = byte(bsoncore.TypeInt32)
			p.dst = bsoncore.AppendInt32(p.dst, int32(v))
			return nil
		}
		p.dst[typeAt] = byte(bsoncore.TypeInt64)
		p.dst = bsoncore.AppendInt64(p.dst, v)
		return nil
	}
	high, low, _, exact := parseDecimal(literal)
	if !exact {
		return p.fail("number-out-of-range", at, "the integer has more digits than a decimal128 holds")
	}
	p.dst[typeAt] = byte(bsoncore.TypeDecimal128)
	p.dst = bsoncore.AppendDecimal128(p.dst, high, low)
	return nil
}

// smallInteger reads an integer literal of up to nine digits that has no sign and no leading zero. false is no answer:
// nothing is read then.
func (p *parser) smallInteger() (int32, bool) {
	n, src := int32(0), p.src[p.pos:]
	for i, c := range src {
		if !isDigit(c) {
			if i == 0 || c == '.' || c|0x20 == 'e' || src[0] == '0' && i > 1 {
				return 0, false
			}
			p.pos += i
			return n, true
		}
		if i == 9 {
			return 0, false
		}
		n = n*10 + int32(c-'0')
	}
	return 0, false
}

// literal passes one number in JSON's grammar and says whether it is an integer literal: without point and exponent.
func (p *parser) literal() (text []byte, integer bool, err error) {
	start := p.pos
	if p.peek() == '-' {
		p.pos++
	}
	if p.peek() == '0' {
		p.pos++
		if isDigit(p.peek()) {
			return nil, false, p.fail("malformed-json", p.pos, "not JSON: a number must not begin with zeros")
		}
	} else if !p.digits() {
		return nil, false, p.malformed("a digit")
	}
	integer = true
	if p.peek() == '.' {
		integer = false
		p.pos++
		if !p.digits() {
			return nil, false, p.malformed("a digit")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		integer = false
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if !p.digits() {
			return nil, false, p.malformed("a digit")
		}
	}
	return p.src[start:p.pos], integer, nil
}

// digits passes digits and says whether there was one.
func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	return p.pos > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseInteger returns an integer literal as an int64, false where it does not fit.
func parseInteger(literal []byte) (int64, bool) {
	negative := literal[0] == '-'
	digits := literal
	if negative {
		digits = digits[1:]
	}
	// 19 digits cannot overflow a uint64.
	if len(digits) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		n = n*10 + uint64(c-'0')
	}
	switch {
	case n <= math.MaxInt64 && negative:
		return -int64(n), true
	case n <= math.MaxInt64:
		return int64(n), true
	case negative && n == -math.MinInt64:
		return math.MinInt64, true
	}
	return 0, false
}

// parseDouble returns the double nearest to a literal, false where it would be infinite.
func parseDouble(literal []byte) (float64, bool) {
	if f, ok := parseShortDouble(literal); ok {
		return f, true
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	return f, err == nil
}

// parseShortDouble returns literals such as 19.90, with at most 15 digits and no exponent: both the digits as an integer
// and the power of ten are exact doubles, so one division rounds correctly (Clinger, How to Read Floating Point Numbers
// Accurately, 1990).
func parseShortDouble(literal []byte) (float64, bool) {
	const exactDigits = 15
	if len(literal) > exactDigits+len("-.") {
		return 0, false
	}
	var digits, scale int
	var n int64
	for i, c := range literal {
		switch {
		case isDigit(c):
			n = n*10 + int64(c-'0')
			digits++
		case c == '.':
			scale = len(literal) - i - 1
		case c != '-':
			return 0, false
		}
	}
	if digits > exactDigits {
		return 0, false
	}
	f := float64(n) / powersOfTen[scale]
	if literal[0] == '-' {
		f = -f
	}
	return f, true
}

//nolint:gochecknoglobals // a table that nothing changes
var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseWholeNumber returns the int64 of a text that is an integer literal of JSON and nothing else.
func parseWholeNumber(text []byte) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
	}
	return parseInteger(text)
}

// parseAnyDouble returns the double of a text that is a number of JSON, or one of the three names of MongoDB Extended
// JSON for what JSON has no number for.
func parseAnyDouble(text []byte) (float64, bool) {
	switch string(text) {
	case "NaN":
		// The bits that MongoDB's drivers write; math.NaN has others.
		return math.Float64frombits(0x7ff8000000000000), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	p := parser{src: text}
	if _, _, err := p.literal(); err != nil || p.pos < len(text) {
		return 0, false
	}
	return parseDouble(text)
}
