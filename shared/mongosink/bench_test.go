package mongosink_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	benchBatch   = 2000
	benchBytes   = 380
	benchWriters = 4
)

// benchWrite returns a write of benchBytes under coordinates that no other has.
func benchWrite(b *testing.B, offset int64) record.Write {
	b.Helper()
	with := func(rest int) record.Write {
		return pulltest.SinkWrite(b, at(offset), field("customer", "c-000042"), field("total", 12.5), field("rest", strings.Repeat("x", rest)))
	}
	return with(benchBytes - len(with(0).Document))
}

// cpu is the processor time that this process has used; mongod's is its own.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure calls send for b.N batches from several writers. An operation is one batch.
func measure(b *testing.B, batches [][]record.Write, send func(context.Context, int, []record.Write) error) {
	b.Helper()
	work := make(chan int)
	errs := make(chan error, benchWriters)
	before := cpu(b)
	b.ResetTimer()
	var group sync.WaitGroup
	for range benchWriters {
		group.Go(func() {
			for i := range work {
				if err := send(b.Context(), i, batches[i%len(batches)]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range b.N {
		select {
		case work <- i:
		case err := <-errs:
			b.Fatal(err)
		}
	}
	close(work)
	group.Wait()
	b.StopTimer()
	select {
	case err := <-errs:
		b.Fatal(err)
	default:
	}
	docs := float64(b.N) * benchBatch
	b.ReportMetric(docs/b.Elapsed().Seconds(), "docs/s")
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/docs, "cpu-us/doc")
	b.ReportMetric(0, "ns/op")
}

func benchBatches(b *testing.B, n int) [][]record.Write {
	b.Helper()
	batches := make([][]record.Write, n)
	for i := range batches {
		batches[i] = make([]record.Write, benchBatch)
		for j := range batches[i] {
			batches[i][j] = benchWrite(b, int64(i*benchBatch+j))
		}
	}
	return batches
}

// BenchmarkWrite compares the sink with the ceiling: commands that were encoded beforehand, whose answers are not
// looked at. "replay" writes what is there already.
func BenchmarkWrite(b *testing.B) {
	b.Run("sink", func(b *testing.B) {
		w := newWorld(b, nil)
		measure(b, benchBatches(b, b.N), func(ctx context.Context, _ int, batch []record.Write) error {
			r, err := w.sink.Write(ctx, batch)
			if err == nil && r.Written != benchBatch {
				return fmt.Errorf("written %d", r.Written)
			}
			return err
		})
	})
	b.Run("ceiling", func(b *testing.B) {
		w := newWorld(b, nil)
		client, err := mongo.Connect(options.Client().ApplyURI(realtest.Mongo(b)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(b.Context())) })
		batches := benchBatches(b, b.N)
		commands := make([]bson.Raw, b.N)
		for i, batch := range batches {
			docs := make(bson.A, len(batch))
			for j := range batch {
				docs[j] = bson.Raw(batch[j].Document)
			}
			commands[i], err = bson.Marshal(bson.D{
				field("insert", documents), field("documents", docs), field("ordered", false), field("writeConcern", bson.D{field("w", "majority")}),
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		db := client.Database(w.db.Name())
		measure(b, batches, func(ctx context.Context, i int, _ []record.Write) error {
			return db.RunCommand(ctx, commands[i]).Err()
		})
	})
	b.Run("replay", func(b *testing.B) {
		w := newWorld(b, nil)
		batches := benchBatches(b, benchWriters)
		for _, batch := range batches {
			if _, err := w.sink.Write(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		measure(b, batches, func(ctx context.Context, _ int, batch []record.Write) error {
			r, err := w.sink.Write(ctx, batch)
			if err == nil && r.Duplicates != benchBatch {
				return fmt.Errorf("duplicates %d", r.Duplicates)
			}
			return err
		})
	})
}

// BenchmarkKeyed writes keys that are new, the same records again, and newer records of the same keys.
func BenchmarkKeyed(b *testing.B) {
	for _, setup := range []struct {
		mode    record.Mode
		deletes bool
	}{{record.Upsert, false}, {record.Update, false}, {record.Upsert, true}} {
		open := func(b *testing.B) world {
			b.Helper()
			return newWorld(b, func(o *mongosink.Options) { o.Mode, o.Deletes = setup.mode, setup.deletes })
		}
		name := fmt.Sprintf("%s, deletions %t/", setup.mode, setup.deletes)
		b.Run(name+"new", func(b *testing.B) {
			measure(b, keyedBatches(b, b.N, 0), writing(open(b).sink))
		})
		for _, again := range []struct {
			name  string
			later int64
		}{{"again", 0}, {"newer", 1_000_000}} {
			b.Run(name+again.name, func(b *testing.B) {
				w := open(b)
				for _, batch := range keyedBatches(b, b.N, 0) {
					if err := writing(w.sink)(b.Context(), 0, batch); err != nil {
						b.Fatal(err)
					}
				}
				measure(b, keyedBatches(b, b.N, again.later), writing(w.sink))
			})
		}
	}
}

func writing(s *mongosink.Sink) func(context.Context, int, []record.Write) error {
	return func(ctx context.Context, _ int, batch []record.Write) error {
		r, err := s.Write(ctx, batch)
		if err == nil && r.Written+r.Duplicates != benchBatch {
			return fmt.Errorf("written %d, duplicates %d", r.Written, r.Duplicates)
		}
		return err
	}
}

// keyedBatches are batches of keys that no two writes share, their records at offsets that are later by so much.
func keyedBatches(b *testing.B, n int, later int64) [][]record.Write {
	b.Helper()
	batches := make([][]record.Write, n)
	for i := range batches {
		batches[i] = make([]record.Write, benchBatch)
		for j := range batches[i] {
			offset := int64(i*benchBatch + j)
			w := pulltest.SinkWrite(b, at(offset+later), field("_id", fmt.Sprintf("c-%09d", offset)), field("total", 12.5),
				field("rest", strings.Repeat("x", 200)))
			batches[i][j] = w
		}
	}
	return batches
}
