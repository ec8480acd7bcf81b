package mapping

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestValue_ExtJSON_WrappersBecomeTheirType(t *testing.T) {
	t.Parallel()
	id := bson.ObjectID{0x64, 0xf0, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x01, 0x23, 0x45, 0x67}
	const hex = `{"$oid":"64F0a1b2c3d4e5f601234567"}`
	uuid := bson.Binary{Subtype: 4, Data: []byte("\xc8\xed\xab\xc3\xf7\x38\x4c\xa3\xb6\x8d\xab\x92\xa9\x14\x78\xa3")}
	runFields(t, Options{Format: ExtJSON}, []fieldCase{
		{json: hex, want: id},
		{json: `{"\u0024oid" : "64f0a1b2c3d4e5f601234567" }`, want: id},
		{json: `{"$oid":"00","$oid":"64f0a1b2c3d4e5f601234567"}`, class: "bad-extjson"},
		{json: `{"$oid":"64f0a1b2c3d4e5f601234567","$oid":"64f0a1b2c3d4e5f601234567"}`, want: id},
		{json: `{"$oid":"64f0a1b2c3d4e5f601234567","a":1}`, class: "bad-extjson"},
		{json: `{"a":1,"$oid":"64f0a1b2c3d4e5f601234567"}`, class: "bad-extjson"},
		{json: `{"$oid":` + hex + `}`, class: "bad-extjson"},
		{json: `{"$oid":42}`, class: "bad-extjson"},
		{json: `{"$oid":"64f0a1b2c3d4e5f601234567"`, class: "malformed-json"},
		{json: `{"$numberInt":"-2147483648"}`, want: int32(math.MinInt32)},
		{json: `{"$numberInt":"2147483648"}`, class: "bad-extjson"},
		{json: `{"$numberInt":"+7"}`, class: "bad-extjson"},
		{json: `{"$numberInt":"07"}`, class: "bad-extjson"},
		{json: `{"$numberInt":"7.0"}`, class: "bad-extjson"},
		{json: `{"$numberInt":""}`, class: "bad-extjson"},
		{json: `{"$numberInt":7}`, class: "bad-extjson"},
		{json: `{"$numberLong":"7"}`, want: int64(7)},
		{json: `{"$numberLong":"9223372036854775808"}`, class: "bad-extjson"},
		{json: `{"$numberDouble":"7"}`, want: 7.0},
		{json: `{"$numberDouble":"-0.0"}`, want: math.Copysign(0, -1)},
		{json: `{"$numberDouble":"1.0E+300"}`, want: 1e300},
		{json: `{"$numberDouble":"-Infinity"}`, want: math.Inf(-1)},
		{json: `{"$numberDouble":"inf"}`, class: "bad-extjson"},
		{json: `{"$numberDouble":"0x1p4"}`, class: "bad-extjson"},
		{json: `{"$numberDouble":"1e400"}`, class: "bad-extjson"},
		{json: `{"$numberDecimal":"7.00"}`, want: dec(t, "700", -2)},
		{json: `{"$numberDecimal":"-inf"}`, want: bson.NewDecimal128(0xf8<<56, 0)},
		{json: `{"$numberDecimal":"nan"}`, want: bson.NewDecimal128(0x7c<<56, 0)},
		{json: `{"$numberDecimal":"12345678901234567890123456789012345"}`, class: "bad-extjson"},
		{json: `{"$date":"1969-12-31T23:59:59.999Z"}`, want: bson.DateTime(-1)},
		{json: `{"$date":{"$numberLong":"-1"}}`, want: bson.DateTime(-1)},
		{json: `{"$date":{"$numberLong":"-1","$numberLong":"5"}}`, want: bson.DateTime(5)},
		{json: `{"$date":{"$numberLong":"1","a":1}}`, class: "bad-extjson"},
		{json: `{"$date":{"$numberInt":"1"}}`, class: "bad-extjson"},
		{json: `{"$date":{"$numberLong":1}}`, class: "bad-extjson"},
		{json: `{"$date":{}}`, class: "bad-extjson"},
		{json: `{"$date":42}`, class: "bad-extjson"},
		{json: `{"$date":"today"}`, class: "bad-extjson"},
		{json: `{"$date":null}`, class: "bad-extjson"},
		{json: `{"$binary":{"subType":"80","base64":"aGk="}}`, want: bson.Binary{Subtype: 0x80, Data: []byte("hi")}},
		{json: `{"$binary":{"base64":"aGk=","subType":"2"}}`, want: bson.Binary{Subtype: 2, Data: []byte("hi")}},
		{json: `{"$binary":{"base64":"aGk","subType":"00"}}`, class: "bad-extjson"},
		{json: `{"$binary":{"base64":"aG\nk=","subType":"00"}}`, class: "bad-extjson"},
		{json: `{"$binary":{"base64":"aGl=","subType":"00"}}`, class: "bad-extjson"},
		{json: `{"$binary":{"base64":"aGk=","subType":"100"}}`, class: "bad-extjson"},
		{json: `{"$binary":{"base64":"aGk=","subType":""}}`, class: "bad-extjson"},
		{json: `{"$binary":{"base64":"aGk=","subType":0}}`, class: "bad-extjson"},
		{json: `{"$binary":{"base64":"aGk="}}`, class: "bad-extjson"},
		{json: `{"$binary":"aGk=","$type":"00"}`, class: "bad-extjson"},
		{json: `{"$uuid":"C8edabc3-f738-4ca3-b68d-ab92a91478a3"}`, want: uuid},
		{json: `{"$uuid":"c8edabc3f7384ca3b68dab92a91478a3"}`, class: "bad-extjson"},
		{json: `{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478ag"}`, class: "bad-extjson"},
		{json: `{"$regularExpression":{"pattern":"^a","options":"xim"}}`, want: bson.Regex{Pattern: "^a", Options: "imx"}},
		{json: `{"$regularExpression":{"pattern":"a\u0000","options":""}}`, class: "bad-extjson"},
		{json: `{"$regularExpression":{"pattern":"a"}}`, class: "bad-extjson"},
		{json: `{"$regex":"a","$options":"i"}`, want: bson.D{{Key: "$regex", Value: "a"}, {Key: "$options", Value: "i"}}},
		{json: `{"$timestamp":{"i":4294967295,"t":0}}`, want: bson.Timestamp{T: 0, I: math.MaxUint32}},
		{json: `{"$timestamp":{"t":4294967296,"i":0}}`, class: "bad-extjson"},
		{json: `{"$timestamp":{"t":-0,"i":0}}`, class: "bad-extjson"},
		{json: `{"$timestamp":{"t":1.0,"i":0}}`, class: "bad-extjson"},
		{json: `{"$timestamp":{"t":"1","i":0}}`, class: "bad-extjson"},
		{json: `{"$minKey":1}`, want: bson.MinKey{}},
		{json: `{"$maxKey":1}`, want: bson.MaxKey{}},
		{json: `{"$minKey":1.0}`, class: "bad-extjson"},
		{json: `{"$maxKey":12}`, class: "bad-extjson"},
		{json: `{"$undefined":true}`, want: bson.Undefined{}},
		{json: `{"$undefined":false}`, class: "bad-extjson"},
		{json: `{"$symbol":"s\u0000"}`, want: bson.Symbol("s\x00")},
		{json: `{"$code":"f()"}`, want: bson.JavaScript("f()")},
		{json: `{"$code":1}`, class: "bad-extjson"},
		{json: `{"$scope":{"a":{"$numberLong":"1"}},"$code":"f()"}`, want: bson.CodeWithScope{Code: "f()", Scope: bson.D{{Key: "a", Value: int64(1)}}}},
		{json: `{"$scope":{}}`, class: "bad-extjson"},
		{json: `{"$code":"f","$scope":` + hex + `}`, class: "bad-extjson"},
		{json: `{"$code":"f","$scope":1}`, class: "bad-extjson"},
		{json: `{"$symbol":"f","$scope":{}}`, class: "bad-extjson"},
		{json: `{"$code":"f","$symbol":"f"}`, class: "bad-extjson"},
		{json: `{"$code":"f","$scope":{},"a":1}`, class: "bad-extjson"},
		{json: `{"$dbPointer":{"$id":` + hex + `,"$ref":"b"}}`, want: bson.DBPointer{DB: "b", Pointer: id}},
		{json: `{"$dbPointer":{"$ref":"b","$id":"64f0a1b2c3d4e5f601234567"}}`, class: "bad-extjson"},
		{json: `{"$dbPointer":{"$ref":` + hex + `,"$id":` + hex + `}}`, class: "bad-extjson"},
		{json: `{"$ref":"c","$id":` + hex + `,"$db":"d"}`, want: bson.D{{Key: "$ref", Value: "c"}, {Key: "$id", Value: id}, {Key: "$db", Value: "d"}}},
		{json: `{"$ref":1}`, want: bson.D{{Key: "$ref", Value: int32(1)}}},
		{json: `{"$gt":{"$numberLong":"1"}}`, want: bson.D{{Key: "$gt", Value: int64(1)}}},
		{json: `[` + hex + `,[{"$numberLong":"1"}],3000000000,1.0]`, want: bson.A{id, bson.A{int64(1)}, int64(3000000000), 1.0}},
	})
}

func TestValue_ExtJSON_TopLevelIsNoWrapper(t *testing.T) {
	t.Parallel()
	got, err := mustNew(t, Options{Format: ExtJSON}).Value(nil, []byte(`{"$oid":"x","$date":{"$numberLong":"1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := encode(t, bson.D{{Key: "$oid", Value: "x"}, {Key: "$date", Value: int64(1)}}); !bytes.Equal(got, want) {
		t.Errorf("got %s", show(got))
	}
}

func TestValue_ExtJSON_RepeatedNamesInWrappersAreRefusedWhereAsked(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Format: ExtJSON, RejectDuplicateKeys: true})
	for _, value := range []string{`{"a":{"$date":{"$numberLong":"1","$numberLong":"1"}}}`, `{"a":{"$symbol":"a","$symbol":"a"}}`} {
		_, err := m.Value(nil, []byte(value))
		checkPoison(t, err, "duplicate-key")
	}
}

func TestValue_ExtJSON_WrappersAreNoLevels(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Format: ExtJSON})
	nest := func(n int, inner string) []byte {
		return []byte(strings.Repeat(`{"a":`, n) + inner + strings.Repeat(`}`, n))
	}
	for inner, most := range map[string]int{
		`{"$date":{"$numberLong":"1"}}`: 180,
		`{"$code":"f","$scope":{}}`:     178,
		`{}`:                            179,
		`{"b":1}`:                       179,
	} {
		got, err := m.Value(nil, nest(most, inner))
		if err != nil || levels(t, got) > maxLevels {
			t.Errorf("%s in %d: %v", inner, most, err)
		}
		_, err = m.Value(nil, nest(most+1, inner))
		checkPoison(t, err, "too-deep")
	}
}

func TestValue_ExtJSON_DeclaredFieldsTakeWhatFits(t *testing.T) {
	t.Parallel()
	id := bson.ObjectID{0x64, 0xf0, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x01, 0x23, 0x45, 0x67}
	runFields(t, Options{Format: ExtJSON, Dates: []string{"v"}}, []fieldCase{
		{json: `{"$date":"1970-01-01T00:00:00.005Z"}`, want: bson.DateTime(5)},
		{json: `{"$numberLong":"5"}`, want: bson.DateTime(5)},
		{json: `[{"$numberInt":"5"},"1970-01-01T00:00:00.005Z",5,null]`, want: bson.A{bson.DateTime(5), bson.DateTime(5), bson.DateTime(5), nil}},
		{json: `{"$numberDouble":"5"}`, class: "bad-date"},
		{json: `{"$symbol":"1970-01-01T00:00:00Z"}`, class: "bad-date"},
		{json: `{}`, class: "bad-date"},
		{json: `{"$date":5}`, class: "bad-extjson"},
	})
	runFields(t, Options{Format: ExtJSON, EpochSeconds: []string{"v"}}, []fieldCase{
		{json: `{"$numberLong":"5"}`, want: bson.DateTime(5000)},
		{json: `{"$date":{"$numberLong":"5"}}`, want: bson.DateTime(5)},
		{json: `{"$numberLong":"9223372036854775807"}`, class: "bad-date"},
	})
	runFields(t, Options{Format: ExtJSON, Decimals: []string{"v"}}, []fieldCase{
		{json: `{"$numberLong":"-50"}`, want: dec(t, "-50", 0)},
		{json: `{"$numberDecimal":"5.0"}`, want: dec(t, "50", -1)},
		{json: `{"$numberDouble":"5.0"}`, class: "bad-decimal"},
		{json: `5.0`, want: dec(t, "50", -1)},
	})
	runFields(t, Options{Format: ExtJSON, ObjectIDs: []string{"v"}}, []fieldCase{
		{json: `{"$oid":"64f0a1b2c3d4e5f601234567"}`, want: id},
		{json: `"64f0a1b2c3d4e5f601234567"`, want: id},
		{json: `{"$numberInt":"5"}`, class: "bad-object-id"},
	})
}

// TestValue_ExtJSON_AgreesWithTheDriver gives both a document with every type.
func TestValue_ExtJSON_AgreesWithTheDriver(t *testing.T) {
	t.Parallel()
	agreeExtJSON(t, mustNew(t, Options{Format: ExtJSON}), encode(t, everyType))
}

var everyType = bson.D{
	{Key: "double", Value: 1.5},
	{Key: "string", Value: "a\x00\u00e9"},
	{Key: "doc", Value: bson.D{{Key: "x.y", Value: bson.A{int32(1), bson.D{}}}}},
	{Key: "binary", Value: bson.Binary{Subtype: 0, Data: []byte{0, 255}}},
	{Key: "old", Value: bson.Binary{Subtype: 2, Data: []byte("old")}},
	{Key: "undefined", Value: bson.Undefined{}},
	{Key: "id", Value: bson.ObjectID{1}},
	{Key: "bool", Value: true},
	{Key: "date", Value: bson.DateTime(-62135596800001)},
	{Key: "null", Value: nil},
	{Key: "regex", Value: bson.Regex{Pattern: "a/b", Options: "im"}},
	{Key: "pointer", Value: bson.DBPointer{DB: "d.c", Pointer: bson.ObjectID{2}}},
	{Key: "code", Value: bson.JavaScript("f")},
	{Key: "symbol", Value: bson.Symbol("s")},
	{Key: "scoped", Value: bson.CodeWithScope{Code: "f", Scope: bson.D{{Key: "a", Value: bson.D{}}}}},
	{Key: "int", Value: int32(-1)},
	{Key: "timestamp", Value: bson.Timestamp{T: 1, I: 2}},
	{Key: "long", Value: int64(1)},
	{Key: "decimal", Value: bson.NewDecimal128(0x3040<<48, 5)},
	{Key: "min", Value: bson.MinKey{}},
	{Key: "max", Value: bson.MaxKey{}},
	{Key: "ref", Value: bson.D{{Key: "$ref", Value: "c"}, {Key: "$id", Value: bson.ObjectID{3}}}},
}

// agreeExtJSON writes a document as canonical Extended JSON by the driver. Both must read it back as it was.
func agreeExtJSON(t *testing.T, m *Mapper, doc []byte) {
	t.Helper()
	text, err := bson.MarshalExtJSON(bson.Raw(doc), true, false)
	if err != nil {
		t.Fatalf("%s: the driver cannot write it: %v", show(doc), err)
	}
	got, err := m.Value(nil, text)
	if err != nil || !bytes.Equal(got, doc) {
		t.Fatalf("%s: %v\ngot  %s\nwant %s", text, err, show(got), show(doc))
	}
	var back bson.D
	if err := bson.UnmarshalExtJSON(text, true, &back); err != nil {
		t.Skipf("the driver cannot read its own %s: %v", text, err)
	}
	if driver := encode(t, back); !bytes.Equal(driver, got) {
		t.Fatalf("%s:\ngot    %s\ndriver %s", text, show(got), show(driver))
	}
}

// levels counts the levels of a valid document, where code with a scope counts for one.
func levels(t *testing.T, doc []byte) int {
	t.Helper()
	elements, err := bson.Raw(doc).Elements()
	if err != nil {
		t.Fatal(err)
	}
	deepest := 0
	for _, e := range elements {
		switch v := e.Value(); v.Type {
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			deepest = max(deepest, levels(t, v.Value))
		case bson.TypeCodeWithScope:
			_, scope := v.CodeWithScope()
			deepest = max(deepest, 1+levels(t, scope))
		default:
		}
	}
	return 1 + deepest
}
