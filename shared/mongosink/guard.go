package mongosink

import (
	"cmp"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/record"
)

// The fields of a guard, as package mapping writes them.
const (
	guardTopic       = "topic"
	guardIncarnation = "incarnation"
	guardRewrite     = "rewrite"
	guardPartition   = "partition"
	guardOffset      = "offset"
	guardTimestamp   = "timestamp"
)

// newer is the order of all records of one key: the higher incarnation, then the higher rewrite; within them the higher
// offset of one partition, and between partitions the higher timestamp, on a tie the higher (topic, partition). It has
// one newest record for every order of delivery because the timestamp that is stored is the highest of the partition
// so far: the plain timestamps of three partitions can run in a circle. The server has the same rule in newerExpression.
func newer(own, stored record.Guard) bool {
	if c := cmp.Or(cmp.Compare(own.Incarnation, stored.Incarnation), cmp.Compare(own.Rewrite, stored.Rewrite)); c != 0 {
		return c > 0
	}
	if samePartition(own, stored) {
		return own.Offset > stored.Offset
	}
	return cmp.Or(cmp.Compare(own.Timestamp, stored.Timestamp), cmp.Compare(own.Topic, stored.Topic),
		cmp.Compare(own.Partition, stored.Partition)) > 0
}

// samePartition says whether the offsets of two guards compare.
func samePartition(a, b record.Guard) bool {
	return a.Incarnation == b.Incarnation && a.Rewrite == b.Rewrite && a.Topic == b.Topic && a.Partition == b.Partition
}

// lifted returns own with the timestamp that the rule gives it behind stored.
func lifted(own, stored record.Guard) record.Guard {
	if samePartition(own, stored) {
		own.Timestamp = max(own.Timestamp, stored.Timestamp)
	}
	return own
}

// readOrder reads a guard with all that newer compares.
func readOrder(v bson.RawValue) (record.Guard, bool) {
	o, ok := readGuard(v)
	if !ok {
		return record.Guard{}, false
	}
	doc := v.Document()
	rewrite, hasRewrite := doc.Lookup(guardRewrite).AsInt64OK()
	timestamp, hasTimestamp := doc.Lookup(guardTimestamp).AsInt64OK()
	return record.Guard{
		Topic: o.topic, Incarnation: o.incarnation, Rewrite: rewrite, Partition: int32(o.partition), Offset: o.offset, Timestamp: timestamp,
	}, hasRewrite && hasTimestamp
}

// appendGuard appends the guard as an element.
func appendGuard(dst []byte, name string, g record.Guard) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, name)
	dst = bsoncore.AppendStringElement(dst, guardTopic, g.Topic)
	dst = bsoncore.AppendInt64Element(dst, guardIncarnation, g.Incarnation)
	dst = bsoncore.AppendInt64Element(dst, guardRewrite, g.Rewrite)
	dst = bsoncore.AppendInt32Element(dst, guardPartition, g.Partition)
	dst = bsoncore.AppendInt64Element(dst, guardOffset, g.Offset)
	dst = bsoncore.AppendInt64Element(dst, guardTimestamp, g.Timestamp)
	return endDocument(dst, start)
}

// The variables that the expressions below use.
const (
	ownVariable   = "own"   // the guard of the record
	docVariable   = "doc"   // its document
	fenceVariable = "fence" // when the lease ends, less the time that a command may take
)

func expression(operator string, operands ...any) bson.D {
	return bson.D{{Key: operator, Value: bson.A(operands)}}
}

func only(operator string, operand any) bson.D { return bson.D{{Key: operator, Value: operand}} }

// newerExpression is newer for the server, of $$own against the guard stored in the field. A document without a guard
// that can be read is older than any record. Numbers are compared by value, since a program that rewrites a document
// may store a long as a double.
func newerExpression(guardField string) bson.D {
	stored, own := fieldsOf("$"+guardField), fieldsOf("$$"+ownVariable)
	readable := bson.A{expression("$eq", only("$type", stored(guardTopic)[0]), "string")}
	for _, name := range []string{guardIncarnation, guardRewrite, guardPartition, guardOffset, guardTimestamp} {
		readable = append(readable, only("$isNumber", stored(name)[0]))
	}
	epoch := []string{guardIncarnation, guardRewrite}
	partition := []string{guardTopic, guardPartition}
	clock := []string{guardTimestamp, guardTopic, guardPartition}
	return expression("$or",
		only("$not", bson.A{only("$and", readable)}),
		expression("$lt", stored(epoch...), own(epoch...)),
		expression("$and",
			expression("$eq", stored(epoch...), own(epoch...)),
			expression("$cond",
				expression("$eq", stored(partition...), own(partition...)),
				expression("$lt", stored(guardOffset)[0], own(guardOffset)[0]),
				expression("$lt", stored(clock...), own(clock...)))))
}

// guardExpression is the guard to store where the record is newer: lifted for the server.
func guardExpression(guardField string) bson.D {
	stored, own := fieldsOf("$"+guardField), fieldsOf("$$"+ownVariable)
	partition := []string{guardIncarnation, guardRewrite, guardTopic, guardPartition}
	return expression("$mergeObjects", "$$"+ownVariable, bson.D{{Key: guardTimestamp, Value: expression("$cond",
		expression("$and",
			only("$isNumber", stored(guardTimestamp)[0]),
			expression("$eq", stored(partition...), own(partition...))),
		expression("$max", stored(guardTimestamp)[0], own(guardTimestamp)[0]),
		own(guardTimestamp)[0])}})
}

func fieldsOf(guard string) func(names ...string) bson.A {
	return func(names ...string) bson.A {
		paths := make(bson.A, len(names))
		for i, name := range names {
			paths[i] = guard + "." + name
		}
		return paths
	}
}

// programs are what the server runs for each record, encoded once.
type programs struct {
	put      []byte // the pipeline that puts a document, an array
	deletion []byte // the pipeline that stores the guard of a deletion
	remove   []byte // the condition under which a document is deleted, an expression
}

// encodePrograms encodes the pipelines of a sink. An error is a mistake in this file.
func encodePrograms(o Options) (programs, error) {
	newer, guard := newerExpression(o.GuardField), bson.D{{Key: o.GuardField, Value: guardExpression(o.GuardField)}}
	parts := bson.A{"$$" + docVariable, guard}
	if o.Mode == record.Update {
		parts = bson.A{"$$ROOT", "$$" + docVariable, guard}
	}
	put := expression("$cond", newer, only("$mergeObjects", parts), "$$ROOT")
	if o.Deletes {
		put = fenced(put)
	}
	expire := bson.D{{Key: expireField, Value: expression("$add", "$$NOW", o.retention().Milliseconds())}}
	deletion := expression("$cond", newer, expression("$mergeObjects", "$$"+docVariable, guard, expire), "$$ROOT")

	var p programs
	for _, x := range []struct {
		dst   *[]byte
		value any
	}{
		{&p.put, bson.A{only("$replaceWith", put)}},
		{&p.deletion, bson.A{only("$replaceWith", deletion)}},
		{&p.remove, newer},
	} {
		_, encoded, err := bson.MarshalValue(x.value)
		if err != nil {
			return programs{}, fmt.Errorf("encoding the program of mode %s: %w", o.Mode, err)
		}
		*x.dst = encoded
	}
	return p, nil
}
