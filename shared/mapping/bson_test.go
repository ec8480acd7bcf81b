package mapping

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/record"
)

// rawDoc makes a document of elements that are given as bytes.
func rawDoc(elements ...string) string {
	body := strings.Join(elements, "")
	n := len(body) + 5
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) + body + "\x00"
}

func TestValue_BSON_RefusesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Format: BSON})
	deep := rawDoc()
	for range maxLevels {
		deep = rawDoc("\x03a\x00" + deep)
	}
	deepArray := rawDoc()
	for range maxLevels {
		deepArray = rawDoc("\x040\x00" + deepArray)
	}
	for _, c := range []struct{ name, value, class string }{
		{"empty", "", "malformed-bson"},
		{"short", "\x05\x00\x00\x00", "malformed-bson"},
		{"length 4", "\x04\x00\x00\x00\x00", "malformed-bson"},
		{"negative length", "\xff\xff\xff\xff\x00", "malformed-bson"},
		{"no end", "\x05\x00\x00\x00\x01", "malformed-bson"},
		{"trailing", rawDoc() + "\x00", "trailing-data"},
		{"unknown type", rawDoc("\x14a\x00"), "malformed-bson"},
		{"type 0", rawDoc("\x00a\x00"), "malformed-bson"},
		{"endless name", rawDoc("\x0aaaa"), "malformed-bson"},
		{"name", rawDoc("\x0a\xff\x00"), "bad-utf8"},
		{"cut int32", rawDoc("\x10a\x00\x01\x00\x00"), "malformed-bson"},
		{"cut double", rawDoc("\x01a\x00\x01\x00\x00"), "malformed-bson"},
		{"cut decimal", rawDoc("\x13a\x00" + strings.Repeat("x", 15)), "malformed-bson"},
		{"cut id", rawDoc("\x07a\x00" + strings.Repeat("x", 11)), "malformed-bson"},
		{"no boolean", rawDoc("\x08a\x00"), "malformed-bson"},
		{"boolean 2", rawDoc("\x08a\x00\x02"), "malformed-bson"},
		{"string of length 0", rawDoc("\x02a\x00\x00\x00\x00\x00\x00"), "malformed-bson"},
		{"string without end", rawDoc("\x02a\x00\x02\x00\x00\x00xx"), "malformed-bson"},
		{"string too long", rawDoc("\x02a\x00\x03\x00\x00\x00x\x00"), "malformed-bson"},
		{"string of length -1", rawDoc("\x02a\x00\xff\xff\xff\xffx\x00"), "malformed-bson"},
		{"string", rawDoc("\x02a\x00\x02\x00\x00\x00\xff\x00"), "bad-utf8"},
		{"symbol", rawDoc("\x0ea\x00\x02\x00\x00\x00\xff\x00"), "bad-utf8"},
		{"regex", rawDoc("\x0ba\x00\xff\x00\x00"), "bad-utf8"},
		{"regex without options", rawDoc("\x0ba\x00a\x00"), "malformed-bson"},
		{"binary too long", rawDoc("\x05a\x00\x03\x00\x00\x00\x00xx"), "malformed-bson"},
		{"binary of length -1", rawDoc("\x05a\x00\xff\xff\xff\xff\x00xx"), "malformed-bson"},
		{"old binary", rawDoc("\x05a\x00\x06\x00\x00\x00\x02\x03\x00\x00\x00xx"), "malformed-bson"},
		{"old binary with too little", rawDoc("\x05a\x00\x06\x00\x00\x00\x02\x01\x00\x00\x00xx"), "malformed-bson"},
		{"old binary without length", rawDoc("\x05a\x00\x02\x00\x00\x00\x02xx"), "malformed-bson"},
		{"pointer", rawDoc("\x0ca\x00\x02\x00\x00\x00x\x00" + strings.Repeat("x", 11)), "malformed-bson"},
		{"document too long", rawDoc("\x03a\x00\x07\x00\x00\x00\x00"), "malformed-bson"},
		{"document ends early", rawDoc("\x03a\x00" + rawDoc() + "\x00\x00"), "malformed-bson"},
		{"scope too short", rawDoc("\x0fa\x00\x0e\x00\x00\x00\x01\x00\x00\x00\x00" + rawDoc() + "\x00"), "malformed-bson"},
		{"scope", rawDoc("\x0fa\x00\x0e\x00\x00\x00\x01\x00\x00\x00\x00\x05\x00\x00\x00\x01"), "malformed-bson"},
		{"scope length", rawDoc("\x0fa\x00\x0f\x00\x00\x00\x01\x00\x00\x00\x00" + rawDoc()), "malformed-bson"},
		{"181 levels", deep, "too-deep"},
		{"181 levels of arrays", deepArray, "too-deep"},
		{"large", rawDoc("\x05a\x00\x00\x00\x00\x01\x00" + strings.Repeat("x", maxDocument)), "too-large"},
		{"huge", strings.Repeat("x", maxParts+1), "too-large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkValue(t, m, []byte(c.value), nil, c.class)
		})
	}
}

// TestValue_BSON_CodeWithScope_CountsAsLevel holds the promise for a type that nests in two steps.
func TestValue_BSON_CodeWithScope_CountsAsLevel(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Format: BSON})
	nest := func(n int) []byte {
		doc := rawDoc("\x0fc\x00\x0e\x00\x00\x00\x01\x00\x00\x00\x00" + rawDoc())
		for range n {
			doc = rawDoc("\x03a\x00" + doc)
		}
		return []byte(doc)
	}
	checkValue(t, m, nest(maxLevels-3), nest(maxLevels-3), "")
	checkValue(t, m, nest(maxLevels-2), nil, "too-deep")
}

func TestValue_BSON_KeepsWhatIsValid(t *testing.T) {
	t.Parallel()
	deep := rawDoc()
	for range maxLevels - 1 {
		deep = rawDoc("\x03a\x00" + deep)
	}
	for _, m := range []*Mapper{mustNew(t, Options{Format: BSON}), mustNew(t, Options{Format: BSON, Dates: []string{"none.such"}, RejectDuplicateKeys: true})} {
		for _, value := range []string{
			rawDoc(), string(encode(t, everyType)), deep,
			rawDoc("\x04a\x00" + rawDoc("\x0a5\x00", "\x0a5\x00", "\x0a\x00")), // names in an array are none
			rawDoc("\x0ba\x00x\x00mi\x00"), rawDoc("\x0a\x00", "\x0a$a\x00", "\x0aa.b\x00"),
		} {
			checkValue(t, m, []byte(value), []byte(value), "")
		}
	}
}

func TestValue_BSON_RepeatedNames_KeepTheLastAtThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	one, two, three := "\x10a\x00\x01\x00\x00\x00", "\x10b\x00\x02\x00\x00\x00", "\x02a\x00\x02\x00\x00\x00x\x00"
	repeated, single := rawDoc(one, two, three), rawDoc(three, two)
	code := func(scope string) string {
		return "\x0fc\x00" + string([]byte{byte(9 + len(scope)), 0, 0, 0}) + "\x01\x00\x00\x00\x00" + scope
	}
	keep, refuse := mustNew(t, Options{Format: BSON}), mustNew(t, Options{Format: BSON, RejectDuplicateKeys: true})
	for value, want := range map[string]string{
		repeated:                          single,
		rawDoc("\x03d\x00"+repeated, two): rawDoc("\x03d\x00"+single, two),
		rawDoc("\x04d\x00"+rawDoc("\x030\x00"+repeated), two):   rawDoc("\x04d\x00"+rawDoc("\x030\x00"+single), two),
		rawDoc("\x03d\x00"+rawDoc(code(repeated), one), two):    rawDoc("\x03d\x00"+rawDoc(code(single), one), two),
		rawDoc(one, "\x03a\x00"+repeated, "\x03b\x00"+rawDoc()): rawDoc("\x03a\x00"+single, "\x03b\x00"+rawDoc()),
		rawDoc("\x03d\x00"+repeated, "\x03d\x00"+rawDoc(), one): rawDoc("\x03d\x00"+rawDoc(), one),
	} {
		checkValue(t, keep, []byte(value), []byte(want), "")
		checkValue(t, refuse, []byte(value), nil, "duplicate-key")
	}
}

func TestValue_BSON_DeclaredFieldsTakeWhatFits(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{
		Format: BSON, Dates: []string{"d", "in.d"}, EpochSeconds: []string{"s"}, ObjectIDs: []string{"o"}, Decimals: []string{"p"},
	})
	id := bson.ObjectID{0x64, 0xf0, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x01, 0x23, 0x45, 0x67}
	value := bson.D{
		{Key: "x", Value: everyType},
		{Key: "d", Value: bson.A{bson.DateTime(1), int32(2), int64(3), "1970-01-01T00:00:00.004Z", nil, bson.A{int32(5)}}},
		{Key: "in", Value: bson.A{bson.D{{Key: "d", Value: int32(6)}, {Key: "e", Value: int32(6)}}, "x"}},
		{Key: "s", Value: int32(7)},
		{Key: "o", Value: "64f0a1b2c3d4e5f601234567"},
		{Key: "p", Value: bson.A{int32(-8), "8.0", dec(t, "800", -2)}},
	}
	want := bson.D{
		value[0],
		{Key: "d", Value: bson.A{bson.DateTime(1), bson.DateTime(2), bson.DateTime(3), bson.DateTime(4), nil, bson.A{bson.DateTime(5)}}},
		{Key: "in", Value: bson.A{bson.D{{Key: "d", Value: bson.DateTime(6)}, {Key: "e", Value: int32(6)}}, "x"}},
		{Key: "s", Value: bson.DateTime(7000)},
		{Key: "o", Value: id},
		{Key: "p", Value: bson.A{dec(t, "-8", 0), dec(t, "80", -1), dec(t, "800", -2)}},
	}
	checkValue(t, m, encode(t, value), encode(t, want), "")
	for class, bad := range map[string]bson.D{
		"bad-date":      {{Key: "d", Value: 1.0}},
		"bad-object-id": {{Key: "o", Value: int32(1)}},
		"bad-decimal":   {{Key: "p", Value: 8.0}},
	} {
		checkValue(t, m, encode(t, bad), nil, class)
	}
	checkValue(t, m, encode(t, bson.D{{Key: "s", Value: bson.D{}}}), nil, "bad-date")
	checkValue(t, m, encode(t, bson.D{{Key: "d", Value: bson.CodeWithScope{Scope: bson.D{}}}}), nil, "bad-date")
}

func TestValue_BSON_ResultIsACopy(t *testing.T) {
	t.Parallel()
	value := encode(t, everyType)
	rec := recordOf("")
	rec.Value = value
	w, err := mustNew(t, Options{Format: BSON}).Convert(&record.Arena{}, rec, origin)
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(w.Document)
	clear(value)
	if !bytes.Equal(before, w.Document) {
		t.Error("the document changes with the value")
	}
}
