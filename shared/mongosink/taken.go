package mongosink

import (
	"context"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/record"
)

const idField = "_id"

// taken is a document that was refused because one of its keys is taken. Its own _id is looked up whichever index the
// server complained of: a record that comes again violates every unique index at once, and which one is named first is
// not promised.
type taken struct {
	index   int
	byID    bool
	message string
	id      bson.RawValue

	found bool
	exact bool          // the stored document's _id has the same bytes
	guard bson.RawValue // of that document, zero where it has none
}

func newTaken(index int, f refusal, doc []byte) taken {
	return taken{index: index, byID: f.byID, message: f.message, id: bson.Raw(doc).Lookup(idField)}
}

// maxLookUpBytes bounds the ids of one find: an _id may be as large as a document.
const maxLookUpBytes = 8 << 20

// lookUp reads the guards of the documents in the collection that hold the ids. Reading with majority sees what the refused insert ran
// into, because that insert waited for a majority too.
func (s *Sink) lookUp(ctx context.Context, name string, all []taken) error {
	collection, err := s.reading(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	for from := 0; from < len(all); {
		to, size := from, 0
		for to < len(all) && (to == from || size+len(all[to].id.Value) <= maxLookUpBytes) {
			size += len(all[to].id.Value) + elementOverhead
			to++
		}
		if err := s.findGuards(ctx, collection, all[from:to]); err != nil {
			return s.failed(ctx, "looking up "+strconv.Itoa(len(all))+" taken ids in "+s.options.Database+"."+name, err)
		}
		from = to
	}
	return nil
}

// reading returns a collection whose finds see what a majority acknowledged.
func (s *Sink) reading(ctx context.Context, name string) (*mongo.Collection, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return client.Database(s.options.Database).Collection(name,
		options.Collection().SetReadConcern(readconcern.Majority()).SetReadPreference(readpref.Primary())), nil
}

// findAll shows visit the _id and guard of each document that has one of the ids.
func (s *Sink) findAll(ctx context.Context, name string, ids []bson.RawValue, visit func(id, guard bson.RawValue)) error {
	collection, err := s.reading(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	for from := 0; from < len(ids); {
		to, size := from, 0
		for to < len(ids) && (to == from || size+len(ids[to].Value) <= maxLookUpBytes) {
			size += len(ids[to].Value) + elementOverhead
			to++
		}
		if err := s.eachGuard(ctx, collection, inFilter(ids[from:to]), visit); err != nil {
			return s.failed(ctx, "looking up "+strconv.Itoa(len(ids))+" keys in "+s.options.Database+"."+name, err)
		}
		from = to
	}
	return nil
}

func (s *Sink) findGuards(ctx context.Context, collection *mongo.Collection, all []taken) error {
	byID := make(map[string][]int, len(all))
	ids := make([]bson.RawValue, 0, len(all))
	for i, t := range all {
		key := idKey(t.id)
		if byID[key] == nil {
			ids = append(ids, t.id)
		}
		byID[key] = append(byID[key], i)
	}
	// Regular expressions and documents with $ names would be operators in $in, but the server stores neither as _id,
	// so none can be taken.
	err := s.eachGuard(ctx, collection, inFilter(ids), func(id, guard bson.RawValue) {
		for _, i := range byID[idKey(id)] {
			all[i].found, all[i].exact, all[i].guard = true, true, guard
		}
	})
	if err != nil {
		return err
	}
	// MongoDB compares ids by value, so 1 is taken by 1.0, and by the collation of a collection that was created after it
	// was inspected; the stored one then has other bytes. It is no proof, whatever its guard says: two coordinates may be
	// equal by collation.
	for i := range all {
		if all[i].found || !all[i].byID {
			continue
		}
		err := s.eachGuard(ctx, collection, equalFilter(all[i].id), func(id, guard bson.RawValue) {
			all[i].found = true
			if idKey(id) == idKey(all[i].id) { // it came meanwhile
				all[i].exact, all[i].guard = true, guard
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func idKey(id bson.RawValue) string { return string(rune(id.Type)) + string(id.Value) }

func (s *Sink) eachGuard(ctx context.Context, collection *mongo.Collection, filter bson.Raw, visit func(id, guard bson.RawValue)) error {
	only := bson.D{{Key: s.options.GuardField, Value: 1}}
	cursor, err := collection.Find(ctx, filter, options.Find().SetProjection(only))
	if err != nil {
		return err //nolint:wrapcheck // classified by lookUp
	}
	defer func() {
		// A server that stopped answering must not keep us beyond ctx; it ends idle cursors by itself.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_ = cursor.Close(bounded)
	}()
	for cursor.Next(ctx) {
		doc := slices.Clone(cursor.Current)
		visit(doc.Lookup(idField), doc.Lookup(s.options.GuardField))
	}
	return cursor.Err() //nolint:wrapcheck // classified by lookUp
}

func inFilter(ids []bson.RawValue) bson.Raw {
	filter, dst := bsoncore.AppendDocumentStart(nil)
	field, dst := bsoncore.AppendDocumentElementStart(dst, idField)
	array, dst := bsoncore.AppendArrayElementStart(dst, "$in")
	for i, id := range ids {
		dst = appendValue(dst, strconv.Itoa(i), id)
	}
	return endDocument(endDocument(endDocument(dst, array), field), filter)
}

func equalFilter(id bson.RawValue) bson.Raw {
	filter, dst := bsoncore.AppendDocumentStart(nil)
	return endDocument(appendEqual(dst, id), filter)
}

// appendEqual appends the element _id: {$eq: id}.
func appendEqual(dst []byte, id bson.RawValue) []byte {
	field, dst := bsoncore.AppendDocumentElementStart(dst, idField)
	return endDocument(appendValue(dst, "$eq", id), field)
}

func appendValue(dst []byte, key string, v bson.RawValue) []byte {
	return append(bsoncore.AppendHeader(dst, bsoncore.Type(v.Type), key), v.Value...)
}

// sameRecord says whether the stored document came from the same record, whose _id always has the same bytes.
//
// An _id of the record's own proves nothing, so the guard must be there and name the record. An _id made of coordinates
// is proof where the stored document has no guard, because such documents have none; a guard of another record means
// that a record brought these coordinates along as its own _id.
func (t taken) sameRecord(w record.Write) bool {
	if !t.exact {
		return false
	}
	stored, ok := readGuard(t.guard)
	if ok {
		return stored == origin{w.Guard.Topic, w.Guard.Incarnation, int64(w.Guard.Partition), w.Guard.Offset}
	}
	return !w.OwnID && t.guard.IsZero()
}

// origin is the part of a guard that names a record.
type origin struct {
	topic                          string
	incarnation, partition, offset int64
}

func readGuard(v bson.RawValue) (origin, bool) {
	doc, ok := v.DocumentOK()
	if !ok {
		return origin{}, false
	}
	var o origin
	fields := []bool{false, false, false, false}
	o.topic, fields[0] = doc.Lookup(guardTopic).StringValueOK()
	o.incarnation, fields[1] = doc.Lookup(guardIncarnation).AsInt64OK()
	o.partition, fields[2] = doc.Lookup(guardPartition).AsInt64OK()
	o.offset, fields[3] = doc.Lookup(guardOffset).AsInt64OK()
	return o, !slices.Contains(fields, false)
}
