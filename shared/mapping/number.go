package mapping

import (
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// number reads a number into the type that its form asks for.
func (p *parser) number(typeAt int) error {
	if p.shortNumber(typeAt) {
		return nil
	}
	at := p.pos
	literal, integer, err := p.literal()
	if err != nil {
		return err
	}
	if !integer {
		f, err := strconv.ParseFloat(string(literal), 64)
		if err != nil {
			return p.fail("number-out-of-range", at, "the number is beyond the range of a double")
		}
		p.setDouble(typeAt, f)
		return nil
	}
	if n, ok := parseInteger(literal); ok {
		p.setInteger(typeAt, n)
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

func (p *parser) setDouble(typeAt int, f float64) {
	p.dst[typeAt] = byte(bsoncore.TypeDouble)
	p.dst = bsoncore.AppendDouble(p.dst, f)
}

// setInteger appends an int32, or an int64 where it does not fit.
func (p *parser) setInteger(typeAt int, n int64) {
	if n >= math.MinInt32 && n <= math.MaxInt32 {
		p.dst[typeAt] = byte(bsoncore.TypeInt32)
		p.dst = bsoncore.AppendInt32(p.dst, int32(n))
		return
	}
	p.dst[typeAt] = byte(bsoncore.TypeInt64)
	p.dst = bsoncore.AppendInt64(p.dst, n)
}

// shortNumber reads a number such as 19.90 or -12: up to 15 digits, and no exponent. Both the digits as an integer and
// the power of ten are exact doubles, so one division rounds correctly (Clinger, How to Read Floating Point Numbers
// Accurately, 1990). false is no answer: nothing is read then.
func (p *parser) shortNumber(typeAt int) bool {
	const exactDigits = 15
	text := p.src[p.pos:]
	text = text[:min(len(text), exactDigits+len("-.,"))]
	first := 0
	if text[0] == '-' {
		first = 1
	}
	n, end, point := int64(0), first, none
	for ; end < len(text); end++ {
		digit := text[end] - '0'
		if digit <= 9 {
			n = n*10 + int64(digit)
			continue
		}
		if text[end] != '.' || point != none {
			break
		}
		point = end
	}
	whole := end
	if point != none {
		whole = point
	}
	switch {
	case whole == first, point == end-1, text[first] == '0' && whole > first+1:
		return false // no JSON
	case end-first > exactDigits, end == len(text), text[end]|0x20 == 'e', text[end] == '.':
		return false // longer than this
	}
	p.pos += end
	if point == none {
		p.setInteger(typeAt, n*int64(1-2*first))
		return true
	}
	p.setDouble(typeAt, float64(n)/powersOfTen[end-point-1]*float64(1-2*first))
	return true
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
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}
