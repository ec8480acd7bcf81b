package mongosink_test

import (
	"bytes"
	"context"
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

func deleting(mode record.Mode) func(*mongosink.Options) {
	return func(o *mongosink.Options) { o.Mode, o.Deletes = mode, true }
}

func keyed(tb testing.TB, offset int64, fields ...bson.E) record.Write {
	tb.Helper()
	return pulltest.SinkWrite(tb, at(offset), append([]bson.E{field("_id", "k")}, fields...)...)
}

// held is a sink whose next command that holds a text waits on the way to the server until it is let go.
type held struct {
	arrived, letGo chan struct{}
	once           sync.Once
	text           []byte
	looks          atomic.Int64
	message        []byte // the one that is held
}

// secondLook is the second find in the collection of deletions.
const secondLook = "second look"

func hold(text string) *held {
	return &held{arrived: make(chan struct{}), letGo: make(chan struct{}), text: []byte(text)}
}

func (h *held) pass(message []byte) bool {
	found := bytes.Contains(message, h.text)
	if string(h.text) == secondLook && bytes.Contains(message, []byte("find\x00")) {
		found = h.looks.Add(1) == 2
	}
	if found {
		h.once.Do(func() {
			h.message = bytes.Clone(message)
			close(h.arrived)
			<-h.letGo
		})
	}
	return true
}

// A run that lost its lease had looked for deletions and sent a put, which reaches the server late, and nobody is left
// to look again.
func TestZombie_APutThatArrivesAfterTheLease_DoesNotBringADeletedDocumentBack(t *testing.T) {
	t.Parallel()
	for _, mode := range []record.Mode{record.Upsert, record.Update} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deleting(mode))
			h := hold("updates")
			zombie := through(t, w, h.pass, deleting(mode))
			lease, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := zombie.Write(lease, []record.Write{keyed(t, 1, field("v", "late"))})
				ended <- err
			}()
			<-h.arrived
			if !bytes.Contains(h.message, []byte("maxTimeMS")) {
				t.Error("the command has no maxTimeMS: one that begins before the fence may end after the lease")
			}
			if err := <-ended; fault.KindOf(err) != fault.Transient {
				t.Errorf("error = %v, expected a transient one", err)
			}
			<-lease.Done()
			w.run(t, bson.D{field("profile", 2)})
			expect(t, 1, 0, "")(write(t, w.sink, keyed(t, 1)))
			expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkDelete(t, at(2), "k")))
			before := w.updates(t)
			close(h.letGo)
			for w.updates(t) == before && !t.Failed() {
				select {
				case <-t.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
			if docs := w.all(t, documents); len(docs) != 0 {
				t.Errorf("the document is back: %v", docs)
			}
		})
	}
}

// updates counts the statements that the server carried out or refused since it began to keep a profile.
func (w world) updates(t *testing.T) int64 {
	t.Helper()
	n, err := w.db.Collection("system.profile").CountDocuments(t.Context(), bson.D{
		field("op", "update"), field("ns", w.db.Name()+"."+documents),
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Two lanes write one key: a put that has looked for deletions meets a deletion of another partition, in each way that
// their steps can mix.
func TestDelete_AcrossLanes_TheNewerOneDecides(t *testing.T) {
	t.Parallel()
	other := func(seconds int64) record.Guard {
		return record.Guard{Topic: "orders", Partition: 1, Timestamp: at(0).Timestamp + seconds}
	}
	for name, c := range map[string]struct {
		holdPut, holdDelete string
		deletion            record.Guard
		stays               bool
	}{
		"a newer deletion between the look and the put":          {holdPut: "updates", deletion: other(9)},
		"an older deletion between the look and the put":         {holdPut: "updates", deletion: other(1), stays: true},
		"a newer deletion before the second look":                {holdPut: secondLook, deletion: other(9)},
		"a put between a newer deletion's guard and its delete":  {holdDelete: "deletes", deletion: other(9)},
		"a put between an older deletion's guard and its delete": {holdDelete: "deletes", deletion: other(1), stays: true},
		"a put before a newer deletion's guard":                  {holdDelete: "updates", deletion: other(9)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deleting(record.Upsert))
			put, deletion := keyed(t, 5), pulltest.SinkDelete(t, c.deletion, "k")
			first, second, text := put, deletion, c.holdPut
			if text == "" {
				first, second, text = deletion, put, c.holdDelete
			}
			h := hold(text)
			slow := through(t, w, h.pass, deleting(record.Upsert))
			ended := make(chan error, 1)
			go func() {
				_, err := slow.Write(t.Context(), []record.Write{first})
				ended <- err
			}()
			<-h.arrived
			if _, err := w.sink.Write(t.Context(), []record.Write{second}); err != nil {
				t.Fatal(err)
			}
			close(h.letGo)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if n := len(w.all(t, documents)); (n == 1) != c.stays {
				t.Errorf("%d documents, expected that it stays: %t", n, c.stays)
			}
		})
	}
}
