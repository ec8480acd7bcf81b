package mapping

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// build is how the case files write long inputs.
type build struct {
	Prefix, Repeat  string
	Count           int
	Middle, Repeat2 string
	Suffix          string
}

func (b *build) text() []byte {
	return []byte(b.Prefix + strings.Repeat(b.Repeat, b.Count) + b.Middle + strings.Repeat(b.Repeat2, b.Count) + b.Suffix)
}

type convertCase struct {
	ID         string
	Format     Format
	Value      []byte `json:"value_b64"`
	ValueBuild *build `json:"value_build"`
	Options    struct {
		Dates, EpochSeconds, ObjectIDs, Decimals []string
		DuplicateKeys, Wrap                      string
	}
	Error    string
	BSON     []byte `json:"bson_b64"`
	DocBuild *struct {
		Field, Repeat     string
		Count, BSONLength int
	} `json:"doc_build"`
}

func (c *convertCase) mapper(t *testing.T) *Mapper {
	t.Helper()
	o := c.Options
	return mustNew(t, Options{
		Dates: o.Dates, EpochSeconds: o.EpochSeconds, ObjectIDs: o.ObjectIDs, Decimals: o.Decimals,
		RejectDuplicateKeys: o.DuplicateKeys == "error", Wrap: o.Wrap, Format: c.Format,
	})
}

func (c *convertCase) value() []byte {
	if c.ValueBuild != nil {
		return c.ValueBuild.text()
	}
	return c.Value
}

func (c *convertCase) want(t *testing.T) []byte {
	t.Helper()
	if b := c.DocBuild; b != nil {
		doc := bson.D{{Key: "_id", Value: int32(1)}, {Key: b.Field, Value: strings.Repeat(b.Repeat, b.Count)}}
		want := encode(t, doc)
		if len(want) != b.BSONLength {
			t.Fatalf("the case says %d bytes, its document has %d", b.BSONLength, len(want))
		}
		return want
	}
	return c.BSON
}

func mustNew(tb testing.TB, o Options) *Mapper {
	tb.Helper()
	m, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func encode(tb testing.TB, doc any) []byte {
	tb.Helper()
	b, err := bson.Marshal(doc)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func readCases(tb testing.TB, name string, into any) {
	tb.Helper()
	content, err := os.ReadFile("../../testdata/cases/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		tb.Fatal(err)
	}
}

func TestValue_EveryCase_GivesTheExactBytes(t *testing.T) {
	t.Parallel()
	var cases []convertCase
	readCases(t, "convert.json", &cases)
	run := map[Format]int{}
	for _, c := range cases {
		run[c.Format]++
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			checkValue(t, c.mapper(t), c.value(), c.want(t), c.Error)
		})
	}
	// A test that counts cannot pass by running none.
	if diff := cmp.Diff(map[Format]int{JSON: 53, BSON: 4, ExtJSON: 3, String: 2, Bytes: 1}, run); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

// checkValue converts behind bytes that are there already, which must stay.
func checkValue(t *testing.T, m *Mapper, value, want []byte, class string) {
	t.Helper()
	got, err := m.Value([]byte("head"), value)
	if !bytes.HasPrefix(got, []byte("head")) {
		t.Fatal("the bytes before the document changed")
	}
	got = got[len("head"):]
	if class != "" {
		checkPoison(t, err, class)
		if len(got) != 0 {
			t.Errorf("%d bytes were appended beside the error", len(got))
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", show(got), show(want))
	}
}

func show(doc []byte) string {
	if len(doc) > 2000 {
		return fmt.Sprintf("%d bytes", len(doc))
	}
	return fmt.Sprintf("%v %s", bson.Raw(doc), base64.StdEncoding.EncodeToString(doc))
}

func checkPoison(t *testing.T, err error, class string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want class %s", class)
	}
	if fault.KindOf(err) != fault.Poison || fault.ClassOf(err) != class {
		t.Errorf("%v %q: %v, want poison %q", fault.KindOf(err), fault.ClassOf(err), err, class)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("the error is not one line: %q", err)
	}
}

type writeCase struct {
	ID        string
	Mode      string
	Format    Format
	KeyFormat Format
	Options   struct{ KeyField string }
	Records   []struct {
		Topic       string
		Partition   int32
		Offset      int64
		Timestamp   int64
		Key, Value  *string
		ValueBuild  *build `json:"value_build"`
		Incarnation int64
	}
	Collection []json.RawMessage
	Dead       []struct {
		Topic     string
		Partition int32
		Offset    int64
		Reason    string
	}
}

// TestConvert_EveryInsertCase_GivesTheStoredDocuments plays the case with a map for a collection. What only a server
// can refuse is left to package mongosink.
func TestConvert_EveryInsertCase_GivesTheStoredDocuments(t *testing.T) {
	t.Parallel()
	var cases []writeCase
	readCases(t, "write.json", &cases)
	run := 0
	for _, c := range cases {
		if c.Mode != "insert" {
			continue
		}
		run++
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			playInsert(t, c)
		})
	}
	if run != 12 {
		t.Errorf("%d insert cases, want 12", run)
	}
}

// TestConvert_EveryKeyedCase_GivesTheWritesOfItsRecords leaves to package mongosink which of the writes of a key wins, and
// what only a server can refuse.
func TestConvert_EveryKeyedCase_GivesTheWritesOfItsRecords(t *testing.T) {
	t.Parallel()
	var cases []writeCase
	readCases(t, "write.json", &cases)
	run := map[string]int{}
	for _, c := range cases {
		if c.Mode == "insert" {
			continue
		}
		run[c.Mode]++
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			playKeyed(t, c)
		})
	}
	if diff := cmp.Diff(map[string]int{"upsert": 16, "update": 2, "delete-on-tombstone": 4}, run); diff != "" {
		t.Errorf("keyed cases (-want +got):\n%s", diff)
	}
}

func playKeyed(t *testing.T, c writeCase) {
	t.Helper()
	o := Options{Mode: record.Mode(c.Mode), Format: c.Format, KeyFormat: c.KeyFormat}
	if c.Mode == "delete-on-tombstone" {
		o.Mode, o.Tombstones = record.Upsert, Delete
	}
	if c.Options.KeyField != "" {
		o.ID = ID{From: FromKeyField, Field: c.Options.KeyField}
	}
	m := mustNew(t, o)
	reasons := map[string]string{}
	for _, d := range c.Dead {
		reasons[fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset)] = d.Reason
	}
	written := map[string]bool{}
	for _, r := range c.Records {
		rec := record.Record{Partition: record.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset, Timestamp: r.Timestamp}
		if r.Key != nil {
			rec.Key = []byte(*r.Key)
		}
		if r.Value != nil {
			rec.Value = []byte(*r.Value)
		}
		w, err := m.Convert(&record.Arena{}, rec, record.Topic{Incarnation: r.Incarnation})
		reason := reasons[fmt.Sprintf("%s@%d", rec.Partition, rec.Offset)]
		if reason != "" && reason != "validation" {
			checkPoison(t, err, reason)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if deletes := w.Op == record.Delete; deletes != (r.Value == nil) || !w.OwnID {
			t.Errorf("offset %d: op %v, own id %v", r.Offset, w.Op, w.OwnID)
		}
		doc := without(t, w.Document, DefaultGuardField)
		written[extended(t, doc)] = true
		if w.Op == record.Delete && len(doc) != 1 {
			t.Errorf("offset %d: a delete holds %v", r.Offset, doc)
		}
	}
	for _, raw := range c.Collection {
		var doc bson.D
		if err := bson.UnmarshalExtJSON(raw, false, &doc); err != nil {
			t.Fatal(err)
		}
		if o.Mode == record.Upsert && !written[extended(t, doc)] {
			t.Errorf("no write is %s", raw)
		}
	}
}

func playInsert(t *testing.T, c writeCase) {
	t.Helper()
	m := mustNew(t, Options{})
	var got, dead []string
	taken := map[string]record.Guard{}
	for _, r := range c.Records {
		rec := record.Record{Partition: record.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset, Timestamp: r.Timestamp}
		if r.Value != nil {
			rec.Value = []byte(*r.Value)
		} else if r.ValueBuild != nil {
			rec.Value = r.ValueBuild.text()
		}
		refuse := func(class string) { dead = append(dead, fmt.Sprintf("%s@%d %s", rec.Partition, rec.Offset, class)) }
		w, err := m.Convert(&record.Arena{}, rec, record.Topic{Incarnation: r.Incarnation})
		if err != nil {
			refuse(fault.ClassOf(err))
			continue
		}
		doc := without(t, w.Document, DefaultGuardField)
		id := fmt.Sprint(doc[0])
		if first, ok := taken[id]; ok {
			if first != w.Guard {
				refuse("duplicate-key")
			}
			continue
		}
		taken[id] = w.Guard
		got = append(got, extended(t, doc))
	}
	want, wantDead := []string{}, []string{}
	for _, raw := range c.Collection {
		var doc bson.D
		if err := bson.UnmarshalExtJSON(raw, false, &doc); err != nil {
			t.Fatal(err)
		}
		want = append(want, extended(t, doc))
	}
	for _, d := range c.Dead {
		wantDead = append(wantDead, fmt.Sprintf("%s/%d@%d %s", d.Topic, d.Partition, d.Offset, d.Reason))
	}
	if slices.Contains([]string{"insert-other-unique-index", "insert-validator-refuses"}, c.ID) {
		if len(dead) != 0 || len(got) != len(want)+len(wantDead) {
			t.Errorf("the server refuses, not the conversion: %v dead, %d documents", dead, len(got))
		}
		return
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("documents:\n%s", cmp.Diff(want, got))
	}
	if !slices.Equal(dead, wantDead) {
		t.Errorf("dead letters: %v, want %v", dead, wantDead)
	}
}

func extended(t *testing.T, doc bson.D) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(doc, true, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// without decodes a document and leaves a field out.
func without(t *testing.T, raw []byte, name string) bson.D {
	t.Helper()
	if err := bson.Raw(raw).Validate(); err != nil {
		t.Fatal(err)
	}
	var doc bson.D
	if err := bson.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(doc, func(e bson.E) bool { return e.Key == name })
}
