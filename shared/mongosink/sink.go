package mongosink

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Sink writes to one collection. It is safe for concurrent use.
type Sink struct {
	options  Options
	hosts    string // for messages
	password string // to be taken out of messages
	programs programs
	buffers  sync.Pool
	// mostlyNew is true where most keys of the last keyed call were not in the collection.
	mostlyNew atomic.Bool

	mu      sync.Mutex
	client  *mongo.Client // nil until something is written
	indexed *mongo.Client // the one that made sure of the index of deletions
	opening *opening      // nil unless the client is on its way
}

// New checks the options. It opens no connection and looks nothing up. Its errors are Fatal and never hold a credential.
func New(o Options) (*Sink, error) {
	if o.Mode == "" {
		o.Mode = record.Insert
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	programs, err := encodePrograms(o)
	if err != nil {
		return nil, fault.Fatalf(classBadSink, "%w", err)
	}
	hosts, password, err := o.parse()
	if err != nil {
		return nil, err
	}
	return &Sink{options: o, hosts: hosts, password: password, programs: programs}, nil
}

const (
	// maxRounds bounds how often a document is sent again because the one that held its _id was gone when looked at.
	maxRounds = 4
	// commandTimeout bounds one command where ctx does not end sooner. The driver sends what is left as maxTimeMS, so
	// the server gives up at the same time. It must not be added by hand: the server refuses a field that stands twice.
	commandTimeout = 30 * time.Second
)

// Write implements pull.Sink.
func (s *Sink) Write(ctx context.Context, writes []record.Write) (record.WriteResult, error) {
	if err := ctx.Err(); err != nil {
		return record.WriteResult{}, s.failed(ctx, s.doing(len(writes)), err)
	}
	r := result{sink: s, writes: writes}
	pending, err := r.screen()
	if err != nil {
		return record.WriteResult{}, err
	}
	if s.options.Mode == record.Insert {
		err = r.insert(ctx, pending)
	} else {
		err = r.keyed(ctx, pending)
	}
	if err != nil {
		return record.WriteResult{}, err
	}
	return r.finish(), nil
}

func (s *Sink) doing(n int) string {
	return fmt.Sprintf("writing %d documents to %s", n, s.options)
}

// result collects what became of a list of writes.
type result struct {
	record.WriteResult

	sink     *Sink
	writes   []record.Write
	rejected []rejected
	vacant   map[int]bool // writes of mode insert that did not find their _id taken and are not stored either
}

type rejected struct {
	index         int
	class, reason string
}

func (r *result) reject(index int, class, reason string) {
	r.rejected = append(r.rejected, rejected{index, class, reason})
}

// maxDocumentBytes is the size of the largest document that MongoDB stores ("MongoDB Limits and Thresholds").
const maxDocumentBytes = 16 << 20

// screen returns the writes that can be sent. A document whose length field lies would break the command that holds it
// and take the others along.
func (r *result) screen() ([]int, error) {
	pending := make([]int, 0, len(r.writes))
	for i, w := range r.writes {
		n := len(w.Document)
		switch {
		case w.Op != record.Put && (w.Op != record.Delete || !r.sink.options.Deletes):
			return nil, fault.Fatalf(classBadSink, "%s: write %d has the operation %d, which a sink of mode %s does not carry out: the "+
				"config of mapping and sink must name the same mode and tombstones", r.sink.doing(len(r.writes)), i, w.Op, r.sink.options.Mode)
		case n > maxDocumentBytes:
			r.reject(i, classTooLarge, fmt.Sprintf("the document has %d bytes, MongoDB takes %d", n, maxDocumentBytes))
		case n < 5 || int64(binary.LittleEndian.Uint32(w.Document)) != int64(n) || w.Document[n-1] != 0:
			r.reject(i, classMalformed, "the document is not BSON")
		default:
			pending = append(pending, i)
		}
	}
	return pending, nil
}

func (r *result) finish() record.WriteResult {
	slices.SortFunc(r.rejected, func(a, b rejected) int { return cmp.Compare(a.index, b.index) })
	for _, x := range r.rejected {
		w := r.writes[x.index]
		r.Rejected = append(r.Rejected, record.DeadLetter{
			Record: w.Record, Incarnation: w.Guard.Incarnation, Class: x.class, Reason: x.reason,
		})
	}
	return r.WriteResult
}
