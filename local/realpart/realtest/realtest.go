package realtest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/local/realpart"
)

// part is one real part of this test process.
type part struct {
	mu      sync.Mutex
	start   func(context.Context, realpart.Options) (*realpart.Process, error)
	process *realpart.Process
	err     error
}

// parts are shared by all tests of the process, which is the purpose of the package; they only grow under their lock.
var (
	mongod    = part{start: realpart.Mongod}
	firestore = part{start: realpart.FirestoreEmulator}
	kafka     = part{start: func(ctx context.Context, opts realpart.Options) (*realpart.Process, error) {
		broker, err := realpart.Kafka(ctx, realpart.KafkaOptions{Options: opts, Properties: map[string]string{"log.cleaner.backoff.ms": "200"}})
		if err != nil {
			return nil, err
		}
		return broker.Process, nil
	}}
)

// Main runs the tests and ends the parts. Use it as: func TestMain(m *testing.M) { realtest.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	mongod.stop()
	firestore.stop()
	kafka.stop()
	os.Exit(code)
}

// Mongo returns the URI of a MongoDB that is a replica set.
func Mongo(tb testing.TB) string {
	tb.Helper()
	return mongod.get(tb).URI
}

// Firestore returns the host:port of a Firestore emulator.
func Firestore(tb testing.TB) string {
	tb.Helper()
	return firestore.get(tb).Host
}

// Kafka returns the host:port of an Apache Kafka that asks for no sign-in.
func Kafka(tb testing.TB) string {
	tb.Helper()
	return kafka.get(tb).Host
}

func (p *part) get(tb testing.TB) *realpart.Process {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil && p.err == nil {
		// The part outlives the test that asks first, so it is not tied to that test's context; realpart bounds the time.
		p.process, p.err = p.start(context.Background(), realpart.Options{})
	}
	switch {
	case p.err == nil:
	case errors.Is(p.err, realpart.ErrNotFound) && os.Getenv("REQUIRE_REAL") != "1":
		tb.Skip(p.err)
	default:
		tb.Fatal(p.err)
	}
	return p.process
}

func (p *part) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.process.Stop()
	}
}
