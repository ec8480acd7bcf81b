package mongosink_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func upserting(o *mongosink.Options) { o.Mode = record.Upsert }

func updating(o *mongosink.Options) { o.Mode = record.Update }

// Several processes may write one new key at once, from several lanes: all but one find their _id taken by a document
// that was not there when the server looked.
func TestUpsert_NewKeysFromManyWritersAtOnce_EndInTheNewest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upserting)
	const keys, writers = 200, 6
	var group sync.WaitGroup
	for writer := range int32(writers) {
		var writes []record.Write
		for i := range keys {
			g := record.Guard{Topic: "orders", Partition: writer, Offset: int64(i), Timestamp: int64(writer)}
			writes = append(writes, pulltest.SinkWrite(t, g, field("_id", int32(i)), field("v", writer)))
		}
		group.Go(func() {
			r, err := w.sink.Write(t.Context(), writes)
			if err != nil || r.Written+r.Duplicates != keys {
				t.Errorf("written %d, duplicates %d, error %v", r.Written, r.Duplicates, err)
			}
		})
	}
	group.Wait()
	for _, d := range w.all(t, documents) {
		if v := d.Lookup("v").Int32(); v != writers-1 {
			t.Errorf("%v, expected that of writer %d", d, writers-1)
		}
	}
}

func TestUpdate_AHotKey_CostsTwoRoundTripsAndOneForEachRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, updating)
	w.run(t, bson.D{field("create", documents), field("validator", bson.D{field("bad", bson.D{field("$exists", false)})})})
	var commands atomic.Int64
	sink := through(t, w, func(message []byte) bool {
		commands.Add(int64(bytes.Count(message, []byte("updates\x00"))))
		return true
	}, updating)
	var writes []record.Write
	for i := range int64(300) {
		name := fmt.Sprintf("f%d", i)
		if i == 100 || i == 200 {
			name = "bad"
		}
		writes = append(writes, keyed(t, i, field(name, i)))
	}
	expect(t, 298, 0, "100 validation, 200 validation")(write(t, sink, writes...))
	if n := commands.Load(); n != 4 {
		t.Errorf("%d update commands, expected 4", n)
	}
	docs := w.all(t, documents)
	if len(docs) != 1 {
		t.Fatalf("%d documents, expected 1", len(docs))
	}
	elements, err := docs[0].Elements()
	if err != nil || len(elements) != 300 { // 298 fields, _id and guard
		t.Errorf("%d fields, error %v, expected 300", len(elements), err)
	}
}

func TestUpsert_AHotKey_SendsItsLastRecordOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upserting)
	var size atomic.Int64
	sink := through(t, w, func(message []byte) bool {
		size.Add(int64(len(message)))
		return true
	}, upserting)
	var writes []record.Write
	for i := range int64(300) {
		writes = append(writes, keyed(t, i, field("s", strings.Repeat("x", 1000))))
	}
	expect(t, 300, 0, "")(write(t, sink, writes...))
	if n := size.Load(); n > 50_000 {
		t.Errorf("%d bytes were sent, expected one document of 1000", n)
	}
}

func TestKeyed_TheLargestDocumentGoesThrough_AndTheNextByteIsOneReject(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*mongosink.Options){upserting, updating, deleting(record.Upsert)} {
		w := newWorld(t, change)
		const limit = 16 << 20
		writes := []record.Write{sized(t, 0, 200), sized(t, 1, limit), sized(t, 2, limit+1), sized(t, 3, 9<<20), sized(t, 4, 9<<20)}
		for _, counts := range [][2]int64{{4, 0}, {0, 4}} {
			expect(t, counts[0], counts[1], "2 too-large")(write(t, w.sink, writes...))
		}
	}
}

// sized returns a write of a key of its own whose document has so many bytes.
func sized(t *testing.T, offset int64, size int) record.Write {
	t.Helper()
	with := func(n int) record.Write {
		return pulltest.SinkWrite(t, at(offset), field("_id", offset), field("s", strings.Repeat("x", n)))
	}
	return with(size - len(with(0).Document))
}

func TestKeyed_ADocumentThatGrowsTooLargeOrTooDeep_IsOneReject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, updating)
	half := strings.Repeat("x", 9<<20)
	deep := func(levels int) bson.D {
		d := bson.D{field("x", int32(1))}
		for range levels - 2 {
			d = bson.D{field("d", d)}
		}
		return d
	}
	expect(t, 3, 0, "2 too-large, 5 too-deep")(write(t, w.sink,
		keyed(t, 1, field("a", half)), keyed(t, 2, field("b", half)), keyed(t, 3, field("c", "small")),
		pulltest.SinkWrite(t, at(4), field("_id", "deep"), field("d", deep(180))),
		pulltest.SinkWrite(t, at(5), field("_id", "deeper"), field("d", deep(260)))))
}

func TestUpsert_IgnoringDuplicates_DropsWhatAnotherUniqueIndexRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *mongosink.Options) { o.Mode, o.IgnoreDuplicates = record.Upsert, true })
	w.unique(t, bson.D{field("mail", 1)}, true)
	r, err := w.sink.Write(t.Context(), []record.Write{
		pulltest.SinkWrite(t, at(1), field("_id", "a"), field("mail", "m")), pulltest.SinkWrite(t, at(2), field("_id", "b"), field("mail", "m")),
	})
	if err != nil || r.Written != 1 || r.Ignored != 1 || len(r.Rejected) != 0 {
		t.Errorf("%+v, error %v, expected one written and one ignored", r, err)
	}
}

func TestWrite_AnOperationThatTheModeDoesNotHave_IsFatal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upserting)
	_, err := w.sink.Write(t.Context(), []record.Write{pulltest.SinkDelete(t, at(1), "k")})
	expectFault(t, err, fault.Fatal, "bad-sink")
}

func TestDelete_KeepsTheGuardForTheRetention_ByTheServersClock(t *testing.T) {
	t.Parallel()
	const retention = 48 * time.Hour
	w := newWorld(t, func(o *mongosink.Options) { o.Mode, o.Deletes, o.TombstoneRetention = record.Upsert, true, retention })
	began := time.Now()
	expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkDelete(t, at(1), "k")))
	kept := w.all(t, documents+"_deleted")
	if len(kept) != 1 {
		t.Fatalf("%d guards, expected 1", len(kept))
	}
	if left := kept[0].Lookup("expireAt").Time().Sub(began); left < retention-time.Minute || left > retention+time.Minute {
		t.Errorf("the guard expires in %v, expected %v", left, retention)
	}
	expect(t, 0, 1, "")(write(t, w.sink, pulltest.SinkDelete(t, at(1), "k")))
	if again := w.all(t, documents+"_deleted"); !bytes.Equal(again[0], kept[0]) {
		t.Errorf("the same deletion again changed %v to %v", kept[0], again[0])
	}
	specs, err := w.db.Collection(documents + "_deleted").Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if s.Name == "expireAt_1" && s.ExpireAfterSeconds != nil && *s.ExpireAfterSeconds == 0 {
			return
		}
	}
	t.Errorf("no index lets guards go: %v", specs)
}

// A run died after it had stored the guard of a deletion: the document is deleted by the run that does the same again.
func TestDelete_ThatDiedBetweenItsSteps_IsFinishedByTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deleting(record.Upsert))
	put, deletion := keyed(t, 1), pulltest.SinkDelete(t, at(2), "k")
	expect(t, 1, 0, "")(write(t, w.sink, deletion))
	if _, err := w.db.Collection(documents).InsertOne(t.Context(), bson.Raw(put.Document)); err != nil {
		t.Fatal(err)
	}
	expect(t, 0, 1, "")(write(t, w.sink, deletion))
	if docs := w.all(t, documents); len(docs) != 0 {
		t.Errorf("the document is still there: %v", docs)
	}
}

// A run died after its put was stored and before it looked for deletions again: the run that makes the same put finds a
// newer deletion, and takes away what it had brought back.
func TestDelete_APutThatDiedBeforeItsSecondLook_IsTakenBackByTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deleting(record.Upsert))
	put, deletion := keyed(t, 1), pulltest.SinkDelete(t, at(2), "k")
	expect(t, 1, 0, "")(write(t, w.sink, deletion))
	if _, err := w.db.Collection(documents).InsertOne(t.Context(), bson.Raw(put.Document)); err != nil {
		t.Fatal(err)
	}
	expect(t, 0, 1, "")(write(t, w.sink, put))
	if docs := w.all(t, documents); len(docs) != 0 {
		t.Errorf("a deleted document is back: %v", docs)
	}
}

// A refused put has no timestamp to hand on, whether the batch is one or not.
func TestDelete_ARefusedPutInTheBatch_LiftsNothing(t *testing.T) {
	t.Parallel()
	guard := func(partition int32, offset, timestamp int64) record.Guard {
		return record.Guard{Topic: "orders", Partition: partition, Offset: offset, Timestamp: timestamp}
	}
	writes := []record.Write{
		pulltest.SinkDelete(t, guard(1, 0, 3), "k"),
		pulltest.SinkWrite(t, guard(0, 0, 4), field("_id", "k"), field("bad", true)),
		pulltest.SinkWrite(t, guard(0, 1, 3), field("_id", "k")),
	}
	for _, size := range []int{3, 1} {
		w := newWorld(t, deleting(record.Upsert))
		w.run(t, bson.D{field("create", documents), field("validator", bson.D{field("bad", bson.D{field("$exists", false)})})})
		expect(t, 1, 0, "")(write(t, w.sink, writes[0]))
		for from := 1; from < 3; from += size {
			write(t, w.sink, writes[from:min(from+size, 3)]...)
		}
		if docs := w.all(t, documents); len(docs) != 0 {
			t.Errorf("in batches of %d: %v is there, expected nothing", size, docs)
		}
	}
}
