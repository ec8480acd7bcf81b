package mongosink

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// maxInline is how many raw bytes (key, value and headers) stand in the letter itself. What is larger is cut into
	// parts of this size. It is a promise: parts that were written before must be the same when they are written again.
	maxInline = 8 << 20
	maxReason = 1 << 10
)

// Bury implements pull.Sink. A letter's _id is "pipeline:topic/partition/offset", with "topic@n" from the second
// incarnation on. It is made of coordinates only, so that burying again finds it taken, and begins with the pipeline,
// because two pipelines that share the collection may refuse the same record for different reasons. A topic's name
// holds no ":", so the last one ends the pipeline.
//
// A large record is stored in parts, documents of their own: "<_id>#1", "<_id>#2" and so on. They go first, and the
// letter itself, with the number of parts, their size and sha256, goes last: a letter that is there is complete.
func (s *Sink) Bury(ctx context.Context, run string, letters []record.DeadLetter) error {
	if err := ctx.Err(); err != nil {
		return s.failed(ctx, s.burying(len(letters)), err)
	}
	at := time.Now()
	docs := make([][]byte, len(letters))
	for i, letter := range letters {
		id := s.letterID(letter)
		raw := appendRaw(nil, letter.Record)
		if len(raw) > maxInline {
			if err := s.buryParts(ctx, id, raw); err != nil {
				return err
			}
			raw = appendSummary(nil, raw)
		}
		docs[i] = s.appendLetter(id, run, at, letter, raw)
	}
	return s.store(ctx, docs)
}

func (s *Sink) burying(n int) string {
	return fmt.Sprintf("writing %d dead letters to %s.%s", n, s.options.Database, s.options.DeadLetters)
}

// store inserts documents whose _id says what is in them, so that one that is there already is a success.
func (s *Sink) store(ctx context.Context, docs [][]byte) error {
	refused, err := s.insert(ctx, s.options.DeadLetters, len(docs), func(i int) []byte { return docs[i] })
	if err != nil {
		return err
	}
	var ids []taken
	for _, r := range refused {
		if r.code == codeDuplicateKey && r.byID {
			ids = append(ids, newTaken(r.index, r, docs[r.index]))
			continue
		}
		// Nothing is left to do with a letter that cannot be kept but to stop in front of its record.
		v := writeVerdict(r.code)
		if v.kind == fault.Poison {
			return fault.Fatalf(classLetterRefused, "%s: MongoDB refused a dead letter (code %d): the collection must have no "+
				"validator and no unique index but that on _id", s.burying(len(docs)), r.code)
		}
		return s.refusedWrite(s.burying(len(docs)), r.code, v)
	}
	return s.alreadyBuried(ctx, ids, len(docs))
}

// alreadyBuried makes sure that what holds the ids are the letters themselves: E11000 says only that the server takes
// some other _id for the same.
func (s *Sink) alreadyBuried(ctx context.Context, ids []taken, n int) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.lookUp(ctx, s.options.DeadLetters, ids); err != nil {
		return err
	}
	for _, t := range ids {
		switch {
		case t.exact:
		case t.found:
			return fault.Fatalf(classLetterRefused, "%s: MongoDB takes another _id for that of a dead letter: the collection must "+
				"have no default collation: name another one in deadLetters.collection", s.burying(n))
		default:
			return fault.Transientf("%s: a dead letter found its _id taken and nothing under it: is another program deleting in "+
				"the collection?", s.burying(n))
		}
	}
	return nil
}

func (s *Sink) buryParts(ctx context.Context, id string, raw []byte) error {
	for n, from := 1, 0; from < len(raw); n, from = n+1, from+maxInline {
		start, doc := bsoncore.AppendDocumentStart(nil)
		doc = bsoncore.AppendStringElement(doc, idField, id+"#"+strconv.Itoa(n))
		doc = bsoncore.AppendStringElement(doc, "partOf", id)
		doc = bsoncore.AppendInt32Element(doc, "part", int32(n))
		doc = bsoncore.AppendBinaryElement(doc, "data", 0, raw[from:min(from+maxInline, len(raw))])
		if err := s.store(ctx, [][]byte{endDocument(doc, start)}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) letterID(l record.DeadLetter) string {
	topic := l.Record.Partition.Topic
	if l.Incarnation > 0 {
		topic += "@" + strconv.FormatInt(l.Incarnation, 10)
	}
	return fmt.Sprintf("%s:%s/%d/%d", s.options.Pipeline, topic, l.Record.Partition.ID, l.Record.Offset)
}

func (s *Sink) appendLetter(id, run string, at time.Time, l record.DeadLetter, raw []byte) []byte {
	start, doc := bsoncore.AppendDocumentStart(nil)
	doc = bsoncore.AppendStringElement(doc, idField, id)
	doc = bsoncore.AppendStringElement(doc, "pipeline", s.options.Pipeline)
	doc = bsoncore.AppendStringElement(doc, "topic", l.Record.Partition.Topic)
	doc = bsoncore.AppendInt64Element(doc, "incarnation", l.Incarnation)
	doc = bsoncore.AppendInt32Element(doc, "partition", l.Record.Partition.ID)
	doc = bsoncore.AppendInt64Element(doc, "offset", l.Record.Offset)
	doc = bsoncore.AppendDateTimeElement(doc, "timestamp", l.Record.Timestamp)
	doc = append(doc, raw...)
	doc = bsoncore.AppendStringElement(doc, "class", l.Class)
	doc = bsoncore.AppendStringElement(doc, "reason", cut(oneLine(l.Reason), maxReason))
	doc = bsoncore.AppendStringElement(doc, "run", run)
	doc = bsoncore.AppendDateTimeElement(doc, "at", at.UnixMilli())
	return endDocument(doc, start)
}

// appendRaw appends the record as it came, as elements of a BSON document: key and value are binary or null. A header's
// key is a string, or binary where it is not UTF-8.
func appendRaw(dst []byte, r record.Record) []byte {
	dst = appendBytes(dst, "key", r.Key)
	dst = appendBytes(dst, "value", r.Value)
	array, dst := bsoncore.AppendArrayElementStart(dst, "headers")
	for i, h := range r.Headers {
		var header int32
		header, dst = bsoncore.AppendDocumentElementStart(dst, strconv.Itoa(i))
		if utf8.ValidString(h.Key) {
			dst = bsoncore.AppendStringElement(dst, "key", h.Key)
		} else {
			dst = bsoncore.AppendBinaryElement(dst, "key", 0, []byte(h.Key))
		}
		dst = appendBytes(dst, "value", h.Value)
		dst = endDocument(dst, header)
	}
	return endDocument(dst, array)
}

func appendBytes(dst []byte, name string, b []byte) []byte {
	if b == nil {
		return bsoncore.AppendNullElement(dst, name)
	}
	return bsoncore.AppendBinaryElement(dst, name, 0, b)
}

// appendSummary stands in the letter in place of the raw elements: their parts, joined in order, have this size and
// sha256 and are the elements key, value and headers of a BSON document.
func appendSummary(dst, raw []byte) []byte {
	sum := sha256.Sum256(raw)
	dst = bsoncore.AppendInt32Element(dst, "parts", int32((len(raw)+maxInline-1)/maxInline))
	dst = bsoncore.AppendInt64Element(dst, "size", int64(len(raw)))
	return bsoncore.AppendBinaryElement(dst, "sha256", 0, sum[:])
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// cut shortens valid UTF-8 to at most n bytes, never inside a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
