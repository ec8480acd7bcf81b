package firecheckpoint

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callTimeout bounds one call of the store where the caller's context allows more. A read takes some 20 ms; a
// transaction that meets another one's lock some seconds.
const callTimeout = 10 * time.Second

// lastKey is the key of the last error of an RPC in the context of a call. The client tries again until the context
// ends, and then only says that it ended.
type lastKey struct{}

func beginCall(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	return context.WithValue(ctx, lastKey{}, new(atomic.Pointer[brief])), cancel
}

func noteError(ctx context.Context, err error) {
	last, ok := ctx.Value(lastKey{}).(*atomic.Pointer[brief])
	if ok && err != nil && ctx.Err() == nil {
		last.Store(&brief{err})
	}
}

// lastError returns ": " and the last error of an RPC, or nothing where none failed.
func lastError(call context.Context) string {
	if last, ok := call.Value(lastKey{}).(*atomic.Pointer[brief]); ok && last.Load() != nil {
		return ": " + last.Load().Error()
	}
	return ""
}

// interceptUnary hides an Unavailable commit from the client, which would send it again (the generated client retries
// Commit on that code). If the first one was stored, the second fails its own precondition, and looks as if nothing had
// been stored.
func interceptUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	noteError(ctx, err)
	if status.Code(err) == codes.Unavailable && strings.HasSuffix(method, "/Commit") {
		return errors.New("the commit has no answer: " + status.Convert(err).Message())
	}
	return err
}

func interceptStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	noteError(ctx, err)
	return stream, err
}
