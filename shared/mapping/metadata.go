package mapping

import (
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/tidemark/tidemark/shared/record"
)

// appendMetadata appends the metadata as an element. Its fields, their types and their order are a promise.
func (m *Mapper) appendMetadata(p *parser, rec record.Record) {
	p.dst = append(p.dst, byte(bsoncore.TypeEmbeddedDocument))
	p.dst = append(p.dst, m.o.Metadata...)
	p.dst = append(p.dst, 0)
	at := len(p.dst)
	p.dst = append(p.dst, 0, 0, 0, 0)
	p.dst = bsoncore.AppendStringElement(p.dst, "topic", rec.Partition.Topic)
	p.dst = bsoncore.AppendInt32Element(p.dst, "partition", rec.Partition.ID)
	p.dst = bsoncore.AppendInt64Element(p.dst, "offset", rec.Offset)
	p.dst = bsoncore.AppendDateTimeElement(p.dst, "timestamp", rec.Timestamp)
	m.appendMetadataKey(p, rec.Key)
	p.dst = bsoncore.AppendHeader(p.dst, bsoncore.TypeArray, "headers")
	list := len(p.dst)
	p.dst = append(p.dst, 0, 0, 0, 0)
	for i, header := range rec.Headers {
		p.dst = appendIndex(p.dst, bsoncore.TypeEmbeddedDocument, int64(i))
		one := len(p.dst)
		p.dst = append(p.dst, 0, 0, 0, 0)
		p.dst = appendText(p.dst, "key", []byte(header.Key))
		p.dst = appendText(p.dst, "value", header.Value)
		p.close(one)
	}
	p.close(list)
	p.close(at)
}

// appendMetadataKey appends the key as the keyFormat converts it. One that cannot be converted is kept as it came: the
// metadata tells what the record was, and refuses none.
func (m *Mapper) appendMetadataKey(p *parser, key []byte) {
	at := len(p.dst)
	if key != nil {
		p.dst = bsoncore.AppendHeader(p.dst, bsoncore.TypeNull, "key")
		// The level of a document in it: below the document and the metadata.
		if p.key(m.o.KeyFormat, key, at, 3) == nil {
			return
		}
		p.dst = p.dst[:at]
		p.dst = bsoncore.AppendBinaryElement(p.dst, "key", genericSubtype, key)
		return
	}
	p.dst = bsoncore.AppendNullElement(p.dst, "key")
}

// appendText appends bytes as a string where they are UTF-8, else as binary, and nil as null.
func appendText(dst []byte, name string, text []byte) []byte {
	switch {
	case text == nil:
		return bsoncore.AppendNullElement(dst, name)
	case utf8.Valid(text):
		dst = bsoncore.AppendHeader(dst, bsoncore.TypeString, name)
		return appendString(dst, text)
	}
	return bsoncore.AppendBinaryElement(dst, name, genericSubtype, text)
}
