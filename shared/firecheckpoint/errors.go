package firecheckpoint

import (
	"context"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark/tidemark/shared/fault"
)

// role is the least predefined role that may read and write documents.
const role = "roles/datastore.user"

// classify gives an error of Firestore its kind. What is a Conflict depends on the call, and is known there; an error that
// has a kind keeps it. ctx is the caller's, call the one with our own deadline.
func (s *Store) classify(ctx, call context.Context, doing string, err error) error {
	if fault.KindOf(err) != fault.Transient {
		return err
	}
	doing += " (" + s.where() + ")"
	if ctx.Err() != nil {
		return fault.Transientf("%s: %w%s", doing, context.Cause(ctx), lastError(call))
	}
	if call.Err() != nil {
		return fault.Transientf("%s: Firestore did not answer within %s%s", doing, callTimeout, lastError(call))
	}
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return fault.Fatalf("firestore-auth", "%s: %w: give the program's account %s", doing, brief{err}, role)
	case codes.NotFound, codes.FailedPrecondition: // no such database, or one in Datastore mode
		return fault.Fatalf("firestore-database", "%s: %w: create the database in native mode, or correct checkpoint.project and "+
			"checkpoint.database", doing, brief{err})
	case codes.InvalidArgument:
		return fault.Fatalf("firestore-refused", "%s: %w: a document may have 1 MiB, more lanes make it smaller", doing, brief{err})
	default:
		return fault.Transientf("%s: %w", doing, brief{err})
	}
}

func (s *Store) missing(doc *firestore.DocumentRef, evidence string) error {
	return fault.Fatalf("checkpoint-missing", "%s (%s) does not exist %s, so it was lost or deleted by hand: restore it from a backup, "+
		"or delete %s/%s and everything below it to start over at startingOffsets, with another sink.collection: in this one its records would be taken for those that are there",
		s.show(doc), s.where(), evidence, s.options.Collection, s.options.Pipeline)
}

func corrupt(name string, err error) error {
	return fault.Fatalf("checkpoint-corrupt", "%s cannot be read as a checkpoint: %w; correct it in the console or restore it from a backup", name, err)
}

// where names what can be misconfigured.
func (s *Store) where() string {
	where := fmt.Sprintf("project %s, database %s", s.options.Project, s.options.Database)
	if s.options.Emulator != "" {
		where += ", emulator " + s.options.Emulator
	}
	return where
}

// brief prints an error of gRPC as one line: those of Google's clients go on for a dozen lines of details.
type brief struct{ err error }

// Error returns the code and the message.
func (b brief) Error() string {
	text := b.err.Error()
	if s, ok := status.FromError(b.err); ok {
		text = s.Code().String() + ": " + s.Message()
	}
	return strings.Join(strings.Fields(text), " ")
}

// Unwrap returns the error.
func (b brief) Unwrap() error { return b.err }
