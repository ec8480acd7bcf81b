package mongosink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

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

// refusal is what a server said against one document of a command.
type refusal struct {
	index   int
	code    int
	message string // may hold values of the document
	// byID is true where the key that was taken is the _id.
	byID bool
}

// insert sends n documents in as few commands as the limits allow. With a nil error a majority holds every document
// that is not among the refused.
func (s *Sink) insert(ctx context.Context, collection string, n int, doc func(int) []byte) ([]refusal, error) {
	var all []refusal
	for from := 0; from < n; {
		to, size := from, commandOverhead(collection)
		for to < n && to-from < maxCommandDocuments {
			size += len(doc(to)) + elementOverhead
			if to > from && size > maxCommandBytes {
				break
			}
			to++
		}
		refused, err := s.insertRange(ctx, collection, from, to, doc)
		if err != nil {
			return nil, err
		}
		all = append(all, refused...)
		from = to
	}
	return all, nil
}

// elementOverhead is the type byte and the index of a document in the array: at most five digits and a zero byte.
const elementOverhead = 7

func commandOverhead(collection string) int { return 128 + len(collection) }

// insertRange sends one command. Where the server refuses it as a whole for the sake of a document, it goes on with the
// halves until the document stands alone.
func (s *Sink) insertRange(ctx context.Context, collection string, from, to int, doc func(int) []byte) ([]refusal, error) {
	refused, err := s.insertCommand(ctx, collection, from, to, doc)
	if err == nil {
		return refused, nil
	}
	var whole *commandRefusedError
	if !errors.As(err, &whole) {
		return nil, err
	}
	if to-from == 1 {
		return []refusal{{index: from, code: whole.code, message: whole.message}}, nil
	}
	middle := from + (to-from)/2
	left, err := s.insertRange(ctx, collection, from, middle, doc)
	if err != nil {
		return nil, err
	}
	right, err := s.insertRange(ctx, collection, middle, to, doc)
	if err != nil {
		return nil, err
	}
	return append(left, right...), nil
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

func (s *Sink) insertCommand(ctx context.Context, collection string, from, to int, doc func(int) []byte) ([]refusal, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	buf, _ := s.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	*buf = appendInsert((*buf)[:0], collection, from, to, doc)

	// The deadline is also what the driver makes maxTimeMS of.
	bounded, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	answer, err := client.Database(s.options.Database).RunCommand(bounded, bson.Raw(*buf)).Raw()
	if cap(*buf) <= maxKeptBuffer {
		s.buffers.Put(buf)
	}
	doing := s.doing(to - from)
	if collection != s.options.Collection {
		doing = "writing " + strconv.Itoa(to-from) + " dead letters to " + s.options.Database + "." + collection
	}
	return s.readAnswer(ctx, doing, from, to, answer, err)
}

func appendInsert(dst []byte, collection string, from, to int, doc func(int) []byte) []byte {
	size := commandOverhead(collection)
	for i := from; i < to; i++ {
		size += len(doc(i)) + elementOverhead
	}
	command, dst := bsoncore.AppendDocumentStart(slices.Grow(dst, size))
	dst = bsoncore.AppendStringElement(dst, "insert", collection)
	array, dst := bsoncore.AppendArrayElementStart(dst, "documents")
	for i := from; i < to; i++ {
		dst = append(dst, byte(bsoncore.TypeEmbeddedDocument))
		dst = strconv.AppendInt(dst, int64(i-from), 10)
		dst = append(dst, 0)
		dst = append(dst, doc(i)...)
	}
	dst = endDocument(dst, array)
	dst = bsoncore.AppendBooleanElement(dst, "ordered", false)
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

// readAnswer checks that the server accounts for every document. RunCommand reports writeErrors and writeConcernError
// of an answer with ok: 1 as a WriteException that holds the answer, anything else as a CommandError.
func (s *Sink) readAnswer(ctx context.Context, doing string, from, to int, answer bson.Raw, err error) ([]refusal, error) {
	var exception mongo.WriteException
	switch {
	case err == nil:
	case !errors.As(err, &exception):
		return nil, s.failedInsert(ctx, doing, err)
	case exception.WriteConcernError != nil:
		return nil, fault.Transientf("%s: a majority did not acknowledge them (code %d, %s): all will be sent again", doing,
			exception.WriteConcernError.Code, exception.WriteConcernError.Name)
	default:
		answer = exception.Raw
	}
	refused := make([]refusal, 0, len(exception.WriteErrors))
	for _, e := range exception.WriteErrors {
		if e.Index < 0 || e.Index >= to-from {
			return nil, fault.Transientf("%s: the server reports an error for document %d", doing, e.Index)
		}
		refused = append(refused, refusal{index: from + e.Index, code: e.Code, message: e.Message, byID: isIDPattern(e.Raw)})
	}
	stored, ok := answer.Lookup("n").AsInt64OK()
	if want := int64(to - from - len(refused)); !ok || stored != want {
		return nil, fault.Transientf("%s: the server acknowledged %d, expected %d", doing, stored, want)
	}
	return refused, nil
}

// failedInsert tells a command that was refused for the sake of a document in it from the other failures.
func (s *Sink) failedInsert(ctx context.Context, doing string, err error) error {
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
