package mongosink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
)

const (
	// maxCommandBytes: mongod takes a command of 16 MiB + 16 KiB (BSONObjMaxInternalSize), counted with what the driver
	// adds: session, cluster time, read preference, API version. Half of the 16 KiB is left for that. A message of
	// 48,000,000 bytes is therefore never reached.
	maxCommandBytes = 16<<20 + 8<<10
	// maxCommandDocuments is maxWriteBatchSize of every server since 3.6.
	maxCommandDocuments = 100_000
	// maxKeptBuffer bounds the memory that is kept between commands.
	maxKeptBuffer = 4 << 20
)

// refusal is what a server said against one statement of a command.
type refusal struct {
	index   int
	code    int
	message string // may hold values of the document
	// byID is true where the key that was taken is the _id.
	byID bool
}

// bulk is a list of statements, each a document, that goes to the server in as few commands as the limits allow.
type bulk struct {
	verb, list, collection string // such as insert, documents
	ordered                bool   // stop at the first statement that is refused
	n                      int
	size                   func(i int) int
	appendTo               func(dst []byte, i int) []byte
	// begin, where given, is called before each command is built and returns how long that command may take.
	begin func(ctx context.Context) time.Duration
}

// tally is what became of the statements. Done is how many were carried out, in an ordered bulk the first ones; changed
// is how many of them changed something, and inserted how many of these an update had to insert. Not every one is in done or refused: an ordered bulk ends at a refusal.
type tally struct {
	done, changed, inserted int
	refused                 []refusal
}

func (t *tally) add(u tally) {
	t.done += u.done
	t.changed += u.changed
	t.inserted += u.inserted
	t.refused = append(t.refused, u.refused...)
}

// insert sends n documents. With a nil error a majority holds every document that is not among the refused.
func (s *Sink) insert(ctx context.Context, collection string, n int, doc func(int) []byte) ([]refusal, error) {
	t, err := s.send(ctx, bulk{
		verb: "insert", list: "documents", collection: collection, n: n,
		size:     func(i int) int { return len(doc(i)) },
		appendTo: func(dst []byte, i int) []byte { return append(dst, doc(i)...) },
	})
	return t.refused, err
}

// send carries out a bulk. With a nil error a majority acknowledged everything that is done.
func (s *Sink) send(ctx context.Context, b bulk) (tally, error) {
	var all tally
	for from := 0; from < b.n; {
		to, size := from, commandOverhead(b.collection)
		for to < b.n && to-from < maxCommandDocuments {
			size += b.size(to) + elementOverhead
			if to > from && size > maxCommandBytes {
				break
			}
			to++
		}
		t, err := s.sendRange(ctx, b, from, to)
		if err != nil {
			return tally{}, err
		}
		all.add(t)
		if b.ordered && len(t.refused) > 0 {
			break
		}
		from = to
	}
	return all, nil
}

// elementOverhead is the type byte and the index of a document in the array: at most five digits and a zero byte.
const elementOverhead = 7

func commandOverhead(collection string) int { return 128 + len(collection) }

// sendRange sends one command. Where the server refuses it as a whole for the sake of a document, it goes on with the
// halves until the document stands alone.
func (s *Sink) sendRange(ctx context.Context, b bulk, from, to int) (tally, error) {
	t, err := s.command(ctx, b, from, to)
	if err == nil {
		return t, nil
	}
	var whole *commandRefusedError
	if !errors.As(err, &whole) {
		return tally{}, err
	}
	if to-from == 1 {
		return tally{refused: []refusal{{index: from, code: whole.code, message: whole.message}}}, nil
	}
	middle := from + (to-from)/2
	left, err := s.sendRange(ctx, b, from, middle)
	if err != nil {
		return tally{}, err
	}
	if b.ordered && len(left.refused) > 0 {
		return left, nil
	}
	right, err := s.sendRange(ctx, b, middle, to)
	if err != nil {
		return tally{}, err
	}
	left.add(right)
	return left, nil
}

// commandRefusedError says that a whole command was refused because of a document in it.
type commandRefusedError struct {
	code    int
	message string
}

// Error leaves the message out: it may hold values.
func (e *commandRefusedError) Error() string {
	return "command refused with code " + strconv.Itoa(e.code)
}

func (s *Sink) command(ctx context.Context, b bulk, from, to int) (tally, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return tally{}, err
	}
	timeout := commandTimeout
	if b.begin != nil {
		if timeout = b.begin(ctx); timeout <= 0 {
			return tally{}, s.leaseEnded(to - from)
		}
	}
	buf, _ := s.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	*buf = b.appendCommand((*buf)[:0], from, to)

	// The deadline is also what the driver makes maxTimeMS of.
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := client.Database(s.options.Database).RunCommand(bounded, bson.Raw(*buf)).Raw()
	if cap(*buf) <= maxKeptBuffer {
		s.buffers.Put(buf)
	}
	doing := s.doing(to - from)
	if b.collection != s.options.Collection {
		doing = "writing " + strconv.Itoa(to-from) + " documents to " + s.options.Database + "." + b.collection
	}
	return s.readAnswer(ctx, doing, b, from, to, answer, err)
}

func (b bulk) appendCommand(dst []byte, from, to int) []byte {
	size := commandOverhead(b.collection)
	for i := from; i < to; i++ {
		size += b.size(i) + elementOverhead
	}
	command, dst := bsoncore.AppendDocumentStart(slices.Grow(dst, size))
	dst = bsoncore.AppendStringElement(dst, b.verb, b.collection)
	array, dst := bsoncore.AppendArrayElementStart(dst, b.list)
	for i := from; i < to; i++ {
		dst = append(dst, byte(bsoncore.TypeEmbeddedDocument))
		dst = strconv.AppendInt(dst, int64(i-from), 10)
		dst = append(dst, 0)
		dst = b.appendTo(dst, i)
	}
	dst = endDocument(dst, array)
	dst = bsoncore.AppendBooleanElement(dst, "ordered", b.ordered)
	concern, dst := bsoncore.AppendDocumentElementStart(dst, "writeConcern")
	dst = bsoncore.AppendStringElement(dst, "w", "majority")
	dst = endDocument(dst, concern)
	return endDocument(dst, command)
}

// endDocument ends the document or array that was started at the index.
func endDocument(dst []byte, start int32) []byte {
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, start, int32(len(dst))-start)
}

// readAnswer checks that the server accounts for every statement. RunCommand reports writeErrors and writeConcernError
// of an answer with ok: 1 as a WriteException that holds the answer, anything else as a CommandError.
func (s *Sink) readAnswer(ctx context.Context, doing string, b bulk, from, to int, answer bson.Raw, err error) (tally, error) {
	var exception mongo.WriteException
	switch {
	case err == nil:
	case !errors.As(err, &exception):
		return tally{}, s.failedWrite(ctx, doing, err)
	case exception.WriteConcernError != nil:
		return tally{}, fault.Transientf("%s: a majority did not acknowledge them (code %d, %s): all will be sent again", doing,
			exception.WriteConcernError.Code, exception.WriteConcernError.Name)
	default:
		answer = exception.Raw
	}
	t := tally{done: to - from - len(exception.WriteErrors)}
	for _, e := range exception.WriteErrors {
		if e.Index < 0 || e.Index >= to-from {
			return tally{}, fault.Transientf("%s: the server reports an error for document %d", doing, e.Index)
		}
		t.refused = append(t.refused, refusal{index: from + e.Index, code: e.Code, message: e.Message, byID: isIDPattern(e.Raw)})
		if b.ordered {
			t.done = e.Index
		}
	}
	n, ok := answer.Lookup("n").AsInt64OK()
	// A delete finds what there is to delete, an insert and an upsert account for each statement.
	if !ok || n > int64(t.done) || (n != int64(t.done) && b.verb != verbDelete) {
		return tally{}, fault.Transientf("%s: the server acknowledged %d, expected %d", doing, n, t.done)
	}
	t.changed = int(n)
	if b.verb == verbUpdate {
		// A statement that the guard refused is in n, but in neither of these.
		modified, _ := answer.Lookup("nModified").AsInt64OK()
		t.inserted = upserted(answer)
		t.changed = int(modified) + t.inserted
	}
	return t, nil
}

func upserted(answer bson.Raw) int {
	list, ok := answer.Lookup("upserted").ArrayOK()
	if !ok {
		return 0
	}
	values, _ := list.Values() // an answer that breaks off counts for what can be read
	return len(values)
}

// failedWrite tells a command that was refused for the sake of a document in it from the other failures.
func (s *Sink) failedWrite(ctx context.Context, doing string, err error) error {
	var refused mongo.CommandError
	if ctx.Err() == nil && errors.As(err, &refused) && refused.Code != 0 {
		code := int(refused.Code)
		if commandVerdict(code, refused.Message).kind == fault.Poison {
			return fmt.Errorf("%s: %w", doing, &commandRefusedError{code: code, message: refused.Message})
		}
	}
	return s.failed(ctx, doing, err)
}

// isIDPattern says whether an E11000 is about the index on _id: keyPattern is {_id: 1}. It stands in the error itself,
// beside code and errmsg, in MongoDB 6.0.
func isIDPattern(writeError bson.Raw) bool {
	pattern, ok := writeError.Lookup("keyPattern").DocumentOK()
	if !ok {
		return false
	}
	elements, err := pattern.Elements()
	return err == nil && len(elements) == 1 && elements[0].Key() == idField
}
