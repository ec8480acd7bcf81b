package mongosink_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

var _ pull.Sink = (*mongosink.Sink)(nil)

func TestMain(m *testing.M) { realtest.Main(m) }

// databases gives each test a database of its own name; the server may outlive the test process.
var databases atomic.Int64

// world is a database of the real mongod, and a sink that writes to it.
type world struct {
	sink *mongosink.Sink
	db   *mongo.Database
}

const (
	documents = "documents"
	letters   = "letters"
)

func newWorld(tb testing.TB, change func(*mongosink.Options)) world {
	tb.Helper()
	uri := realtest.Mongo(tb)
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		tb.Fatal(err)
	}
	db := client.Database(fmt.Sprintf("mongosink_%d_%d", databases.Add(1), testID(tb)))
	o := mongosink.Options{
		URI: uri, Database: db.Name(), Collection: documents, DeadLetters: letters,
		GuardField: pulltest.SinkGuardField, Pipeline: "shop",
	}
	if change != nil {
		change(&o)
	}
	sink, err := mongosink.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx := context.WithoutCancel(tb.Context())
		if err := sink.Close(ctx); err != nil {
			tb.Error(err)
		}
		if err := db.Drop(ctx); err != nil {
			tb.Error(err)
		}
		if err := client.Disconnect(ctx); err != nil {
			tb.Error(err)
		}
	})
	return world{sink: sink, db: db}
}

// testID keeps the names of two test processes apart that share a server.
func testID(tb testing.TB) uint32 {
	tb.Helper()
	sum := sha256.Sum256([]byte(tb.TempDir()))
	return uint32(sum[0])<<16 | uint32(sum[1])<<8 | uint32(sum[2])
}

func (w world) run(tb testing.TB, command bson.D) {
	tb.Helper()
	if err := w.db.RunCommand(tb.Context(), command).Err(); err != nil {
		tb.Fatal(err)
	}
}

func (w world) all(tb testing.TB, collection string) []bson.Raw {
	tb.Helper()
	cursor, err := w.db.Collection(collection).Find(tb.Context(), bson.D{})
	if err != nil {
		tb.Fatal(err)
	}
	var docs []bson.Raw
	if err := cursor.All(tb.Context(), &docs); err != nil {
		tb.Fatal(err)
	}
	return docs
}

// buried reads the letters as they were buried, and puts parts together.
func (w world) buried(tb testing.TB) []pulltest.Buried {
	tb.Helper()
	var whole []pulltest.Buried
	parts := map[string][]byte{}
	docs := w.all(tb, letters)
	for _, d := range docs {
		if _, err := d.LookupErr("partOf"); err == nil {
			_, data := d.Lookup("data").Binary()
			parts[d.Lookup("_id").StringValue()] = data
		}
	}
	for _, d := range docs {
		if _, err := d.LookupErr("partOf"); err == nil {
			continue
		}
		raw := d
		if n, ok := d.Lookup("parts").Int32OK(); ok {
			raw = joined(tb, d, n, parts)
		}
		whole = append(whole, pulltest.Buried{Run: d.Lookup("run").StringValue(), DeadLetter: record.DeadLetter{
			Record: record.Record{
				Partition: record.Partition{Topic: d.Lookup("topic").StringValue(), ID: d.Lookup("partition").Int32()},
				Offset:    d.Lookup("offset").Int64(), Timestamp: d.Lookup("timestamp").Time().UnixMilli(),
				Key: binary(raw.Lookup("key")), Value: binary(raw.Lookup("value")), Headers: headers(tb, raw),
			},
			Incarnation: d.Lookup("incarnation").Int64(), Class: d.Lookup("class").StringValue(), Reason: d.Lookup("reason").StringValue(),
		}})
	}
	return whole
}

func joined(tb testing.TB, letter bson.Raw, n int32, parts map[string][]byte) bson.Raw {
	tb.Helper()
	var data []byte
	for i := range n {
		data = append(data, parts[fmt.Sprintf("%s#%d", letter.Lookup("_id").StringValue(), i+1)]...)
	}
	sum := sha256.Sum256(data)
	_, want := letter.Lookup("sha256").Binary()
	if int64(len(data)) != letter.Lookup("size").Int64() || !bytes.Equal(sum[:], want) {
		tb.Fatalf("%d parts hold %d bytes, expected %d with the same sha256", n, len(data), letter.Lookup("size").Int64())
	}
	size := len(data) + 5
	return append(append([]byte{byte(size), byte(size >> 8), byte(size >> 16), byte(size >> 24)}, data...), 0)
}

func binary(v bson.RawValue) []byte {
	if v.Type == bson.TypeNull {
		return nil
	}
	_, b := v.Binary()
	return append([]byte{}, b...)
}

func headers(tb testing.TB, raw bson.Raw) []record.Header {
	tb.Helper()
	values, err := raw.Lookup("headers").Array().Values()
	if err != nil {
		tb.Fatal(err)
	}
	var all []record.Header
	for _, v := range values {
		all = append(all, record.Header{Key: v.Document().Lookup("key").StringValue(), Value: binary(v.Document().Lookup("value"))})
	}
	return all
}

func TestConformance_SinkOnMongoDB(t *testing.T) {
	t.Parallel()
	realtest.Mongo(t)
	pulltest.TestSink(t, openWorld)
}

func TestConformance_SinkOnMongoDB_EndsEveryHistoryAsTheFoldDoes(t *testing.T) {
	t.Parallel()
	realtest.Mongo(t)
	pulltest.TestSinkHistories(t, openWorld, 2, false)
}

func openWorld(t *testing.T, setup pulltest.SinkSetup) pulltest.SinkHarness {
	t.Helper()
	w := newWorld(t, func(o *mongosink.Options) { o.Mode, o.Deletes = setup.Mode, setup.Deletes })
	integer := bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: pulltest.SinkIntField, Value: bson.D{{Key: "$type", Value: bson.A{"int", "long"}}}}},
		bson.D{{Key: pulltest.SinkIntField, Value: bson.D{{Key: "$exists", Value: false}}}},
	}}}
	w.run(t, bson.D{{Key: "create", Value: documents}, {Key: "validator", Value: integer}})
	w.unique(t, bson.D{{Key: pulltest.SinkUniqueField, Value: 1}}, true)
	return pulltest.SinkHarness{
		Sink: w.sink,
		Documents: func(t *testing.T) []bson.Raw {
			t.Helper()
			return w.all(t, documents)
		},
		Letters: func(t *testing.T) []pulltest.Buried {
			t.Helper()
			return w.buried(t)
		},
		Store: func(t *testing.T, doc bson.Raw) {
			t.Helper()
			if _, err := w.db.Collection(documents).InsertOne(t.Context(), doc); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func (w world) unique(tb testing.TB, keys any, sparse bool) {
	tb.Helper()
	w.run(tb, bson.D{{Key: "createIndexes", Value: documents}, {Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: keys}, {Key: "name", Value: "unique"}, {Key: "unique", Value: true}, {Key: "sparse", Value: sparse}},
	}}})
}

func at(offset int64) record.Guard {
	return record.Guard{Topic: "orders", Offset: offset, Timestamp: 1_700_000_000_000 + offset}
}

func field(key string, value any) bson.E { return bson.E{Key: key, Value: value} }

func write(tb testing.TB, s pull.Sink, writes ...record.Write) (written, duplicates int64, rejected string) {
	tb.Helper()
	r, err := s.Write(tb.Context(), writes)
	if err != nil {
		tb.Fatal(err)
	}
	var list []string
	for _, l := range r.Rejected {
		list = append(list, fmt.Sprintf("%d %s", l.Record.Offset, l.Class))
	}
	return r.Written, r.Duplicates, strings.Join(list, ", ")
}

func expect(tb testing.TB, written, duplicates int64, rejected string) func(int64, int64, string) {
	tb.Helper()
	return func(w, d int64, r string) {
		tb.Helper()
		if w != written || d != duplicates || r != rejected {
			tb.Errorf("written %d, duplicates %d, rejected %q, expected %d, %d, %q", w, d, r, written, duplicates, rejected)
		}
	}
}
