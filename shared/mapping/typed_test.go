package mapping

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// convertField converts {"v": json} and returns the value of v.
func convertField(t *testing.T, m *Mapper, json string) (bson.RawValue, error) {
	t.Helper()
	doc, err := m.Value(nil, []byte(`{"v":`+json+`}`))
	if err != nil {
		return bson.RawValue{}, err
	}
	if err := bson.Raw(doc).Validate(); err != nil {
		t.Fatal(err)
	}
	return bson.Raw(doc).Lookup("v"), nil
}

// fieldCase has the type that v is stored as, or the class that refuses it.
type fieldCase struct {
	json  string
	want  any
	class string
}

func runFields(t *testing.T, o Options, cases []fieldCase) {
	t.Helper()
	m := mustNew(t, o)
	for _, c := range cases {
		name := c.json
		if len(name) > 60 {
			name = fmt.Sprintf("%s (%d bytes)", name[:40], len(name))
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := convertField(t, m, c.json)
			if c.class != "" {
				checkPoison(t, err, c.class)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantType, want, err := bson.MarshalValue(c.want)
			if err != nil {
				t.Fatal(err)
			}
			if got.Type != wantType || string(got.Value) != string(want) {
				t.Errorf("got %v, want %v", got, bson.RawValue{Type: wantType, Value: want})
			}
		})
	}
}

func dec(t *testing.T, digits string, exponent int) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(digits + "E" + strconv.Itoa(exponent))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestValue_Numbers_KeepTheirValueOrAreRefused(t *testing.T) {
	t.Parallel()
	nines, zeros := strings.Repeat("9", 34), func(n int) string { return strings.Repeat("0", n) }
	runFields(t, Options{}, []fieldCase{
		{json: "0", want: int32(0)},
		{json: "-2147483648", want: int32(math.MinInt32)},
		{json: "-2147483649", want: int64(math.MinInt32 - 1)},
		{json: "9223372036854775807", want: int64(math.MaxInt64)},
		{json: "-9223372036854775808", want: int64(math.MinInt64)},
		{json: "9223372036854775808", want: dec(t, "9223372036854775808", 0)},
		{json: "-9223372036854775809", want: dec(t, "-9223372036854775809", 0)},
		{json: "18446744073709551616", want: dec(t, "18446744073709551616", 0)},
		{json: nines, want: dec(t, nines, 0)},
		{json: "-" + nines, want: dec(t, "-"+nines, 0)},
		{json: "1" + zeros(34), want: dec(t, "1"+zeros(33), 1)},
		{json: nines + "0", want: dec(t, nines, 1)},
		{json: nines + "1", class: "number-out-of-range"},
		{json: nines + zeros(6111), want: dec(t, nines, 6111)},
		{json: nines + zeros(6112), class: "number-out-of-range"},
		{json: "1" + zeros(1_000_000), class: "number-out-of-range"},
		{json: "1.7976931348623157e308", want: math.MaxFloat64},
		{json: "1.7976931348623159e308", class: "number-out-of-range"},
		{json: "-1e309", class: "number-out-of-range"},
		{json: "5e-324", want: math.SmallestNonzeroFloat64},
		{json: "1e-400", want: 0.0},
		{json: "0.1", want: 0.1},
		{json: "123456789012345.", class: "malformed-json"},
		{json: "0.000000000000001", want: 1e-15},
		{json: "0.0000000000000001", want: 1e-16},
		{json: "-0.0", want: math.Copysign(0, -1)},
		{json: "0." + zeros(1_000_000) + "1", want: 0.0},
		{json: "-", class: "malformed-json"},
		{json: "00", class: "malformed-json"},
		{json: "-01", class: "malformed-json"},
		{json: "1.e5", class: "malformed-json"},
		{json: "1e", class: "malformed-json"},
		{json: "+1", class: "malformed-json"},
		{json: "0x10", class: "malformed-json"},
		{json: "1_000", class: "malformed-json"},
		{json: "Infinity", class: "malformed-json"},
	})
}

// TestValue_ShortNumbers_AgreeWithStrconv tries what the quick way for numbers takes, and what is just beyond it.
func TestValue_ShortNumbers_AgreeWithStrconv(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	m := mustNew(t, Options{})
	for range 20_000 {
		text := strconv.FormatInt(random.Int64N(1<<random.IntN(55)+1), 10)
		if random.IntN(3) > 0 {
			text += "." + fmt.Sprintf("%0*d", 1+random.IntN(4), random.IntN(10))
		}
		if random.IntN(2) == 0 {
			text = "-" + text
		}
		got, err := convertField(t, m, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want, _ := strconv.ParseFloat(text, 64)
		if f, isDouble := got.DoubleOK(); isDouble != strings.Contains(text, ".") || isDouble && math.Float64bits(f) != math.Float64bits(want) {
			t.Fatalf("%s: %v, want %v", text, got, want)
		}
		if n, isInteger := got.AsInt64OK(); isInteger && !strings.Contains(text, ".") && strconv.FormatInt(n, 10) != text && text != "-0" {
			t.Fatalf("%s: %d", text, n)
		}
	}
}

func TestValue_DeclaredDecimals_KeepDigitsAndScale(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 34)
	runFields(t, Options{Decimals: []string{"v"}}, []fieldCase{
		{json: `"19.90"`, want: dec(t, "1990", -2)},
		{json: `19.90`, want: dec(t, "1990", -2)},
		{json: `"\u0031.50"`, want: dec(t, "150", -2)},
		{json: `"+007.50"`, want: dec(t, "750", -2)},
		{json: `".5"`, want: dec(t, "5", -1)},
		{json: `"5."`, want: dec(t, "5", 0)},
		{json: `"0.000"`, want: dec(t, "0", -3)},
		{json: `"-0.00"`, want: dec(t, "-0", -2)},
		{json: `-0`, want: dec(t, "-0", 0)},
		{json: `1e3`, want: dec(t, "1", 3)},
		{json: `"1E-6176"`, want: dec(t, "1", -6176)},
		{json: `"10E-6177"`, want: dec(t, "1", -6176)},
		{json: `"1E-6177"`, class: "number-out-of-range"},
		{json: `"` + nines + `E6111"`, want: dec(t, nines, 6111)},
		{json: `"1E6144"`, want: dec(t, "1"+strings.Repeat("0", 33), 6111)},
		{json: `"1E6145"`, class: "number-out-of-range"},
		{json: `"0E-99999999999999999999999"`, want: dec(t, "0", -6176)},
		{json: `"1E99999999999999999999999"`, class: "number-out-of-range"},
		{json: `"0.` + strings.Repeat("0", 6000) + nines + `"`, want: dec(t, nines, -6034)},
		{json: `"1.` + strings.Repeat("0", 40) + `"`, want: dec(t, "1"+strings.Repeat("0", 33), -33)},
		{json: `"1.` + strings.Repeat("0", 40) + `1"`, class: "number-out-of-range"},
		{json: `"` + strings.Repeat("0", 1_000_000) + `7"`, want: dec(t, "7", 0)},
		{json: `null`, want: bson.Null{}},
		{json: `[1,null,"2.0"]`, want: bson.A{dec(t, "1", 0), nil, dec(t, "20", -1)}},
		{json: `""`, class: "bad-decimal"},
		{json: `"."`, class: "bad-decimal"},
		{json: `"-"`, class: "bad-decimal"},
		{json: `"e5"`, class: "bad-decimal"},
		{json: `"1e"`, class: "bad-decimal"},
		{json: `"1.2.3"`, class: "bad-decimal"},
		{json: `" 1"`, class: "bad-decimal"},
		{json: `"1\u0000"`, class: "bad-decimal"},
		{json: `"1,5"`, class: "bad-decimal"},
		{json: `"NaN"`, class: "bad-decimal"},
		{json: `"Infinity"`, class: "bad-decimal"},
		{json: `true`, class: "bad-decimal"},
		{json: `{"$numberDecimal":"1"}`, class: "bad-decimal"},
		{json: `1.`, class: "malformed-json"},
	})
}

func TestValue_DeclaredDates_AreExactOrRefused(t *testing.T) {
	t.Parallel()
	millis := func(n int64) bson.DateTime { return bson.DateTime(n) }
	runFields(t, Options{Dates: []string{"v"}}, []fieldCase{
		{json: `"1970-01-01T00:00:00Z"`, want: millis(0)},
		{json: `"1970-01-01t00:00:00z"`, want: millis(0)},
		{json: `"1970-01-01T00:00:00-00:00"`, want: millis(0)},
		{json: `"1969-12-31T23:59:59.9999Z"`, want: millis(-1)},
		{json: `"1969-12-31T23:59:59.0009Z"`, want: millis(-1000)},
		{json: `"1969-12-31T23:59:59.5Z"`, want: millis(-500)},
		{json: `"0000-01-01T00:00:00Z"`, want: millis(-62167219200000)},
		{json: `"0000-02-29T00:00:00+23:59"`, want: millis(-62167219200000 + 59*86400000 - 86340000)},
		{json: `"9999-12-31T23:59:59.999999999-23:59"`, want: millis(253402300799999 + 86340000)},
		{json: `"2000-02-29T00:00:00Z"`, want: millis(951782400000)},
		{json: `"1900-02-29T00:00:00Z"`, class: "bad-date"},
		{json: `"2027-04-31T00:00:00Z"`, class: "bad-date"},
		{json: `"2o27-01-01T00:00:00Z"`, class: "bad-date"},
		{json: `"2027-0/-01T00:00:00Z"`, class: "bad-date"},
		{json: `"2027-00-01T00:00:00Z"`, class: "bad-date"},
		{json: `"2027-13-01T00:00:00Z"`, class: "bad-date"},
		{json: `"2027-01-00T00:00:00Z"`, class: "bad-date"},
		{json: `"2027-01-01T24:00:00Z"`, class: "bad-date"},
		{json: `"2027-01-01T00:60:00Z"`, class: "bad-date"},
		{json: `"2016-12-31T23:59:60Z"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00"`, class: "bad-date"},
		{json: `"2027-01-01T00:00Z"`, class: "bad-date"},
		{json: `"2027-01-01 00:00:00Z"`, class: "bad-date"},
		{json: `"2027-01-01"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00.Z"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00,5Z"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00.1234567890Z"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00.123"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00+24:00"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00+00:60"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00+0200"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00+02"`, class: "bad-date"},
		{json: `"2027-01-01T00:00:00ZZ"`, class: "bad-date"},
		{json: `"12027-01-01T00:00:00Z"`, class: "bad-date"},
		{json: `"\u0032027-01-01T00:00:00Z"`, want: millis(1798761600000)},
		{json: `""`, class: "bad-date"},
		{json: `-1`, want: millis(-1)},
		{json: `-0`, want: millis(0)},
		{json: `9223372036854775807`, want: millis(math.MaxInt64)},
		{json: `9223372036854775808`, class: "bad-date"},
		{json: `1e3`, class: "bad-date"},
		{json: `1.5`, class: "bad-date"},
		{json: `1.0`, class: "bad-date"},
		{json: `"1893553445007"`, class: "bad-date"},
		{json: `false`, class: "bad-date"},
		{json: `{}`, class: "bad-date"},
		{json: `{"$date":0}`, class: "bad-date"},
		{json: `nul`, class: "malformed-json"},
	})
}

// TestParseDate_EveryDay_AgreesWithTimePackage goes through all days that RFC 3339 can name, in steps.
func TestParseDate_EveryDay_AgreesWithTimePackage(t *testing.T) {
	t.Parallel()
	end := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for day := time.Date(0, 1, 1, 13, 14, 15, 987_654_321, time.UTC); day.Before(end); day = day.AddDate(0, 0, 41) {
		got, ok := parseDate([]byte(day.Format(time.RFC3339Nano)))
		if !ok || got != day.UnixMilli() {
			t.Fatalf("%v: %d %v, want %d", day, got, ok, day.UnixMilli())
		}
	}
}

func TestValue_DeclaredEpochSeconds_AreWholeSeconds(t *testing.T) {
	t.Parallel()
	runFields(t, Options{EpochSeconds: []string{"v"}}, []fieldCase{
		{json: `-1`, want: bson.DateTime(-1000)},
		{json: `9223372036854775`, want: bson.DateTime(9223372036854775000)},
		{json: `9223372036854776`, class: "bad-date"},
		{json: `-9223372036854775`, want: bson.DateTime(-9223372036854775000)},
		{json: `-9223372036854776`, class: "bad-date"},
		{json: `1893553445.007`, class: "bad-date"},
		{json: `"1893553445"`, class: "bad-date"},
		{json: `"2031-03-04T05:06:07Z"`, class: "bad-date"},
		{json: `null`, want: bson.Null{}},
	})
}

func TestValue_DeclaredObjectIDs_Are24HexDigits(t *testing.T) {
	t.Parallel()
	id := bson.ObjectID{0x64, 0xf0, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x01, 0x23, 0x45, 0x67}
	runFields(t, Options{ObjectIDs: []string{"v"}}, []fieldCase{
		{json: `"64f0a1b2c3d4e5f601234567"`, want: id},
		{json: `"64F0A1B2C3D4E5F601234567"`, want: id},
		{json: `["64F0A1B2C3D4E5F601234567",null,[]]`, want: bson.A{id, nil, bson.A{}}},
		{json: `"64f0a1b2c3d4e5f6012345678"`, class: "bad-object-id"},
		{json: `"64f0a1b2c3d4e5f60123456g"`, class: "bad-object-id"},
		{json: `"64f0a1b2c3d4e5f6012345 7"`, class: "bad-object-id"},
		{json: `""`, class: "bad-object-id"},
		{json: `5`, class: "bad-object-id"},
		{json: `{"$oid":"64f0a1b2c3d4e5f601234567"}`, class: "bad-object-id"},
	})
}

func TestValue_DeclaredPaths_MeetOnlyTheirField(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Dates: []string{"a.b"}})
	got, err := m.Value(nil, []byte(`{"a.b":1,"b":2,"a":[[{"b":3,"c":{"b":4}}],5,{"a":{"b":6}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := encode(t, bson.D{
		{Key: "a.b", Value: int32(1)},
		{Key: "b", Value: int32(2)},
		{Key: "a", Value: bson.A{
			bson.A{bson.D{{Key: "b", Value: bson.DateTime(3)}, {Key: "c", Value: bson.D{{Key: "b", Value: int32(4)}}}}},
			int32(5),
			bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: int32(6)}}}},
		}},
	})
	if string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", show(got), show(want))
	}
}
