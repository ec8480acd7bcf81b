package mongosink

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
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
	buffers  sync.Pool

	mu      sync.Mutex
	client  *mongo.Client // nil until something is written
	opening *opening      // nil unless the client is on its way
}

// New checks the options. It opens no connection and looks nothing up. Its errors are Fatal and never hold a credential.
func New(o Options) (*Sink, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	hosts, password, err := o.parse()
	if err != nil {
		return nil, err
	}
	return &Sink{options: o, hosts: hosts, password: password}, nil
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
	pending := r.screen()
	for round := 0; len(pending) > 0; round++ {
		if round == maxRounds {
			return record.WriteResult{}, fault.Transientf("%s: %d documents found their _id taken and nothing under it, %d times: is "+
				"another program deleting in the collection?", s.doing(len(writes)), len(pending), maxRounds)
		}
		refused, err := s.insert(ctx, s.options.Collection, len(pending), func(i int) []byte { return writes[pending[i]].Document })
		if err != nil {
			return record.WriteResult{}, err
		}
		r.Written += int64(len(pending) - len(refused))
		if pending, err = r.settle(ctx, pending, refused); err != nil {
			return record.WriteResult{}, err
		}
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
func (r *result) screen() []int {
	pending := make([]int, 0, len(r.writes))
	for i, w := range r.writes {
		n := len(w.Document)
		switch {
		case n > maxDocumentBytes:
			r.reject(i, classTooLarge, fmt.Sprintf("the document has %d bytes, MongoDB takes %d", n, maxDocumentBytes))
		case n < 5 || int64(binary.LittleEndian.Uint32(w.Document)) != int64(n) || w.Document[n-1] != 0:
			r.reject(i, classMalformed, "the document is not BSON")
		default:
			pending = append(pending, i)
		}
	}
	return pending
}

// settle sorts what the server refused and returns what has to be sent again.
func (r *result) settle(ctx context.Context, pending []int, refused []refusal) ([]int, error) {
	var taken []taken
	for _, f := range refused {
		index := pending[f.index]
		if f.code == codeDuplicateKey {
			taken = append(taken, newTaken(index, f, r.writes[index].Document))
			continue
		}
		v := writeVerdict(f.code)
		if v.kind != fault.Poison {
			return nil, r.sink.refusedWrite(r.sink.doing(len(pending)), f.code, v)
		}
		r.reject(index, v.class, fmt.Sprintf("MongoDB refused the document with code %d: %s", f.code, f.message))
	}
	if len(taken) == 0 {
		return nil, nil
	}
	if err := r.sink.lookUp(ctx, r.sink.options.Collection, taken); err != nil {
		return nil, err
	}
	return r.settleTaken(taken), nil
}

func (r *result) settleTaken(all []taken) (again []int) {
	for _, t := range all {
		switch {
		case t.found && t.sameRecord(r.writes[t.index]):
			r.Duplicates++
		case !t.found && t.byID:
			again = append(again, t.index)
		case r.sink.options.IgnoreDuplicates:
			r.Ignored++
		default:
			r.reject(t.index, classDuplicateKey, "another document has the same key: "+t.message)
		}
	}
	return again
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
