package mapping

import (
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// genericSubtype is that of a binary whose content is not told (BSON specification 1.1).
const genericSubtype = 0x00

// close ends the document whose length stands at at.
func (p *parser) close(at int) {
	p.dst = append(p.dst, 0)
	putLength(p.dst, at, len(p.dst)-at)
}

// putLength writes a BSON length. Longer ones than it can hold are refused before they are sent, by maxDocument.
func putLength(dst []byte, at, n int) {
	binary.LittleEndian.PutUint32(dst[at:], uint32(n))
}

// drop takes a top-level field out that is ours to write, if the value has it.
func (p *parser) drop(which int) {
	if i := p.names.found[which]; i != none {
		p.names.fields[i].latest = repeat
		p.moves = true
	}
}

// arrange brings the top-level fields into their final order, if they are not: front first, then what is not dropped.
func (p *parser) arrange(front []byte) {
	if p.moves || front != nil {
		p.reorder(0, front)
	}
}

// reorder writes the fields of an object, which end dst, anew: front first, then each name once.
// The starts of the fields are no longer right afterwards.
func (p *parser) reorder(first int, front []byte) {
	fields := p.names.fields[first:]
	spare := append(p.names.spare[:0], front...)
	for i := range fields {
		if fields[i].latest != repeat {
			spare = append(spare, p.element(fields, i)...)
		}
	}
	if len(fields) > 0 {
		p.dst = p.dst[:fields[0].start]
	}
	p.dst = append(p.dst, spare...)
	p.names.spare = spare
}

// element returns the bytes of the field that stands at a place: the last one of its name.
func (p *parser) element(fields []field, i int) []byte { return p.elementTo(fields, i, len(p.dst)) }

// elementTo is element where more follows the fields, which end at end.
func (p *parser) elementTo(fields []field, i, end int) []byte {
	if latest := fields[i].latest; latest > 0 {
		i = latest
	}
	if i+1 < len(fields) {
		end = fields[i+1].start
	}
	return p.dst[fields[i].start:end]
}

// nameOf returns the name of a field.
func (p *parser) nameOf(f *field) []byte { return p.dst[f.start+1 : f.start+1+f.name] }

// appendIndex appends the type and name of an element of an array.
func appendIndex(dst []byte, t bsoncore.Type, i int64) []byte {
	if i < 10 {
		return append(dst, byte(t), '0'+byte(i), 0)
	}
	dst = append(dst, byte(t))
	dst = strconv.AppendInt(dst, i, 10)
	return append(dst, 0)
}

// appendString appends the value of a string.
func appendString(dst, text []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)+1))
	dst = append(dst, text...)
	return append(dst, 0)
}
