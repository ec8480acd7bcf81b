package mongosink

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// appendCanonical appends a form of an _id that is the same for all values which MongoDB takes for equal, and differs
// for others ("Comparison/Sort Order" in MongoDB's manual): numbers of all types are compared by value, a symbol is a
// string, and both hold also inside documents and arrays, whose order of fields counts.
func appendCanonical(dst []byte, v bson.RawValue) []byte {
	switch v.Type {
	case bson.TypeInt32:
		return appendInteger(dst, int64(v.Int32()))
	case bson.TypeInt64:
		return appendInteger(dst, v.Int64())
	case bson.TypeDouble:
		return appendDouble(dst, v.Double())
	case bson.TypeDecimal128:
		return appendNumber(dst, v.Decimal128().String())
	case bson.TypeSymbol:
		return append(append(dst, byte(bson.TypeString)), v.Value...)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		dst = append(dst, byte(v.Type))
		elements, err := bson.Raw(v.Value).Elements()
		if err != nil {
			return append(dst, v.Value...)
		}
		for _, e := range elements {
			dst = append(append(dst, e.Key()...), 0)
			dst = appendCanonical(dst, e.Value())
		}
		return append(dst, 0)
	default:
		// The length is part of most values; a type without a value needs none.
		return append(append(dst, byte(v.Type)), v.Value...)
	}
}

// numberMark stands in front of all numbers, whatever their type.
const numberMark = byte(bson.TypeDouble)

func appendInteger(dst []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, numberMark, 'i'), uint64(n))
}

func appendDouble(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && f >= -(1<<63) && f < 1<<63 {
		return appendInteger(dst, int64(f))
	}
	// A double has up to 767 digits. MongoDB compares it with a decimal by the 34 that a decimal has.
	return appendNumber(dst, strconv.FormatFloat(f, 'e', 33, 64))
}

// appendNumber appends a number written as text: its digits without zeros at the ends, and their exponent.
func appendNumber(dst []byte, text string) []byte {
	sign, rest := "", text
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	rest = strings.TrimPrefix(rest, "+")
	if rest == "" || rest[0] < '0' || rest[0] > '9' {
		if strings.EqualFold(rest, "NaN") {
			sign = ""
		}
		return append(append(append(dst, numberMark, 'x'), sign...), strings.ToLower(rest[:min(3, len(rest))])...)
	}
	mantissa, exponentText, _ := strings.Cut(strings.ToUpper(rest), "E")
	exponent, _ := strconv.Atoi(exponentText) // of a double or a decimal it is in range; without one it is 0
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return appendInteger(dst, 0)
	}
	if exponent >= 0 && len(trimmed)+exponent <= 19 {
		if n, err := strconv.ParseInt(sign+trimmed+strings.Repeat("0", exponent), 10, 64); err == nil {
			return appendInteger(dst, n)
		}
	}
	dst = append(append(append(dst, numberMark, 'd'), sign...), trimmed...)
	dst = append(dst, 'e')
	return append(strconv.AppendInt(dst, int64(exponent), 10), 0)
}

// refusedID says what mongod refuses in an _id, "" for one that it stores. Such an _id would be an operator in the
// filters of a look-up, so it must not get that far.
func refusedID(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeArray:
		return "the _id is an array"
	case bson.TypeRegex:
		return "the _id is a regular expression"
	case bson.TypeUndefined:
		return "the _id is undefined"
	case bson.TypeEmbeddedDocument:
		return dollarName(bson.Raw(v.Value))
	default:
		return ""
	}
}

func dollarName(doc bson.Raw) string {
	elements, err := doc.Elements()
	if err != nil {
		return "the _id is not BSON"
	}
	for _, e := range elements {
		if strings.HasPrefix(e.Key(), "$") {
			return "a name inside the _id begins with $"
		}
		if v := e.Value(); v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray {
			if what := dollarName(bson.Raw(v.Value)); what != "" {
				return what
			}
		}
	}
	return ""
}
