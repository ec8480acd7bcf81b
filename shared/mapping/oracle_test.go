package mapping

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// oracle is a second reading of the rules: encoding/json for the text, math/big for numbers, time for dates and the
// driver for BSON. It shares no code with the package and is slow.
type oracle struct {
	declared map[string]string // path -> list that it stands in
	wrap     string
	reject   bool
}

func newOracle(o Options) *oracle {
	declared := map[string]string{}
	for list, paths := range map[string][]string{"date": o.Dates, "seconds": o.EpochSeconds, "id": o.ObjectIDs, "decimal": o.Decimals} {
		for _, path := range paths {
			declared[path] = list
		}
	}
	return &oracle{declared: declared, wrap: o.Wrap, reject: o.RejectDuplicateKeys}
}

func (o *oracle) value(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !json.Valid(text) || !utf8.Valid(text) || halfPair(string(text)) {
		return nil, errors.New("not JSON in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	first := strings.TrimLeft(string(text), " \t\r\n")[0]
	path, level := []string(nil), 1
	if first != '{' {
		if o.wrap == "" {
			return nil, errors.New("no object")
		}
		path, level = []string{o.wrap}, 2
	}
	v, err := o.next(d, path, level)
	if err != nil {
		return nil, err
	}
	if first != '{' {
		v = bson.D{{Key: o.wrap, Value: v}}
	}
	return bson.Marshal(v)
}

// halfPair looks for the escapes of half surrogate pairs, which encoding/json replaces.
func halfPair(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		unit := text[i+1 : i+5]
		i += 4
		switch {
		case regexp.MustCompile(`^(?i)d[89ab]`).MatchString(unit):
			if !regexp.MustCompile(`^(?i)\\ud[c-f]`).MatchString(text[i+1:]) {
				return true
			}
			i += 6
		case regexp.MustCompile(`^(?i)d[c-f]`).MatchString(unit):
			return true
		}
	}
	return false
}

func (o *oracle) next(d *json.Decoder, path []string, level int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	list := o.declared[strings.Join(path, "\x00")]
	switch v := token.(type) {
	case json.Delim:
		if level > 180 {
			return nil, errors.New("too deep")
		}
		if v == '[' {
			return o.array(d, path, level)
		}
		if list != "" {
			return nil, errors.New("a declared object")
		}
		return o.object(d, path, level)
	case nil:
		return nil, nil
	case bool:
		if list != "" {
			return nil, errors.New("a declared boolean")
		}
		return v, nil
	case string:
		return oracleText(list, v)
	case json.Number:
		return oracleNumber(list, v.String())
	}
	return nil, fmt.Errorf("token %T", token)
}

func (o *oracle) array(d *json.Decoder, path []string, level int) (any, error) {
	out := bson.A{}
	for d.More() {
		v, err := o.next(d, path, level+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, err
}

func (o *oracle) object(d *json.Decoder, path []string, level int) (any, error) {
	out := bson.D{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok || strings.Contains(name, "\x00") {
			return nil, io.ErrUnexpectedEOF
		}
		v, err := o.next(d, append(slices.Clone(path), name), level+1)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == name })
		switch {
		case i < 0:
			out = append(out, bson.E{Key: name, Value: v})
		case o.reject:
			return nil, errors.New("a repeated name")
		default:
			out[i].Value = v
		}
	}
	_, err := d.Token()
	return out, err
}

var (
	oracleDate    = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	oracleDecimal = regexp.MustCompile(`^([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?$`)
)

func oracleText(list, text string) (any, error) {
	switch list {
	case "date":
		if !oracleDate.MatchString(text) {
			return nil, errors.New("no date")
		}
		t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text))
		return bson.DateTime(t.UnixMilli()), err
	case "id":
		id, err := hex.DecodeString(text)
		if err != nil || len(id) != 12 {
			return nil, errors.New("no ObjectId")
		}
		return bson.ObjectID(id), nil
	case "decimal":
		return oracleDecimal128(text)
	case "seconds":
		return nil, errors.New("no seconds")
	}
	return text, nil
}

func oracleNumber(list, text string) (any, error) {
	if list == "decimal" {
		return oracleDecimal128(text)
	}
	if list == "id" {
		return nil, errors.New("a number as ObjectId")
	}
	if strings.ContainsAny(text, ".eE") {
		if list != "" {
			return nil, errors.New("no integer")
		}
		return strconv.ParseFloat(text, 64)
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, errors.New("no integer")
	}
	if list == "seconds" {
		if !n.IsInt64() {
			return nil, errors.New("beyond int64")
		}
		n.Mul(n, big.NewInt(1000))
	}
	switch {
	case list != "" && !n.IsInt64():
		return nil, errors.New("beyond int64")
	case list != "":
		return bson.DateTime(n.Int64()), nil
	case n.IsInt64() && int64(int32(n.Int64())) == n.Int64():
		return int32(n.Int64()), nil
	case n.IsInt64():
		return n.Int64(), nil
	}
	return oracleDecimal128(text)
}

func oracleDecimal128(text string) (any, error) {
	m := oracleDecimal.FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("no decimal")
	}
	whole, fraction, _ := strings.Cut(m[2], ".")
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return nil, errors.New("no digits")
	}
	exponent := new(big.Int)
	if m[3] != "" {
		exponent.SetString(strings.TrimPrefix(m[3], "+"), 10)
	}
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	limit := big.NewInt(1 << 30)
	if exponent.CmpAbs(limit) > 0 {
		exponent.Mul(limit, big.NewInt(int64(exponent.Sign())))
	}
	d, ok := bson.ParseDecimal128FromBigInt(n, int(exponent.Int64()))
	if !ok {
		return nil, errors.New("no exact decimal128")
	}
	if high, low := d.GetBytes(); m[1] == "-" {
		d = bson.NewDecimal128(high|1<<63, low)
	}
	return d, nil
}
