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

// arena hands out memory for documents. It cuts small ones from a common chunk, because an allocation for each would
// cost a tenth of the conversion, and never uses again what it cut.
type arena struct {
	chunk []byte // used up to its length
}

const chunkSize = 64 << 10

// room returns an empty slice that a document of about so many bytes of JSON fits into.
func (a *arena) room(value int) []byte {
	need := value + value/4 + 512
	if need > chunkSize/4 {
		return make([]byte, 0, need)
	}
	if cap(a.chunk)-len(a.chunk) < need {
		a.chunk = make([]byte, 0, chunkSize)
	}
	return a.chunk[len(a.chunk):]
}

// keep gives up what was built in a room, from start on, to the caller. What was built in no chunk, or grew out of it,
// has memory of its own; where much of that is left over it is copied, since it may wait long for its turn.
func (a *arena) keep(built []byte, start int) []byte {
	doc := built[start:len(built):len(built)]
	free := a.chunk[len(a.chunk):cap(a.chunk)]
	switch {
	case len(free) > 0 && &built[0] == &free[0]:
		a.chunk = a.chunk[:len(a.chunk)+len(built)]
	case cap(built) > len(doc)+len(doc)/2:
		return append(make([]byte, 0, len(doc)), doc...)
	}
	return doc
}
