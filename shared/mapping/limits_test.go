package mapping

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// TestValue_HostileShapes_StayQuick has shapes that take minutes where an algorithm is quadratic, or end the process
// where it calls itself without a bound. The time is a hundred times what is needed, for machines that do other things
// too.
func TestValue_HostileShapes_StayQuick(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("one goroutine, and the race detector alone can take the time")
	}
	fields := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	nested := func(level string) string { return strings.Repeat(level, 170) }
	const long = "a name of which only the beginning is unlike the others: "
	for _, c := range []struct {
		name, value, class string
		fields             int
	}{
		{"3,000 levels", strings.Repeat(`{"a":`, 3000), "too-deep", 0},
		{"1,000,000 levels of arrays", `{"a":` + strings.Repeat(`[`, 1_000_000), "too-deep", 0},
		{"1,000,000 levels without a document", strings.Repeat(`[`, 1_000_000), "too-deep", 0},
		{"200,000 names", `{` + fields(200_000, `"%d":1,`) + `"x":1}`, "", 200_001},
		{"20,000 long names with one end", `{` + fields(20_000, `"%d`+long+`":1,`) + `"x":1}`, "", 20_001},
		{"150,000 times one name", `{` + strings.Repeat(`"a":1,`, 150_000) + `"x":1}`, "", 2},
		{"100,000 names, each twice", `{` + fields(50_000, `"%d":1,`) + fields(50_000, `"%d":2,`) + `"x":1}`, "", 50_001},
		{"repeated at every level", nested(`{"b":1,"b":2,"a":`) + `"` + strings.Repeat("x", 1<<20) + `"` + nested(`}`), "", 2},
		{"many fields at every level", nested(`{`+fields(20, `"k%d":0,`)+`"a":`) + `1` + nested(`}`), "", 21},
		{"only escapes", `{"s":"` + strings.Repeat(`\u00e9`, 200_000) + `"}`, "", 1},
		{"1 MB of digits", `{"n":` + strings.Repeat("7", 1<<20) + `}`, "number-out-of-range", 0},
		{"1 MB of fraction", `{"n":0.` + strings.Repeat("7", 1<<20) + `}`, "", 1},
		{"small elements above the limit", `{"a":[` + strings.Repeat("0,", 3<<20) + `0]}`, "too-large", 0},
		{"parts above the limit that are replaced", `{"a":"` + strings.Repeat("x", 15<<20) + `","a":"` + strings.Repeat("y", 15<<20) + `"}`, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := mustNew(t, Options{})
			start := time.Now()
			doc, err := m.Value(nil, []byte(c.value))
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if c.class != "" {
				checkPoison(t, err, c.class)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			elements, err := bson.Raw(doc).Elements()
			if err != nil || len(elements) != c.fields {
				t.Errorf("%d fields, %v, want %d", len(elements), err, c.fields)
			}
		})
	}
}

func TestValue_Levels_CountFromTheDocument(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Wrap: "v"})
	for _, c := range []struct {
		value string
		ok    bool
	}{
		{strings.Repeat(`{"a":`, 179) + `{}` + strings.Repeat(`}`, 179), true},
		{strings.Repeat(`{"a":`, 180) + `{}` + strings.Repeat(`}`, 180), false},
		{`{"a":` + strings.Repeat(`[`, 179) + strings.Repeat(`]`, 179) + `}`, true},
		{`{"a":` + strings.Repeat(`[`, 180) + strings.Repeat(`]`, 180) + `}`, false},
		{strings.Repeat(`[`, 179) + strings.Repeat(`]`, 179), true},
		{strings.Repeat(`[`, 180) + strings.Repeat(`]`, 180), false},
	} {
		if _, err := m.Value(nil, []byte(c.value)); c.ok && err != nil || !c.ok && fault.ClassOf(err) != "too-deep" {
			t.Errorf("%d bytes: %v", len(c.value), err)
		}
	}
}

// TestValue_RepeatedNames_InAnyNumber crosses the border between looking through the names and the table, and the
// growth of the table.
func TestValue_RepeatedNames_InAnyNumber(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{})
	for n := 1; n < 150; n++ {
		var text strings.Builder
		want := bson.D{}
		for i := range n {
			fmt.Fprintf(&text, `"name-%d":%d,`, i, i)
			want = append(want, bson.E{Key: fmt.Sprintf("name-%d", i), Value: int32(i)})
		}
		for i := 0; i < n; i += 3 {
			fmt.Fprintf(&text, `"nam\u0065-%d":"again",`, i)
			want[i].Value = "again"
		}
		got, err := m.Value(nil, []byte(`{`+strings.TrimSuffix(text.String(), ",")+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(encode(t, want)) {
			t.Fatalf("%d names: got %s", n, show(got))
		}
	}
}

// TestErrors_HoldNothingOfTheValue refuses values in every class, each with marked names and texts.
func TestErrors_HoldNothingOfTheValue(t *testing.T) {
	t.Parallel()
	options := Options{Dates: []string{"d"}, EpochSeconds: []string{"t"}, ObjectIDs: []string{"o"}, Decimals: []string{"p"}, RejectDuplicateKeys: true}
	m := mustNew(t, options)
	seen := map[string]bool{}
	for _, value := range []string{
		`{"SECRET":"SECRET" SECRET}`, `{"SECRET":SECRET}`, `{"SECRET":"SECRET`, `{SECRET:1}`, `{"a":"\SECRET"}`, `{"a":04242}`,
		`{"SECRET":1}SECRET`, `["SECRET"]`, `4242`, "{\"SECRET\":\"SECRET\xff\"}", "{\"SECRET\xff\":1}", `{"SECRET":"\ud800SECRET"}`,
		`{"SECRET\u0000":1}`, `{"SECRET":4242e4242}`, `{"SECRET":` + strings.Repeat("4242", 20) + `}`, `{"SECRET":1,"SECRET":2}`,
		strings.Repeat(`{"SECRET":`, 200), `{"SECRET":"` + strings.Repeat("SECRET", 3<<20) + `"}`,
		`{"d":"SECRET"}`, `{"d":4242.5}`, `{"d":{"SECRET":1}}`, `{"t":"SECRET"}`, `{"o":"SECRET"}`, `{"o":4242}`,
		`{"p":"SECRET"}`, `{"p":"` + strings.Repeat("4242", 20) + `"}`, `{"_id":["SECRET"]}`, `{"_id":{"$SECRET":1}}`,
	} {
		_, err := m.Convert(&record.Arena{}, recordOf(value), origin)
		if err == nil {
			t.Fatalf("%.80q was accepted", value)
		}
		checkPoison(t, err, fault.ClassOf(err))
		seen[fault.ClassOf(err)] = true
		if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "4242") {
			t.Errorf("%.80q: the error tells of it: %v", value, err)
		}
	}
	for _, class := range []string{
		"malformed-json", "trailing-data", "not-a-document", "bad-utf8", "bad-field-name", "number-out-of-range",
		"duplicate-key", "too-deep", "too-large", "bad-date", "bad-object-id", "bad-decimal", "bad-id",
	} {
		if !seen[class] {
			t.Errorf("no value of class %s", class)
		}
	}
}

func TestErrors_NameTheByte(t *testing.T) {
	t.Parallel()
	m := mustNew(t, Options{Dates: []string{"a.d"}})
	for value, want := range map[string]string{
		`{"a":1,}`:             `byte 7: not JSON: a field name in quotes must stand here`,
		`{"a":`:                `byte 5: the JSON text ends where a JSON value must stand`,
		"\ufeff{\"a\":tru}":    `byte 8: not JSON: a JSON value must stand here`,
		`{"a":{"d": "today"}}`: `byte 11: a.d is no date: RFC 3339 text or whole milliseconds since 1970`,
		`{} x`:                 `byte 3: something follows the JSON value`,
		"{\"abc\":\"x\xff\"}":  `byte 9: not UTF-8`,
	} {
		if _, err := m.Value(nil, []byte(value)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
	}
}

func TestNew_RefusesOptionsThatContradict(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Dates: []string{"a"}, Decimals: []string{"a"}},
		{Dates: []string{"a"}, EpochSeconds: []string{"a"}},
		{Dates: []string{"a"}, ObjectIDs: []string{"a.b"}},
		{Dates: []string{"a.b"}, ObjectIDs: []string{"a"}},
		{Dates: []string{""}},
		{Dates: []string{"a..b"}},
		{Dates: []string{".a"}},
		{Decimals: []string{"a\x00b"}},
		{Decimals: []string{"\xff"}},
		{Dates: []string{"_tidemark.at"}},
		{GuardField: "_id"},
		{GuardField: "a.b"},
		{GuardField: "$a"},
		{GuardField: "a\x00"},
		{Wrap: "_tidemark"},
		{Wrap: "a\x00"},
		{Wrap: "\xff"},
	} {
		if _, err := New(o); fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != "bad-mapping" {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []Options{
		{},
		{Dates: []string{"a", "a", "b.c"}, Decimals: []string{"b.d", "_id.x"}, Wrap: "a.b", GuardField: "g"},
	} {
		if _, err := New(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestConvert_SteadyState_HardlyAllocates allows for a new chunk now and then, and for a garbage collection that
// empties the pool.
//
//nolint:paralleltest // allocations of other tests would be counted
func TestConvert_SteadyState_HardlyAllocates(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool drops what it is given at random")
	}
	m := mustNew(t, Options{Dates: []string{"createdAt"}, Decimals: []string{"lines.price"}})
	rec := recordOf(order)
	var arena record.Arena
	convert := func() {
		if arena.Full() {
			arena.Reset()
		}
		_, _ = m.Convert(&arena, rec, origin)
	}
	if n := testing.AllocsPerRun(2000, convert); n > 0.5 {
		t.Errorf("%v allocations for one record", n)
	}
	dst := make([]byte, 0, 4<<10)
	if n := testing.AllocsPerRun(2000, func() { _, _ = m.Value(dst, rec.Value) }); n > 0.5 {
		t.Errorf("%v allocations for one value", n)
	}
}
