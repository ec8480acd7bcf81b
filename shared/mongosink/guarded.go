package mongosink

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	verbUpdate = "update"
	verbDelete = "delete"
)

// statement is one guarded write: a document to put, or a key to delete.
type statement struct {
	id    bson.RawValue
	own   record.Guard
	doc   []byte
	entry *entry // nil where nobody waits for what became of it
}

// statementOverhead is what a statement needs beside its program, _id and document: the names around them and the guard.
const statementOverhead = 320

// puts are the guarded upserts of documents into the collection.
func (s *Sink) puts(list []statement, ordered bool, lease *lease) bulk {
	b := s.upserts(s.options.Collection, s.programs.put, list, ordered, lease)
	if lease != nil {
		b.begin = lease.bound
	}
	return b
}

// upserts runs the program for each statement: {q: {_id: {$eq: id}}, u: program, c: {own, doc, fence}, upsert: true}. An
// _id from a record stands behind $eq, since {"$gt": 1} as a filter would find a stranger's document; and the document
// is a constant of the statement, in which nothing is an expression.
func (s *Sink) upserts(collection string, program []byte, list []statement, ordered bool, lease *lease) bulk {
	return bulk{
		verb: verbUpdate, list: "updates", collection: collection, ordered: ordered, n: len(list),
		size: func(i int) int {
			x := list[i]
			return statementOverhead + len(program) + len(x.id.Value) + len(x.doc) + len(x.own.Topic) + len(s.options.GuardField)
		},
		appendTo: func(dst []byte, i int) []byte {
			x := list[i]
			start, dst := bsoncore.AppendDocumentStart(dst)
			dst = appendFilter(dst, x.id)
			dst = append(bsoncore.AppendHeader(dst, bsoncore.TypeArray, "u"), program...)
			constants, dst := bsoncore.AppendDocumentElementStart(dst, "c")
			dst = appendGuard(dst, ownVariable, x.own)
			dst = bsoncore.AppendDocumentElement(dst, docVariable, x.doc)
			if lease != nil {
				dst = bsoncore.AppendDateTimeElement(dst, fenceVariable, lease.fence)
			}
			dst = endDocument(dst, constants)
			dst = bsoncore.AppendBooleanElement(dst, "upsert", true)
			return endDocument(dst, start)
		},
	}
}

func appendFilter(dst []byte, id bson.RawValue) []byte {
	filter, dst := bsoncore.AppendDocumentElementStart(dst, "q")
	return endDocument(appendEqual(dst, id), filter)
}

// removals delete the documents whose guard is older than that of the statement: {q: {_id: {$eq: id}, $expr: {$let:
// {vars: {own: {$literal: guard}}, in: program}}}, limit: 1}. A delete takes no constants of its own.
func (s *Sink) removals(list []statement) bulk {
	program := s.programs.remove
	return bulk{
		verb: verbDelete, list: "deletes", collection: s.options.Collection, n: len(list),
		size: func(i int) int {
			return statementOverhead + len(program) + len(list[i].id.Value) + len(list[i].own.Topic)
		},
		appendTo: func(dst []byte, i int) []byte {
			start, dst := bsoncore.AppendDocumentStart(dst)
			filter, dst := bsoncore.AppendDocumentElementStart(dst, "q")
			dst = appendEqual(dst, list[i].id)
			expr, dst := bsoncore.AppendDocumentElementStart(dst, "$expr")
			let, dst := bsoncore.AppendDocumentElementStart(dst, "$let")
			vars, dst := bsoncore.AppendDocumentElementStart(dst, "vars")
			own, dst := bsoncore.AppendDocumentElementStart(dst, ownVariable)
			dst = endDocument(endDocument(appendGuard(dst, "$literal", list[i].own), own), vars)
			dst = append(bsoncore.AppendHeader(dst, bsoncore.TypeEmbeddedDocument, "in"), program...)
			dst = endDocument(endDocument(endDocument(dst, let), expr), filter)
			dst = bsoncore.AppendInt32Element(dst, "limit", 1)
			return endDocument(dst, start)
		},
	}
}

// lease knows until when, by the clock of mongod, what is sent may take effect.
type lease struct {
	ends  time.Time // by our clock
	local time.Time // when server was learnt, at the latest
	// server is mongod's clock at local or a little earlier, so that a time computed from it is never late.
	server time.Time
	fence  int64 // of the command that is being built, milliseconds since 1970
}

// bound gives the next command half of the time that is left, and the other half to begin in: one that begins before
// the fence ends, by its maxTimeMS, before the lease does.
func (l *lease) bound(context.Context) time.Duration {
	now := time.Now()
	// Where a machine was suspended the monotonic clock may have stood still with it. The clock that was earlier at the
	// end says how much time is left.
	left := min(l.ends.Sub(now), l.ends.Round(0).Sub(now.Round(0)))
	timeout := min(commandTimeout, left/2)
	end := l.server.Add(min(l.ends.Sub(l.local), l.ends.Round(0).Sub(l.local.Round(0))))
	l.fence = end.Add(-timeout).UnixMilli()
	return timeout
}

// fenced makes a pipeline's expression fail with codeConversion once mongod's clock has reached the fence. $$NOW is the
// time at which the command began. The text to convert depends on the document, or mongod would try it at once.
func fenced(program bson.D) bson.D {
	fails := only("$toInt", expression("$concat", "the lease has ended: ", only("$type", "$"+idField)))
	return expression("$cond", expression("$lt", "$$NOW", "$$"+fenceVariable), program, fails)
}

// readLease asks mongod for its clock. It is asked anew for each call: a clock that was learnt earlier may be that of
// another server.
func (s *Sink) readLease(ctx context.Context) (*lease, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	answer, err := client.Database(s.options.Database).RunCommand(bounded, bson.D{{Key: "hello", Value: 1}}).Raw()
	doing := "asking MongoDB for its clock"
	if err != nil {
		return nil, s.failed(ctx, doing, err)
	}
	local := time.Now()
	ends, ok := ctx.Deadline()
	if !ok {
		ends = local.Add(2 * commandTimeout)
	}
	server, ok := answer.Lookup("localTime").TimeOK()
	if !ok {
		return nil, fault.Transientf("%s: the answer to hello has no localTime", doing)
	}
	return &lease{ends: ends, local: local, server: server}, nil
}

// leaseEnded is the error for what would take effect too late.
func (s *Sink) leaseEnded(n int) error {
	return fault.Transientf("%s: the lease ends before they can be written: they are left to the next run", s.doing(n))
}
