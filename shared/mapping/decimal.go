package mapping

import (
	"math/bits"
	"strings"
)

const (
	decimalDigits = 34
	// IEEE 754-2008 decimal128: the range of the exponent of an integer coefficient.
	minExponent = -6176
	maxExponent = 6111
)

// coefficient is the integer of up to 34 digits that a decimal is a power of ten of.
type coefficient struct {
	high, low uint64
	digits    int
}

// times10 appends a digit. 34 digits take 113 bits.
func (c *coefficient) times10(digit byte) {
	carry, low := bits.Mul64(c.low, 10)
	low, over := bits.Add64(low, uint64(digit), 0)
	c.high, c.low = c.high*10+carry+over, low
	if c.digits > 0 || digit != 0 {
		c.digits++
	}
}

// div10 takes the last digit away if it is a 0.
func (c *coefficient) div10() bool {
	high, rest := c.high/10, c.high%10
	low, rest := bits.Div64(rest, c.low, 10)
	if rest != 0 {
		return false
	}
	c.high, c.low = high, low
	c.digits--
	return true
}

// parseDecimal returns the decimal128 of a decimal text: an optional sign, digits with or without a point, an optional
// exponent. ok says whether it is such a text, exact whether a decimal128 has exactly this value. The scale is kept
// where it can be, else the nearest one is taken that has the value, as IEEE 754 asks.
func parseDecimal(text []byte) (high, low uint64, ok, exact bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	c, exponent, rest, ok := parseCoefficient(text)
	if !ok {
		return 0, 0, false, false
	}
	written, ok := parseExponent(rest)
	if !ok {
		return 0, 0, false, false
	}
	exponent += written
	if c.digits > decimalDigits || !c.fit(&exponent) {
		return 0, 0, true, false
	}
	high = c.high | uint64(exponent-minExponent)<<49
	if negative {
		high |= 1 << 63
	}
	return high, c.low, true, true
}

// parseCoefficient reads the digits and returns what follows. Zeros behind the 34th digit are counted in the exponent;
// any other digit there makes the coefficient longer than 34 digits.
func parseCoefficient(text []byte) (c coefficient, exponent int, rest []byte, ok bool) {
	i, point := 0, false
	for ; i < len(text); i++ {
		digit := text[i] - '0'
		switch {
		case text[i] == '.' && !point:
			point = true
			continue
		case digit > 9:
			return c, exponent, text[i:], ok
		case c.digits < decimalDigits:
			c.times10(digit)
		case digit == 0:
			exponent++
		default:
			c.digits = decimalDigits + 1
		}
		ok = true
		if point {
			exponent--
		}
	}
	return c, exponent, nil, ok
}

// parseExponent reads what follows the digits. Exponents beyond a thousand million are cut to it, which is out of
// range however many digits a value has.
func parseExponent(text []byte) (int, bool) {
	const enough = 1_000_000_000
	if len(text) == 0 {
		return 0, true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	text = text[1:]
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	exponent := 0
	for _, c := range text {
		if !isDigit(c) {
			return 0, false
		}
		exponent = min(exponent*10+int(c-'0'), enough)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

// fit brings the exponent into its range without changing the value, if that is possible.
func (c *coefficient) fit(exponent *int) bool {
	if c.digits == 0 {
		*exponent = max(minExponent, min(*exponent, maxExponent))
		return true
	}
	for ; *exponent < minExponent; *exponent++ {
		if !c.div10() {
			return false
		}
	}
	for ; *exponent > maxExponent; *exponent-- {
		if c.digits == decimalDigits {
			return false
		}
		c.times10(0)
	}
	return true
}

// parseAnyDecimal returns the decimal128 of a text that is a number, or names what no number stands for (MongoDB's
// specification "BSON Decimal128", section "from string representation"). It never rounds.
func parseAnyDecimal(text []byte) (high, low uint64, ok bool) {
	const infinity, nan = 0x78 << 56, 0x7c << 56
	unsigned := text
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		unsigned = text[1:]
	}
	switch strings.ToLower(string(unsigned[:min(len(unsigned), len("infinity")+1)])) {
	case "nan":
		return nan, 0, true
	case "inf", "infinity":
		high = infinity
		if text[0] == '-' {
			high |= 1 << 63
		}
		return high, 0, true
	}
	high, low, ok, exact := parseDecimal(text)
	return high, low, ok && exact
}
