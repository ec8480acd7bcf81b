package mongosink_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func TestSink_ACollectionThatCannotKeepThePromise_IsFatalBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options bson.D
		says    string
	}{
		"time series": {bson.D{field("timeseries", bson.D{field("timeField", "createdAt")})}, "is a time-series collection"},
		"capped":      {bson.D{field("capped", true), field("size", 4096)}, "is a capped collection"},
		"view":        {bson.D{field("viewOn", "other"), field("pipeline", bson.A{})}, "is a view"},
		"collation":   {bson.D{field("collation", bson.D{field("locale", "en"), field("strength", 2)})}, "the default collation en,"},
	} {
		for collection, setting := range map[string]string{documents: "sink.collection", letters: "deadLetters.collection"} {
			t.Run(name+" for "+collection, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				w.run(t, append(bson.D{field("create", collection)}, c.options...))
				_, writing := w.sink.Write(t.Context(), []record.Write{pulltest.SinkWrite(t, at(1))})
				burying := w.sink.Bury(t.Context(), "run", []record.DeadLetter{letter(0, 1)})
				for _, err := range []error{writing, burying} {
					expectFault(t, err, fault.Fatal, "bad-namespace")
					if text := err.Error(); !strings.Contains(text, collection+" is ") || !strings.Contains(text, c.says) ||
						!strings.Contains(text, setting) || strings.Contains(text, "\n") {
						t.Errorf("%q is no single line with %q, %q and %q", text, collection, c.says, setting)
					}
				}
				if n := len(w.all(t, documents)) + len(w.all(t, letters)); n != 0 {
					t.Errorf("%d documents were stored, expected none", n)
				}
				// The refusal is not kept: the same sink goes on once the collection was replaced.
				w.run(t, bson.D{field("drop", collection)})
				expect(t, 1, 0, "")(write(t, w.sink, pulltest.SinkWrite(t, at(1))))
			})
		}
	}
}

func TestSink_CollectionsThatKeepThePromise_AreTaken(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]bson.D{
		"validator":        {field("validator", bson.D{field("_id", bson.D{field("$exists", true)})})},
		"simple collation": {field("collation", bson.D{field("locale", "simple")})},
		"clustered by _id": {field("clusteredIndex", bson.D{field("key", bson.D{field("_id", 1)}), field("unique", true)})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			for _, collection := range []string{documents, letters} {
				w.run(t, append(bson.D{field("create", collection)}, options...))
			}
			for _, counts := range [][2]int64{{1, 0}, {0, 1}} {
				expect(t, counts[0], counts[1], "")(write(t, w.sink, pulltest.SinkWrite(t, at(1))))
				if err := w.sink.Bury(t.Context(), "run", []record.DeadLetter{letter(0, 1)}); err != nil {
					t.Error(err)
				}
			}
			if d, l := len(w.all(t, documents)), len(w.all(t, letters)); d != 1 || l != 1 {
				t.Errorf("%d documents and %d letters, expected one of each", d, l)
			}
		})
	}
}

func TestSink_ManyWritersAtOnce_InspectTheCollectionsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var inspections atomic.Int64
	sink := through(t, w, func(message []byte) bool {
		if bytes.Contains(message, []byte("listCollections")) {
			inspections.Add(1)
		}
		return true
	})
	var writers sync.WaitGroup
	for i := range 8 {
		doc := pulltest.SinkWrite(t, at(int64(i)))
		writers.Go(func() {
			for range 2 {
				if _, err := sink.Write(t.Context(), []record.Write{doc}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if n := inspections.Load(); n != 1 {
		t.Errorf("%d listCollections, expected 1", n)
	}
}

func TestWrite_AServerThatFallsSilentInALookUp_HoldsNobodyBeyondTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	writes := make([]record.Write, 500) // more than the first batch of a find
	for i := range writes {
		writes[i] = pulltest.SinkWrite(t, at(int64(i)))
	}
	expect(t, int64(len(writes)), 0, "")(write(t, w.sink, writes...))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	silent := make(chan time.Time, 1)
	var once sync.Once
	var frozen atomic.Bool
	sink := through(t, w, func(message []byte) bool {
		if bytes.Contains(message, []byte("getMore")) {
			frozen.Store(true)
			once.Do(func() {
				silent <- time.Now()
				cancel()
			})
		}
		return !frozen.Load()
	})
	_, err := sink.Write(ctx, writes)
	ended := time.Now()
	expectFault(t, err, fault.Transient, "")
	select {
	case began := <-silent:
		if took := ended.Sub(began); took > 5*time.Second {
			t.Errorf("Write returned %v after its context ended, expected about 1s", took)
		}
	default:
		t.Fatal("the look-up needed no second batch: nothing was checked")
	}
}

// through returns a sink that reaches the world's server by way of a proxy. Each message of the sink is shown to pass;
// where it says no, neither that message nor any answer goes through.
func through(t *testing.T, w world, pass func([]byte) bool, change ...func(*mongosink.Options)) pull.Sink {
	t.Helper()
	server, _, _ := strings.Cut(strings.TrimPrefix(realtest.Mongo(t), "mongodb://"), "/")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	open.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { forward(ctx, in, server, pass) })
		}
	})
	o := mongosink.Options{
		URI: "mongodb://" + listener.Addr().String() + "/?directConnection=true", Database: w.db.Name(), Collection: documents,
		DeadLetters: letters, GuardField: pulltest.SinkGuardField, Pipeline: "shop",
	}
	for _, c := range change {
		c(&o)
	}
	sink, err := mongosink.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		cancel()
		open.Wait()
		_ = sink.Close(context.WithoutCancel(t.Context()))
	})
	return sink
}

// forward connects two ends until one of them or ctx ends.
func forward(ctx context.Context, in net.Conn, server string, pass func([]byte) bool) {
	defer func() { _ = in.Close() }()
	out, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })()
	var silent atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() { relay(in, out, func([]byte) bool { return !silent.Load() }) })
	relay(out, in, func(message []byte) bool {
		if !pass(message) {
			silent.Store(true)
		}
		return !silent.Load()
	})
	_ = out.Close()
	answers.Wait()
}

func relay(to, from net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && pass(buf[:n]) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// The resolver belongs to the process, so this test is not parallel: it ends before those that are go on.
func TestWrite_ANameServerThatDoesNotAnswer_HoldsEachWriterForItsOwnTimeOnly(t *testing.T) { //nolint:paralleltest // see above
	asked, release := make(chan struct{}, 1), make(chan struct{})
	system := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-release
		return nil, errors.New("no name server")
	}}
	sink, err := mongosink.New(good("mongodb+srv://user:s3cretPass@cluster0.example.mongodb.net/"))
	if err != nil {
		t.Fatal(err)
	}
	patient, leave := context.WithCancel(t.Context())
	patientErr := make(chan error, 1)
	doc := pulltest.SinkWrite(t, at(1))
	go func() {
		_, err := sink.Write(patient, []record.Write{doc})
		patientErr <- err
	}()
	<-asked
	hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, hastyErr := sink.Write(hasty, []record.Write{doc})
	leave()
	for _, err := range []error{hastyErr, <-patientErr} {
		expectFault(t, err, fault.Transient, "")
		if text := err.Error(); !strings.Contains(text, "cluster0.example.mongodb.net") || strings.Contains(text, "s3cret") || strings.Contains(text, "user") {
			t.Errorf("%q does not name the host, or holds a credential", text)
		}
	}
	if !errors.Is(hastyErr, context.DeadlineExceeded) {
		t.Errorf("error = %v, expected the passed deadline", hastyErr)
	}

	// This write waits for the look-up that is still under way, so nothing uses the resolver afterwards.
	close(release)
	_, err = sink.Write(t.Context(), []record.Write{doc})
	net.DefaultResolver = system
	expectFault(t, err, fault.Transient, "")
	if !strings.Contains(err.Error(), "DNS") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%q does not speak of DNS, or holds a credential", err)
	}
}

func TestClose_GivesUpAConnectionOnItsWay(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	sink, err := mongosink.New(good("mongodb://" + silent.Addr().String() + "/"))
	if err != nil {
		t.Fatal(err)
	}
	writing := make(chan error, 1)
	doc := pulltest.SinkWrite(t, at(1))
	go func() {
		_, err := sink.Write(t.Context(), []record.Write{doc})
		writing <- err
	}()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	began := time.Now()
	if err := sink.Close(t.Context()); err != nil {
		t.Error(err)
	}
	err = <-writing
	expectFault(t, err, fault.Transient, "")
	if took := time.Since(began); took > 5*time.Second || !strings.Contains(err.Error(), "closed meanwhile") {
		t.Errorf("error %v after %v, expected that it was closed, at once", err, took)
	}
}
