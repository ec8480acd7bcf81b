package pulltest

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

var _ pull.Sink = (*MemSink)(nil)

// MemSinkOptions say what a MemSink does and what it refuses. The zero value inserts, and refuses taken ids only.
type MemSinkOptions struct {
	// Mode is what becomes of the documents; "" is record.Insert.
	Mode record.Mode
	// Deletes takes deletions along, in the keyed modes.
	Deletes bool
	// GuardField holds the guard of a document; "" is "_tidemark".
	GuardField string
	// UniqueField, where given, has a unique index that passes over documents without the field.
	UniqueField string
	// Poison, where given, returns the reason class of a document that is refused, "" for one that is fine.
	Poison func(doc bson.Raw) string
}

// MemSink is a collection and its dead letters in memory, with the rules of the modes. It has no goroutines and waits
// for nothing, so it works inside a synctest bubble. Ids are compared by value, as MongoDB does.
type MemSink struct {
	options MemSinkOptions

	mu      sync.Mutex
	docs    map[string]bson.Raw     // by _id
	deleted map[string]record.Guard // by _id, of those that were deleted
	unique  map[string]string       // value of the unique field -> _id
	letters map[string]Buried       // by coordinates
}

// Buried is a dead letter as it is kept.
type Buried struct {
	record.DeadLetter

	Run string
}

// NewMemSink returns an empty sink.
func NewMemSink(o MemSinkOptions) *MemSink {
	o.GuardField = cmp.Or(o.GuardField, "_tidemark")
	o.Mode = cmp.Or(o.Mode, record.Insert)
	return &MemSink{
		options: o, docs: map[string]bson.Raw{}, deleted: map[string]record.Guard{}, unique: map[string]string{}, letters: map[string]Buried{},
	}
}

// Write implements pull.Sink.
func (s *MemSink) Write(ctx context.Context, writes []record.Write) (record.WriteResult, error) {
	if err := ctx.Err(); err != nil {
		return record.WriteResult{}, fault.Transientf("writing %d documents: %w", len(writes), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var r record.WriteResult
	for _, w := range writes {
		class, stored, err := s.write(w)
		if err != nil {
			return record.WriteResult{}, err
		}
		switch {
		case stored:
			r.Written++
		case class == "":
			r.Duplicates++
		default:
			r.Rejected = append(r.Rejected, record.DeadLetter{
				Record: w.Record, Incarnation: w.Guard.Incarnation, Class: class, Reason: "refused by the sink in memory",
			})
		}
	}
	return r, nil
}

// write returns whether the write took effect, else why it is refused; no class means that nothing is left to do.
func (s *MemSink) write(w record.Write) (class string, stored bool, err error) {
	keyed := s.options.Mode != record.Insert
	switch {
	case keyed && badID(bson.Raw(w.Document).Lookup("_id")):
		return "bad-id", false, nil
	case w.Op == record.Delete && keyed && s.options.Deletes:
		return "", s.delete(w), nil
	case w.Op != record.Put:
		return "", false, fault.Fatalf("bad-sink", "the sink in memory does not carry out operation %d", w.Op)
	case keyed:
		class, stored = s.put(w)
	default:
		class, stored = s.insert(w)
	}
	return class, stored, nil
}

// Order implements pull.Sink. In insert an _id of coordinates has no other record to be ordered with.
func (s *MemSink) Order(w record.Write) (uint64, bool) {
	if s.options.Mode == record.Insert && !w.OwnID {
		return 0, false
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(valueKey(bson.Raw(w.Document).Lookup("_id")))) // a hash never fails to write
	return hash.Sum64(), true
}

// insert stores the document if its _id is free.
func (s *MemSink) insert(w record.Write) (class string, stored bool) {
	doc := bson.Raw(w.Document)
	id := valueKey(doc.Lookup("_id"))
	taken, isTaken := s.docs[id]
	switch {
	case isTaken && s.sameRecord(taken, w):
		return "", false
	case isTaken && (s.options.Poison == nil || s.options.Poison(doc) == ""):
		return "duplicate-key", false
	}
	return s.store(id, doc)
}

// store puts the document in the place of the one that has its _id, unless it is refused.
func (s *MemSink) store(id string, doc bson.Raw) (class string, stored bool) {
	if s.options.Poison != nil {
		if class := s.options.Poison(doc); class != "" {
			return class, false
		}
	}
	unique := s.uniqueKey(doc)
	if holder, held := s.unique[unique]; held && unique != "" && holder != id {
		return "duplicate-key", false
	}
	s.remove(id)
	s.docs[id] = slices.Clone(doc)
	if unique != "" {
		s.unique[unique] = id
	}
	return "", true
}

func (s *MemSink) remove(id string) {
	if doc, ok := s.docs[id]; ok {
		delete(s.unique, s.uniqueKey(doc))
		delete(s.docs, id)
	}
}

func (s *MemSink) uniqueKey(doc bson.Raw) string {
	if s.options.UniqueField == "" {
		return ""
	}
	v := doc.Lookup(s.options.UniqueField)
	if v.IsZero() {
		return ""
	}
	return valueKey(v)
}

// sameRecord follows the rule of package mongosink: a guard decides, and an _id of coordinates is proof without one.
// A record that comes again brings the same bytes.
func (s *MemSink) sameRecord(stored bson.Raw, w record.Write) bool {
	guard, ok := readGuard(stored.Lookup(s.options.GuardField))
	if !ok {
		return !w.OwnID
	}
	own, at := w.Guard, stored.Lookup("_id")
	guard.Timestamp, guard.Rewrite = own.Timestamp, own.Rewrite
	return guard == own && at.Equal(bson.Raw(w.Document).Lookup("_id"))
}

// Bury implements pull.Sink.
func (s *MemSink) Bury(ctx context.Context, run string, letters []record.DeadLetter) error {
	if err := ctx.Err(); err != nil {
		return fault.Transientf("burying %d dead letters: %w", len(letters), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range letters {
		key := fmt.Sprintf("%s@%d/%d", l.Record.Partition, l.Incarnation, l.Record.Offset)
		if _, ok := s.letters[key]; !ok {
			l.Record = cloneRecord(l.Record)
			s.letters[key] = Buried{DeadLetter: l, Run: run}
		}
	}
	return nil
}

// cloneRecord copies the bytes, which belong to the batch that the record came in.
func cloneRecord(r record.Record) record.Record {
	r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = slices.Clone(r.Headers[i].Value)
	}
	return r
}

// Store stores a document as another program would: whatever it holds, and in the place of what has its _id.
func (s *MemSink) Store(doc bson.Raw) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.docs[valueKey(doc.Lookup("_id"))] = slices.Clone(doc)
}

// Documents returns what is stored, in the order of the bytes of _id.
func (s *MemSink) Documents() []bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.docs))
	for id := range s.docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	docs := make([]bson.Raw, len(ids))
	for i, id := range ids {
		docs[i] = slices.Clone(s.docs[id])
	}
	return docs
}

// Letters returns the dead letters by topic, incarnation, partition and offset.
func (s *MemSink) Letters() []Buried {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := make([]Buried, 0, len(s.letters))
	for _, l := range s.letters {
		letters = append(letters, l)
	}
	slices.SortFunc(letters, func(a, b Buried) int {
		return cmp.Or(strings.Compare(a.Record.Partition.Topic, b.Record.Partition.Topic), cmp.Compare(a.Incarnation, b.Incarnation),
			cmp.Compare(a.Record.Partition.ID, b.Record.Partition.ID), cmp.Compare(a.Record.Offset, b.Record.Offset))
	})
	return letters
}
