package firecheckpoint_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/record"
)

// counter counts the RPCs of a connection by the last part of their method.
type counter struct {
	mu    sync.Mutex
	calls []string
}

func (c *counter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, info.FullMethodName[strings.LastIndex(info.FullMethodName, "/")+1:])
	return ctx
}
func (*counter) HandleRPC(context.Context, stats.RPCStats) {}
func (*counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}
func (*counter) HandleConn(context.Context, stats.ConnStats) {}

// take returns the calls since the last take.
func (c *counter) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.calls = nil }()
	return strings.Join(c.calls, " ")
}

func TestStore_CostsOneReadAndOneCommit(t *testing.T) {
	t.Parallel()
	calls := &counter{}
	store := newStore(t, grpc.WithStatsHandler(calls))
	want := func(doing, rpcs string) {
		t.Helper()
		if got := calls.take(); got != rpcs {
			t.Errorf("%s: RPCs %q, want %q", doing, got, rpcs)
		}
	}
	_, err := store.Load(t.Context(), 0)
	must(t, err)
	want("reading an absent document", "BatchGetDocuments")
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 3, Seq: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	calls.take() // a transaction, which Firestore may want again
	_, err = store.Load(t.Context(), 0)
	must(t, err)
	want("reading a document", "BatchGetDocuments")
	doc.Seq++
	rev, err = store.Update(t.Context(), doc, rev, nil)
	must(t, err)
	want("updating", "Commit")
	doc.Seq++
	_, err = store.Update(t.Context(), doc, rev, &record.Report{Run: "run-1"})
	must(t, err)
	want("updating with a run", "Commit")
	_, err = store.Update(t.Context(), doc, rev, nil)
	wantFault(t, err, fault.Conflict, "")
	want("a conflict, and who won", "Commit BatchGetDocuments")
}

func TestStore_CommitWhoseAnswerIsLost_IsTransientAndSentOnce(t *testing.T) {
	t.Parallel()
	calls, lose := &counter{}, false
	store := newStore(t, grpc.WithStatsHandler(calls), grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil && lose && strings.HasSuffix(method, "/Commit") {
				return status.Error(codes.Unavailable, "connection reset by peer")
			}
			return err
		}))
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1, Seq: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	calls.take()
	lose = true
	doc.Seq++
	_, err = store.Update(t.Context(), doc, rev, nil)
	wantFault(t, err, fault.Transient, "")
	if got := calls.take(); got != "Commit" {
		t.Errorf("RPCs %q, want one Commit", got)
	}
	snapshot, err := store.Load(t.Context(), 0)
	must(t, err)
	if snapshot.Doc.Seq != 2 {
		t.Errorf("seq = %d, want the 2 that was stored", snapshot.Doc.Seq)
	}
}

// answer makes every RPC end with an error, as a server would.
func answer(err error) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return err
		}),
		grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, err
		}),
	}
}

func TestStore_GivesEveryErrorItsKind(t *testing.T) {
	t.Parallel()
	const database = "The database (default) does not exist for project shop."
	const document = "No document to update: projects/shop/databases/(default)/documents/tidemark/orders/lanes/0"
	cases := []struct {
		name                 string
		err                  error
		load, create, update fault.Kind
		classes              [3]string
		says                 string
	}{
		{
			name: "permission denied", err: status.Error(codes.PermissionDenied, "Missing or insufficient\npermissions."),
			load: fault.Fatal, create: fault.Fatal, update: fault.Fatal,
			classes: [3]string{"firestore-auth", "firestore-auth", "firestore-auth"}, says: "roles/datastore.user",
		},
		{
			name: "unauthenticated", err: status.Error(codes.Unauthenticated, "token expired"),
			load: fault.Fatal, create: fault.Fatal, update: fault.Fatal,
			classes: [3]string{"firestore-auth", "firestore-auth", "firestore-auth"}, says: "project shop, database (default)",
		},
		{
			name: "no database", err: status.Error(codes.NotFound, database),
			load: fault.Fatal, create: fault.Fatal, update: fault.Fatal,
			classes: [3]string{"firestore-database", "firestore-database", "firestore-database"}, says: "project shop, database (default)",
		},
		{
			name: "no document", err: status.Error(codes.NotFound, document),
			load: fault.Fatal, create: fault.Fatal, update: fault.Fatal,
			classes: [3]string{"firestore-database", "firestore-database", "checkpoint-missing"},
		},
		{
			name: "precondition", err: status.Error(codes.FailedPrecondition, "the stored version does not match"),
			load: fault.Fatal, create: fault.Conflict, update: fault.Conflict, classes: [3]string{"firestore-database"},
		},
		{name: "exists", err: status.Error(codes.AlreadyExists, "entity already exists"), create: fault.Conflict},
		{
			name: "invalid", err: status.Error(codes.InvalidArgument, "the document is too large"),
			load: fault.Fatal, create: fault.Fatal, update: fault.Fatal,
			classes: [3]string{"firestore-refused", "firestore-refused", "firestore-refused"}, says: "1 MiB",
		},
		{name: "aborted", err: status.Error(codes.Aborted, "Transaction lock timeout")},
		{name: "unavailable", err: status.Error(codes.Unavailable, "connection refused"), says: "connection refused"},
		{name: "late", err: status.Error(codes.DeadlineExceeded, "deadline exceeded")},
		{name: "throttled", err: status.Error(codes.ResourceExhausted, "quota exceeded"), says: "quota exceeded"},
		{name: "unknown", err: io.ErrUnexpectedEOF},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// In a bubble the client's ten seconds of trying again cost no time.
			synctest.Test(t, func(t *testing.T) {
				store := unreachable(t, answer(c.err)...)
				defer func() { must(t, store.Close()) }()
				began := time.Now()
				_, load := store.Load(t.Context(), 0)
				_, create := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
				_, update := store.Update(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1}, "2026-01-01T00:00:00Z", nil)
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("three calls took %s, want at most 10 s each", took)
				}
				for i, got := range []error{load, create, update} {
					wantFault(t, got, []fault.Kind{c.load, c.create, c.update}[i], c.classes[i])
					if got != nil && !strings.Contains(got.Error(), c.says) {
						t.Errorf("%q does not say %q", got, c.says)
					}
				}
			})
		})
	}
}

func TestStore_Unreachable_SaysSoInOneLine(t *testing.T) {
	t.Parallel()
	store := unreachable(t)
	t.Cleanup(func() { must(t, store.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := store.Load(ctx, 0)
	wantFault(t, err, fault.Transient, "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no %v", err, context.DeadlineExceeded)
	}
	for _, part := range []string{"tidemark/orders/lanes/0", "project shop, database (default), emulator 127.0.0.1:1", "connection refused"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestStore_NamesThatFirestoreRefuses_AreFatalBeforeTheCall(t *testing.T) {
	t.Parallel()
	_, err := firecheckpoint.New(firecheckpoint.Options{Pipeline: "orders"})
	wantFault(t, err, fault.Fatal, "bad-name")
	store := unreachable(t)
	t.Cleanup(func() { must(t, store.Close()) })
	for _, name := range []string{"", ".", "..", "a/b", "__a__", strings.Repeat("x", 1501)} {
		_, err := firecheckpoint.New(firecheckpoint.Options{Project: "shop", Pipeline: name})
		wantFault(t, err, fault.Fatal, "bad-name")
		_, err = store.Update(t.Context(), record.Checkpoint{}, "2026-01-01T00:00:00Z", &record.Report{Run: name})
		wantFault(t, err, fault.Fatal, "bad-name")
	}
}

// unreachable is a store of an address where nothing listens.
func unreachable(t *testing.T, options ...grpc.DialOption) *firecheckpoint.Store {
	t.Helper()
	store, err := firecheckpoint.New(firecheckpoint.Options{Project: "shop", Pipeline: "orders", Emulator: "127.0.0.1:1", DialOptions: options})
	must(t, err)
	return store
}

func wantFault(t *testing.T, err error, kind fault.Kind, class string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || fault.ClassOf(err) != class {
		t.Errorf("error %v is %s %q, want %s %q", err, fault.KindOf(err), fault.ClassOf(err), kind, class)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
}
