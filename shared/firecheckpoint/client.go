package firecheckpoint

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tidemark/tidemark/shared/fault"
)

// emulatorVariable is what Google's tools and clients agree on.
const emulatorVariable = "FIRESTORE_EMULATOR_HOST"

// Options say where the documents are.
type Options struct {
	Project string
	// Database is "(default)" where it is empty, Collection "tidemark".
	Database   string
	Collection string
	Pipeline   string
	// RunTTL is how long a run report is kept, by a TTL policy on expireAt; 0 keeps it for ever.
	RunTTL time.Duration
	// Emulator is the host and port of an emulator; empty is what FIRESTORE_EMULATOR_HOST says, if anything.
	Emulator string
	// DialOptions are added to the connection, to the emulator's too: stats handlers, for example.
	DialOptions []grpc.DialOption
}

// Store is the documents of one pipeline in Firestore. It is safe for concurrent use.
type Store struct {
	options Options

	mu     sync.Mutex
	client *firestore.Client
}

// New returns a store that connects at its first call. It is Fatal where Firestore could never have such names.
func New(options Options) (*Store, error) {
	if options.Database == "" {
		options.Database = firestore.DefaultDatabaseID
	}
	if options.Collection == "" {
		options.Collection = "tidemark"
	}
	if options.Emulator == "" {
		options.Emulator = os.Getenv(emulatorVariable)
	}
	if options.Project == "" {
		return nil, fault.Fatalf("bad-name", "no project is named for Firestore: set checkpoint.project")
	}
	for _, id := range []struct{ what, name string }{{"pipeline", options.Pipeline}, {"collection", options.Collection}} {
		if !validID(id.name) {
			return nil, fault.Fatalf("bad-name", "%s %q cannot be a name in Firestore: use letters, digits, dashes and dots", id.what, id.name)
		}
	}
	return &Store{options: options}, nil
}

// Close ends the connection, if there is one. A later call connects again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	client := s.client
	s.client = nil
	if client == nil {
		return nil
	}
	if err := client.Close(); err != nil {
		return fault.Transientf("closing the connection to Firestore: %w", err)
	}
	return nil
}

// connect returns the client, which is made once and kept only if that succeeds.
func (s *Store) connect(ctx context.Context) (*firestore.Client, error) {
	if ctx.Err() != nil {
		return nil, fault.Transientf("calling Firestore (%s): %w", s.where(), context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	options, err := s.clientOptions()
	if err != nil {
		return nil, err
	}
	// The credentials keep the context for their later refreshes, so it must not be one that ends with this call.
	client, err := firestore.NewClientWithDatabase(context.WithoutCancel(ctx), s.options.Project, s.options.Database, options...)
	if err != nil {
		return nil, fault.Fatalf("firestore-auth", "connecting to Firestore (%s): %w: give the program credentials of an account with %s", s.where(), brief{err}, role)
	}
	s.client = client
	return client, nil
}

func (s *Store) clientOptions() ([]option.ClientOption, error) {
	dial := append([]grpc.DialOption{
		grpc.WithChainUnaryInterceptor(interceptUnary),
		grpc.WithChainStreamInterceptor(interceptStream),
	}, s.options.DialOptions...)
	if s.options.Emulator == "" {
		options := make([]option.ClientOption, len(dial))
		for i, d := range dial {
			options[i] = option.WithGRPCDialOption(d)
		}
		return options, nil
	}
	// The client would dial the emulator itself, without these options.
	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))
	conn, err := grpc.NewClient("passthrough:///"+s.options.Emulator, dial...)
	if err != nil {
		return nil, fault.Fatalf("firestore-emulator", "connecting to the Firestore emulator at %s: %w: set %s to host:port",
			s.options.Emulator, err, emulatorVariable)
	}
	return []option.ClientOption{option.WithGRPCConn(conn)}, nil
}

// owner makes the emulator skip the security rules, which are not for servers.
type owner struct{}

// GetRequestMetadata returns the one token that emulators take for an administrator's.
func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

// RequireTransportSecurity says no: emulators speak plain text.
func (owner) RequireTransportSecurity() bool { return false }

// validID says whether a name can be the id of a document or collection:
// https://firebase.google.com/docs/firestore/quotas#collections_documents_and_fields.
func validID(id string) bool {
	reserved := strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__")
	return id != "" && len(id) <= 1500 && id != "." && id != ".." && !reserved && !strings.Contains(id, "/")
}
