package pull

import (
	"context"

	"github.com/tidemark/tidemark/shared/record"
)

// Source reads Kafka. All errors carry a kind of package fault.
type Source interface {
	// Bounds answers which partitions the lane owns and between which offsets they can be read. Ends are taken once:
	// what comes later is the next run's. A partition without an answer is left out, never answered as empty; a topic
	// that Kafka does not know is left out of Topics.
	Bounds(ctx context.Context, query record.BoundsQuery) (record.Log, error)
	// TopicIDs answers the ids of topics, as far as Kafka knows them now: a topic that it does not tell of is left out,
	// and the id is "" from a broker that tells none.
	TopicIDs(ctx context.Context, topics []string) (map[string]string, error)
	// Open starts to read the ranges. Nothing outside of them is ever yielded. topicIDs are the ids of their topics, as
	// Bounds told them when the ranges were planned: offsets of one incarnation are never used on another, so a topic
	// that has another id is a Fatal topic-recreated. One that is "" or absent is not known and taken as it comes. The
	// reader works until ctx ends or it is closed.
	Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) Reader
}

// Reader yields the batches of the ranges that were opened.
type Reader interface {
	// Next returns the next batch of any partition: per partition in offset order and without a hole, so that the
	// first begins at From, each goes on at the Next of the one before, and the last has Next == To. io.EOF is
	// returned once every range has reached its To, and never before.
	Next(ctx context.Context) (record.Batch, error)
	// Close stops the reading and waits for it.
	Close()
}

// Sink writes MongoDB. It keeps nothing of what it is given beyond the call. All errors carry a kind of package fault.
type Sink interface {
	// Write stores the writes: those of one Order in the order of the list, the others in any. A nil error promises that
	// a majority acknowledged each one that is not in Rejected; with an error some may be stored, and all may be sent
	// again. Where the pipeline deletes, the deadline of ctx is no later than the end of the lease, and nothing may take
	// effect in the collection after it.
	Write(ctx context.Context, writes []record.Write) (record.WriteResult, error)
	// Order returns the same number for all writes whose order matters to one another, because MongoDB takes their _ids
	// for equal; two calls of Write with such writes must not overlap. false where a write's order does not matter.
	Order(write record.Write) (order uint64, matters bool)
	// Bury stores dead letters. A nil error promises that a majority acknowledged each one. A dead letter that is
	// there already is a success.
	Bury(ctx context.Context, run string, letters []record.DeadLetter) error
}

// Converter turns one record into a write, or says why it can never be one. It is pure.
type Converter interface {
	// Convert returns a write, or a fault of kind Poison whose class is the dead letter's reason class. The topic is
	// what the lane knows of the record's topic. The document may be cut from the arena.
	Convert(arena *record.Arena, rec record.Record, topic record.Topic) (record.Write, error)
}
