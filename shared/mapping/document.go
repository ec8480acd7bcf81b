package mapping

import "encoding/binary"

// close ends the document whose length stands at at.
func (p *parser) close(at int) {
	p.dst = append(p.dst, 0)
	putLength(p.dst, at, len(p.dst)-at)
}

// putLength writes a BSON length. Longer ones than it can hold are refused before they are sent, by maxDocument.
func putLength(dst []byte, at, n int) {
	binary.LittleEndian.PutUint32(dst[at:], uint32(n))
}

// find returns the number of the top-level field of a name, none where there is none.
func (p *parser) find(name string) int {
	for i := range p.names.fields {
		f := &p.names.fields[i]
		if f.name == len(name) && f.latest != repeat && string(p.dst[f.start+1:f.start+1+f.name]) == name {
			return i
		}
	}
	return none
}

// arrange brings the top-level fields into their final order, if they are not: front first, without drop.
func (p *parser) arrange(first, front, drop int) {
	if p.moves || front > 0 || drop != none {
		p.reorder(first, front, drop)
	}
}

// reorder writes the fields of an object, which end dst, anew: repeated names once, front first, without drop.
// The starts of the fields are no longer right afterwards.
func (p *parser) reorder(first, front, drop int) {
	fields := p.names.fields[first:]
	spare := p.names.spare[:0]
	if front != none {
		spare = append(spare, p.element(fields, front)...)
	}
	for i := range fields {
		if i != front && i != drop && fields[i].latest != repeat {
			spare = append(spare, p.element(fields, i)...)
		}
	}
	p.dst = append(p.dst[:fields[0].start], spare...)
	p.names.spare = spare
}

// element returns the bytes of the field that stands at a place: the last one of its name.
func (p *parser) element(fields []field, i int) []byte {
	if latest := fields[i].latest; latest > 0 {
		i = latest
	}
	end := len(p.dst)
	if i+1 < len(fields) {
		end = fields[i+1].start
	}
	return p.dst[fields[i].start:end]
}
