package mapping

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/record"
)

// appendCoordinates appends the _id element of a record without an own _id: "topic/partition/offset", and
// "topic@1/partition/offset" from the second incarnation on. "@" cannot stand in a topic's name.
func appendCoordinates(dst []byte, g record.Guard) []byte {
	dst = append(dst, byte(bsoncore.TypeString), '_', 'i', 'd', 0)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, g.Topic...)
	if g.Incarnation > 0 {
		dst = append(dst, '@')
		dst = strconv.AppendInt(dst, g.Incarnation, 10)
	}
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, int64(g.Partition), 10)
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, g.Offset, 10)
	dst = append(dst, 0)
	putLength(dst, at, len(dst)-at-4)
	return dst
}

// appendGuard appends the guard as an element. Its fields, their types and their order are a promise: stored guards
// are compared by the server.
func appendGuard(dst []byte, name string, g record.Guard) []byte {
	dst = append(dst, byte(bsoncore.TypeEmbeddedDocument))
	dst = append(dst, name...)
	dst = append(dst, 0)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = bsoncore.AppendStringElement(dst, "topic", g.Topic)
	dst = bsoncore.AppendInt64Element(dst, "incarnation", g.Incarnation)
	dst = bsoncore.AppendInt64Element(dst, "rewrite", g.Rewrite)
	dst = bsoncore.AppendInt32Element(dst, "partition", g.Partition)
	dst = bsoncore.AppendInt64Element(dst, "offset", g.Offset)
	dst = bsoncore.AppendInt64Element(dst, "timestamp", g.Timestamp)
	dst = append(dst, 0)
	putLength(dst, at, len(dst)-at)
	return dst
}
