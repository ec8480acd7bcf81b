package mapping

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fuzzOptions are the two configurations that FuzzValue tries; the declared names are short so that they are hit.
var fuzzOptions = []Options{
	{
		Dates: []string{"d", "l.d"}, EpochSeconds: []string{"s", "l.s"},
		ObjectIDs: []string{"o", "_id"}, Decimals: []string{"p", "l.p"},
	},
	{RejectDuplicateKeys: true, Wrap: "d", Dates: []string{"d"}},
}

// FuzzValue compares with the oracle: what is accepted, and every byte. Classes may differ where a value has several
// faults.
func FuzzValue(f *testing.F) {
	var cases []convertCase
	readCases(f, "convert.json", &cases)
	for _, c := range cases {
		if c.Format == "json" && c.ValueBuild == nil {
			f.Add(c.Value)
		}
	}
	for _, value := range awkward {
		f.Add([]byte(value))
	}
	mappers := []*Mapper{mustNew(f, fuzzOptions[0]), mustNew(f, fuzzOptions[1])}
	oracles := []*oracle{newOracle(fuzzOptions[0].split()), newOracle(fuzzOptions[1].split())}
	f.Fuzz(func(t *testing.T, value []byte) {
		for i, m := range mappers {
			agree(t, m, oracles[i], value)
		}
	})
}

// split writes dotted paths with the oracle's separator, which can stand in no name.
func (o Options) split() Options {
	for _, list := range []*[]string{&o.Dates, &o.EpochSeconds, &o.ObjectIDs, &o.Decimals} {
		var paths []string
		for _, path := range *list {
			paths = append(paths, strings.ReplaceAll(path, ".", "\x00"))
		}
		*list = paths
	}
	return o
}

func agree(t *testing.T, m *Mapper, o *oracle, value []byte) {
	t.Helper()
	before := bytes.Clone(value)
	got, err := m.Value(nil, value)
	if !bytes.Equal(before, value) {
		t.Fatal("the value was changed")
	}
	want, wantErr := o.value(value)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: error %v, the oracle says %v", value, err, wantErr)
	}
	if err != nil {
		return
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%q:\ngot  %s\nwant %s", value, show(got), show(want))
	}
	if err := bson.Raw(got).Validate(); err != nil {
		t.Fatalf("%q: %v", value, err)
	}
}

// awkward values are starting points for the fuzzer, and are compared with the oracle by every test run.
var awkward = []string{
	order,
	`{"a":1,"b":{"c":1,"c":{"c":2,"c":[3,{"x":1,"x":2}]}},"a":{"z":1,"z":2,"a":3},"b":null}`,
	`{"a0":0,"a1":1,"a2":2,"a3":3,"a4":4,"a5":5,"a6":6,"a7":7,"a8":8,"a9":9,"b0":0,"b1":1,"b2":2,"b3":3,"b4":4,"b5":5,"b6":6,"b7":7,"a0":8,"b7":9,"\u00620":1}`,
	`{"longer than eight":1,"LONGER than eight":2,"longer than eight":3,"":4,"":5}`,
	`{"s":-62135596800,"d":"0000-01-01T00:00:00.0009+23:59","l":[{"d":["1969-12-31T23:59:59.9999999z",null,[5]]},{"s":[1,-1]}]}`,
	`{"d":1e3}`, `{"d":1.0}`, `{"d":-0}`, `{"s":9223372036854776}`, `{"s":-9223372036854775}`, `{"d":9223372036854775808}`,
	`{"p":["1","-1.50","+.5","5.","1E+6111","1E-6176","0E+99999999999999999999","-0","1e33",1.5e-7,0.000,100000000000000000000000000000000000000000]}`,
	`{"p":"1E+6145"}`, `{"p":"12345678901234567890123456789012345e-1"}`, `{"p":"1E-6177"}`, `{"p":"NaN"}`, `{"p":""}`, `{"p":"1_0"}`, `{"p":"1e"}`, `{"p":{}}`,
	`{"o":["64F0a1b2c3d4e5f601234567",null]}`, `{"o":5}`, `{"o":"64F0a1b2c3d4e5f60123456g"}`,
	`{"n":[9999999999999999999999999999999999,-10000000000000000000000000000000000,99999999999999999999999999999999990]}`,
	`{"n":[-9223372036854775808,-9223372036854775809,9223372036854775807,9223372036854775808,18446744073709551616]}`,
	`{"f":[0.1,1e-400,4.9e-324,2.2250738585072011e-308,1.7976931348623157e308,123456789012345.6,12345678901234.5,-0.0,0e0,1E+2,9007199254740993.0]}`,
	`{"f":1.7976931348623159e308}`, `{"f":-}`, `{"f":1.}`, `{"f":1e+}`, `{"f":.5}`, `{"f":+5}`, `{"f":-01}`,
	`{"s":"\ud83d\ude00\u00e9\u0000\"\\\/\b\f\n\r\t"}`, `{"x":"\udc00"}`, `{"x":"\ud83d\u0041"}`, `{"x":"\ud83d\ud83d"}`, `{"x":"\u12g4"}`, `{"x":"\x"}`, `{"x":"\`,
	"{\"x\":\"0123456789\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd\x7f\"}",
	"{\"x\":\"\xc0\xaf\"}", "{\"x\":\"\xed\xa0\x80\"}", "{\"x\":\"\xf4\x90\x80\x80\"}", "{\"x\":\"\xe2\x82\"}", "{\"\xff\":1}", "{\"x\":\"1234567\x1f\"}", "{\xff}",
	"\ufeff\ufeff{}", "\ufeff", " \t\r\n{ \"a\" : [ ] , \"b\" : { } } \n", "{}\x00", "{}\v", "\x0c{}", `{"a":1,}`, `[1,]`, `{,}`, `{"a"}`, `{"a" 1}`, `{"a":[1 2]}`, `{"a":[}`, `{"a":tru}`, `nul`, `"x"`, `5 5`, `[[1],[2]]`,
	`"2031-03-04T05:06:07Z"`, `[1893553445007,"2031-03-04t05:06:07+00:00"]`,
}

func TestValue_AwkwardValues_AgreesWithTheOracle(t *testing.T) {
	t.Parallel()
	for i, options := range fuzzOptions {
		m, o := mustNew(t, options), newOracle(options.split())
		for _, value := range awkward {
			agree(t, m, o, []byte(value))
			for cut := range len(value) {
				agree(t, m, o, []byte(value[:cut]))
			}
		}
		if i == 0 {
			deep := func(n int) []byte { return []byte(`{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`) }
			agree(t, m, o, deep(179))
			agree(t, m, o, deep(180))
		}
	}
}
