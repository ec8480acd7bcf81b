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
	// document, doc for its lane, and for each other lane of doc.Lanes one without offsets. Where any of them, a run or an
	// audit entry exists it stores nothing: Conflict if the lane's own document is among them or the pipeline has another
	// layout (another run was first), else Fatal with class "checkpoint-missing", naming the traces that were found,
	// because then this lane's document was lost.
	Create(ctx context.Context, doc record.Checkpoint) (Revision, error)
	// Update replaces the lane's document if it is still at the revision, else it stores nothing and returns Conflict.
	// So it does where the document is gone because the lanes were changed; where it is gone and the pipeline's layout is
	// doc's, it is lost: Fatal with class "checkpoint-missing". A run, where given, is stored in the same atomic write.
	Update(ctx context.Context, doc record.Checkpoint, at Revision, run *record.Report) (Revision, error)
	// Edit reads all documents of the pipeline and stores what change makes of them, and an audit entry where it returns
	// one, in one transaction: no write of anybody else comes between. Seq grows in every lane document that is stored, so
	// whoever had read one of them before fails its compare-and-set. Where change leaves all as it was, nothing is stored.
	//
	// A pipeline of which neither its own document nor that of a lane exists is given to change without lanes, and cannot
	// be stored. Fatal with class "checkpoint-missing" where some of them exist and others do not, naming both. The error
	// of change is returned as it is, and then nothing is stored.
	Edit(ctx context.Context, change Edit) error
}

// Edit changes the documents of a pipeline as they are at a time of the store's clock. It has no other effect, because it
// is called again where the transaction is tried again. It may add lanes and remove the last ones. Number and time of the
// entry are the store's.
type Edit func(now time.Time, pipeline *record.Pipeline) (*record.Audit, error)

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
