package mongosink_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// How many cases testdata/cases/write.json has: none may be passed over.
const (
	insertCases = 12
	keyedCases  = 22
)

type writeCase struct {
	ID         string            `json:"id"`
	Why        string            `json:"why"`
	Mode       string            `json:"mode"`
	Format     string            `json:"format"`
	KeyFormat  string            `json:"keyFormat"`
	Options    caseOptions       `json:"options"`
	Indexes    []json.RawMessage `json:"indexes"`
	Validator  json.RawMessage   `json:"validator"`
	Records    []caseRecord      `json:"records"`
	Collection []json.RawMessage `json:"collection"`
	Dead       []deadRecord      `json:"dead"`
}

type caseOptions struct {
	KeyField string `json:"keyField"`
}

type caseRecord struct {
	Topic       string     `json:"topic"`
	Partition   int32      `json:"partition"`
	Offset      int64      `json:"offset"`
	Timestamp   int64      `json:"timestamp"`
	Incarnation int64      `json:"incarnation"`
	Key         *string    `json:"key"`
	Value       *string    `json:"value"`
	ValueBuild  *caseBuild `json:"value_build"`
}

type caseBuild struct {
	Prefix, Repeat, Suffix string
	Count                  int
}

type deadRecord struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    string `json:"reason"`
}

func (c caseRecord) record() record.Record {
	r := record.Record{Partition: record.Partition{Topic: c.Topic, ID: c.Partition}, Offset: c.Offset, Timestamp: c.Timestamp}
	if c.Key != nil {
		r.Key = []byte(*c.Key)
	}
	switch {
	case c.ValueBuild != nil:
		b := c.ValueBuild
		r.Value = []byte(b.Prefix + strings.Repeat(b.Repeat, b.Count) + b.Suffix)
	case c.Value != nil:
		r.Value = []byte(*c.Value)
	}
	return r
}

func TestCases_InsertEndsInTheCollectionAndTheDeadLettersThatWriteJSONNames(t *testing.T) {
	t.Parallel()
	runCases(t, insertCases, func(mode string) bool { return mode == "insert" })
}

func TestCases_KeyedModesEndInTheCollectionAndTheDeadLettersThatWriteJSONNames(t *testing.T) {
	t.Parallel()
	runCases(t, keyedCases, func(mode string) bool { return mode != "insert" })
}

func runCases(t *testing.T, want int, wanted func(mode string) bool) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/cases/write.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []writeCase
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(c writeCase) bool { return !wanted(c.Mode) })
	if len(all) != want {
		t.Errorf("%d cases, expected %d", len(all), want)
	}
	for _, c := range all {
		t.Run(c.ID+" in one batch", func(t *testing.T) {
			t.Parallel()
			c.run(t, len(c.Records))
		})
		t.Run(c.ID+" one by one", func(t *testing.T) {
			t.Parallel()
			c.run(t, 1)
		})
	}
}

// modes returns what the words of a case mean: delete-on-tombstone is an upsert with deletions.
func (c writeCase) modes(t *testing.T) (mode record.Mode, deletes bool) {
	t.Helper()
	switch c.Mode {
	case "delete-on-tombstone":
		return record.Upsert, true
	case "insert", "upsert", "update":
		return record.Mode(c.Mode), false
	}
	t.Fatalf("mode %q is not known", c.Mode)
	return "", false
}

func (c writeCase) mapper(t *testing.T) *mapping.Mapper {
	t.Helper()
	mode, deletes := c.modes(t)
	o := mapping.Options{Mode: mode, Format: mapping.Format(c.Format), KeyFormat: mapping.Format(c.KeyFormat)}
	if deletes {
		o.Tombstones = mapping.Delete
	}
	if c.Options.KeyField != "" {
		o.ID = mapping.ID{From: mapping.FromKeyField, Field: c.Options.KeyField}
	}
	mapper, err := mapping.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return mapper
}

func (c writeCase) run(t *testing.T, batch int) {
	t.Helper()
	mode, deletes := c.modes(t)
	w := newWorld(t, func(o *mongosink.Options) { o.Mode, o.Deletes = mode, deletes })
	c.prepare(t, w)
	c.deliver(t, w, c.Records, batch)
	c.compare(t, w, "after the sequence")
	for from := range c.Records {
		c.deliver(t, w, c.Records[from:], len(c.Records))
		c.compare(t, w, fmt.Sprintf("after the suffix from record %d again in one batch", from))
		c.deliver(t, w, c.Records[from:], 1)
		c.compare(t, w, fmt.Sprintf("after the suffix from record %d again one by one", from))
	}
}

func (c writeCase) prepare(t *testing.T, w world) {
	t.Helper()
	create := bson.D{field("create", documents)}
	if c.Validator != nil {
		create = append(create, field("validator", extended(t, c.Validator)))
	}
	w.run(t, create)
	for i, text := range c.Indexes {
		var index struct {
			Key    bson.D `bson:"key"`
			Unique bool   `bson:"unique"`
		}
		if err := bson.UnmarshalExtJSON(text, false, &index); err != nil {
			t.Fatal(err)
		}
		w.run(t, bson.D{field("createIndexes", documents), field("indexes", bson.A{bson.D{
			field("key", index.Key), field("name", fmt.Sprintf("i%d", i)), field("unique", index.Unique),
		}})})
	}
}

func extended(t *testing.T, text []byte) bson.D {
	t.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON(text, false, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// deliver does what a run does: convert, bury what cannot be converted, write, bury what is rejected.
func (c writeCase) deliver(t *testing.T, w world, records []caseRecord, size int) {
	t.Helper()
	mapper := c.mapper(t)
	for batch := range slices.Chunk(records, size) {
		var writes []record.Write
		var dead []record.DeadLetter
		for _, r := range batch {
			rec := r.record()
			write, err := mapper.Convert(&record.Arena{}, rec, record.Topic{Incarnation: r.Incarnation})
			if err != nil {
				if fault.KindOf(err) != fault.Poison {
					t.Fatal(err)
				}
				dead = append(dead, record.DeadLetter{Record: rec, Incarnation: r.Incarnation, Class: fault.ClassOf(err), Reason: err.Error()})
				continue
			}
			writes = append(writes, write)
		}
		result, err := w.sink.Write(t.Context(), writes)
		if err != nil {
			t.Fatal(err)
		}
		if sum := result.Written + result.Duplicates + result.Ignored + int64(len(result.Rejected)); sum != int64(len(writes)) {
			t.Fatalf("%d of %d writes are accounted for", sum, len(writes))
		}
		if err := w.sink.Bury(t.Context(), "run", append(dead, result.Rejected...)); err != nil {
			t.Fatal(err)
		}
	}
}

func (c writeCase) compare(t *testing.T, w world, when string) {
	t.Helper()
	var want, got []string
	for _, text := range c.Collection {
		want = append(want, canonical(t, extended(t, text)))
	}
	for _, raw := range w.all(t, documents) {
		var d bson.D
		if err := bson.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		d = slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == mapping.DefaultGuardField })
		got = append(got, canonical(t, d))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, the collection (-want +got):\n%s", when, diff)
	}

	var dead []deadRecord
	for _, l := range w.buried(t) {
		dead = append(dead, deadRecord{l.Record.Partition.Topic, l.Record.Partition.ID, l.Record.Offset, l.Class})
		c.compareRaw(t, l)
	}
	slices.SortFunc(dead, func(a, b deadRecord) int { return int(a.Offset - b.Offset) })
	if len(dead)+len(c.Dead) > 0 && !slices.Equal(dead, c.Dead) {
		t.Errorf("%s, dead letters are %v, expected %v", when, dead, c.Dead)
	}
}

// compareRaw checks that the dead letter holds the bytes of its record.
func (c writeCase) compareRaw(t *testing.T, l pulltest.Buried) {
	t.Helper()
	for _, r := range c.Records {
		rec := r.record()
		if rec.Partition == l.Record.Partition && rec.Offset == l.Record.Offset && r.Incarnation == l.Incarnation {
			if !bytes.Equal(rec.Value, l.Record.Value) || (rec.Value == nil) != (l.Record.Value == nil) || !bytes.Equal(rec.Key, l.Record.Key) {
				t.Errorf("the letter of offset %d holds other bytes than its record", rec.Offset)
			}
			return
		}
	}
	t.Errorf("no record belongs to the letter of offset %d", l.Record.Offset)
}

func canonical(t *testing.T, d bson.D) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(d, true, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
