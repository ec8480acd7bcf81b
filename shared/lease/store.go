package lease

import (
	"context"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// Store keeps lane documents. All errors carry a kind of package fault:
// Conflict says that nothing was stored; Transient that it is not known whether it was.
type Store interface {
	// Load reads the document of a lane and the store's clock, in one read.
	Load(ctx context.Context, lane int) (Snapshot, error)
	// Create stores the first documents of a pipeline, in one transaction that finds none of them: the pipeline's own
	// document, doc for its lane, and for each other lane of doc.Lanes one without offsets. Where any of them exists it
	// stores nothing: Conflict if the lane's own document is among them (another run was first), else Fatal with class
	// "checkpoint-missing", naming the traces that were found, because then this lane's document was lost.
	Create(ctx context.Context, doc record.Checkpoint) (Revision, error)
	// Update replaces the lane's document if it is still at the revision, else it stores nothing and returns Conflict.
	// A run, where given, is stored in the same atomic write.
	Update(ctx context.Context, doc record.Checkpoint, at Revision, run *record.Report) (Revision, error)
}

// Revision names one stored state of a document. It changes with every write that changes the document.
type Revision string

// Snapshot is a lane document as it was read.
type Snapshot struct {
	// Doc is nil where the lane has no document.
	Doc      *record.Checkpoint
	Revision Revision
	// ReadAt is the store's clock at the read, never the client's.
	ReadAt time.Time
}
