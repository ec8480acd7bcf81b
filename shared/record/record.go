package record

import (
	"cmp"
	"fmt"
	"hash/fnv"
)

// Partition names one partition of a topic.
type Partition struct {
	Topic string
	ID    int32
}

// String returns the partition as "topic/partition", the form used in the checkpoint, in logs and in errors.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.ID) }

// Compare orders partitions by topic, then number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.ID, q.ID))
}

// Lane returns which of n lanes owns the partition: (uint64(fnv32a(topic)) + partition) mod n. The formula is a
// promise: a change would move partitions between lane documents.
func (p Partition) Lane(n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Topic)) // a hash never fails to write
	return int((uint64(h.Sum32()) + uint64(p.ID)) % uint64(n))
}

// Range is the half-open range of offsets [From, To) of one partition.
type Range struct {
	Partition Partition
	From, To  int64
}

// String returns the range as "topic/partition [from, to)".
func (r Range) String() string { return fmt.Sprintf("%s [%d, %d)", r.Partition, r.From, r.To) }

// Header is one header of a Kafka record. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one Kafka record. Key and Value are nil where Kafka says null; they alias the buffer of their Batch and
// are valid until the batch is done.
type Record struct {
	Partition Partition
	Offset    int64
	Timestamp int64 // milliseconds since 1970, producer's or broker's as the topic says
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Batch is what a source yields: records of one partition in offset order, and how far they lead.
type Batch struct {
	Partition Partition
	Records   []Record
	// Next is the position after this batch: the offset to go on from. It also passes what is no record: control
	// records, aborted transactions and offsets that were compacted away. A batch without records may move it.
	Next int64
	// LeaderEpoch is the epoch of the leader that wrote the last of these records, -1 where it is not known.
	LeaderEpoch int32
	// Bytes is the memory that the batch holds on to, as far as it is known.
	Bytes int64
}

// Guard is the origin of a document, stored in it wherever its _id alone is no proof of it.
type Guard struct {
	Topic       string
	Incarnation int64
	Rewrite     int64
	Partition   int32
	Offset      int64
	Timestamp   int64
}

// Mode is what a pipeline does with the documents of its records.
type Mode string

// The modes. In insert the first document of an _id stays; in the others, which are called keyed, the newest record of
// an _id decides: upsert replaces the whole document, update sets its top-level fields and leaves the others.
const (
	Insert Mode = "insert"
	Upsert Mode = "upsert"
	Update Mode = "update"
)

// Op is what one write does.
type Op uint8

const (
	// Put stores the document, in the way of the pipeline's mode.
	Put Op = iota
	// Delete removes the document of the _id, if it is older. Its own Document holds _id and guard only.
	Delete
	// Skip does nothing: the config drops such records. It has no Document and is counted as filtered.
	Skip
)

// Write is what becomes of one record.
type Write struct {
	Op Op
	// Record is the source; it is kept because the server may still refuse the document.
	Record Record
	// Guard is the origin, also where it is not stored in the document.
	Guard Guard
	// Document is a BSON document: _id first, then the value's fields, metadata and, where OwnID is set or the value had
	// a field of that name, the guard as the last field. It is stored as it is, or in update its fields are set.
	Document []byte
	// OwnID says that the _id is not made of coordinates, so that a taken _id proves nothing by itself.
	OwnID bool
}

// DeadLetter is a record that can never be written, with its reason.
type DeadLetter struct {
	Record      Record
	Incarnation int64
	// Class is the reason class, a word of the table in docs/architecture.md such as "malformed-json".
	Class string
	// Reason is one line for a person. It may hold a server's message, which may hold values: it is stored in the
	// dead letter only and never logged.
	Reason string
}

// WriteResult says what became of a list of writes that was acknowledged as a whole.
type WriteResult struct {
	// Written were stored by this call, or made void by a newer record of the same _id in it. Duplicates had been there
	// already, or something newer had.
	Written, Duplicates int64
	// Ignored were dropped because the config says so (onDuplicate: ignore).
	Ignored int64
	// Rejected can never be written. Nothing is stored of them yet.
	Rejected []DeadLetter
}
