package mapping

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// field is one field of an object that is being read.
type field struct {
	start int    // of its element in dst
	name  int    // bytes of its name
	tag   uint64 // the last eight bytes of its name, all of a shorter one
	// latest is the field, counted from the object's first, whose value takes this place; 0 is none, repeat says that
	// the name stood before.
	latest int
}

const repeat = -1

// none stands for no field.
const none = -1

// The top-level fields that are ours to write, numbers in names.found.
const (
	idName = iota
	guardName
	metadataName
	ourNames
)

// fewFields is up to where looking through all names is quicker than a table.
const fewFields = 16

// names finds the names that an object repeats. Objects that are inside one another share the memory.
type names struct {
	seed   maphash.Seed
	fields []field // of all open objects, the outermost first
	// tables are the hash tables of objects with many fields, one a level: field numbers from 1, 0 is free.
	tables [][]int32
	spare  []byte
	// ours are the names of the top-level fields that are ours to write. The last may be "", which none has: its
	// length is none. found are the numbers of the value's own fields of these names, none where it has none.
	ours  [ourNames]ourName
	found [ourNames]int
	// seen has the bits of the tags of an object's few fields, one a level: most names are told to be new by it alone.
	// oursSeen has those of ours.
	seen     [levelSlots]uint64
	oursSeen uint64
}

// levelSlots is a power of two that no level of an object reaches.
const levelSlots = 256

// tagBit returns one of 64 bits that stands for a tag (Knuth, The Art of Computer Programming, section 6.4:
// multiplicative hashing).
func tagBit(tag uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	return 1 << (tag * golden >> 58)
}

type ourName struct {
	text   string
	length int
	tag    uint64
}

func newNames(seed maphash.Seed, o Options) names {
	n := names{seed: seed}
	for i, text := range []string{idName: idField, guardName: o.GuardField, metadataName: o.Metadata} {
		n.ours[i] = ourName{text: text, length: len(text), tag: tagOf([]byte(text), 0, len(text))}
		if text == "" {
			n.ours[i].length = none
			continue
		}
		n.oursSeen |= tagBit(n.ours[i].tag)
	}
	return n
}

// begin forgets the fields of the document before.
func (n *names) begin() {
	n.fields = n.fields[:0]
	for i := range n.found {
		n.found[i] = none
	}
}

// note enters the field whose element, so far only its type and name, begins at start of dst. It says whether the
// name is new in the object, whose fields begin at first.
func (n *names) note(dst []byte, first, start, level int) bool {
	end := len(dst) - 1
	return n.enter(dst, first, level, start, end-start-1, tagOf(dst, start+1, end))
}

// enter is note for a name whose length and tag are known already.
func (n *names) enter(dst []byte, first, level, start, length int, tag uint64) bool {
	number, original := len(n.fields)-first, none
	switch bit := tagBit(tag); {
	case number >= fewFields:
		original = n.lookup(dst, first, level, &field{start: start, name: length, tag: tag})
	case number == 0:
		n.seen[level&(levelSlots-1)] = bit
	case n.seen[level&(levelSlots-1)]&bit == 0:
		n.seen[level&(levelSlots-1)] |= bit
	default:
		original = scan(dst, n.fields[first:], start, length, tag)
	}
	if original != none {
		n.fields[first+original].latest = number
		n.fields = append(n.fields, field{start: start, name: length, tag: tag, latest: repeat})
		return false
	}
	if level == 1 && n.oursSeen&tagBit(tag) != 0 {
		n.noteOurs(dst, number, start, length, tag)
	}
	n.fields = append(n.fields, field{start: start, name: length, tag: tag})
	return true
}

// noteOurs remembers a top-level field whose name is ours.
func (n *names) noteOurs(dst []byte, number, start, length int, tag uint64) {
	for i := range n.ours {
		our := &n.ours[i]
		if our.tag == tag && our.length == length && (length <= 8 || string(dst[start+1:start+1+length]) == our.text) {
			n.found[i] = number
		}
	}
}

// tagOf reads the last eight bytes of the name dst[from:end]. What stands before a shorter one is shifted out.
func tagOf(dst []byte, from, end int) uint64 {
	var last [8]byte
	tail := last[:]
	if end >= 8 {
		tail = dst[end-8 : end]
	} else {
		copy(last[8-end:], dst[:end])
	}
	tag := binary.LittleEndian.Uint64(tail)
	if n := end - from; n < 8 {
		tag >>= 8 * (8 - n)
	}
	return tag
}

// same says whether two fields have one name: short names are their tags.
func same(dst []byte, a, b *field) bool {
	return a.tag == b.tag && a.name == b.name &&
		(a.name <= 8 || bytes.Equal(dst[a.start+1:a.start+1+a.name], dst[b.start+1:b.start+1+b.name]))
}

func scan(dst []byte, fields []field, start, length int, tag uint64) int {
	for i := range fields {
		if f := &fields[i]; f.tag == tag && same(dst, f, &field{start: start, name: length, tag: tag}) && f.latest != repeat {
			return i
		}
	}
	return none
}

// lookup finds the field by table, and enters it where it is new. Tables are at most half full, and their hash has a
// random seed, so that no choice of names makes them slow.
func (n *names) lookup(dst []byte, first, level int, f *field) int {
	for len(n.tables) <= level {
		n.tables = append(n.tables, nil)
	}
	fields := n.fields[first:]
	if len(fields) == fewFields {
		n.build(dst, fields, level, 4*fewFields)
	} else if 2*len(fields) >= len(n.tables[level]) {
		n.build(dst, fields, level, 2*len(n.tables[level]))
	}
	table := n.tables[level]
	slot := n.slot(dst, f, table)
	for ; table[slot] != 0; slot = (slot + 1) & (len(table) - 1) {
		if i := int(table[slot]) - 1; same(dst, &fields[i], f) {
			return i
		}
	}
	table[slot] = int32(len(fields)) + 1
	return none
}

// build makes the table of a level anew from the fields of its object.
func (n *names) build(dst []byte, fields []field, level, size int) {
	table := n.tables[level]
	if cap(table) < size {
		table = make([]int32, size)
	} else {
		table = table[:size]
		clear(table)
	}
	for i := range fields {
		if fields[i].latest == repeat {
			continue
		}
		slot := n.slot(dst, &fields[i], table)
		for table[slot] != 0 {
			slot = (slot + 1) & (len(table) - 1)
		}
		table[slot] = int32(i) + 1
	}
	n.tables[level] = table
}

// slot returns where to begin to look for a field. The sizes of tables are powers of two.
func (n *names) slot(dst []byte, f *field, table []int32) int {
	hash := maphash.Bytes(n.seed, dst[f.start+1:f.start+1+f.name])
	return int(hash & uint64(len(table)-1))
}

// trim drops memory that a rare large object needed.
func (n *names) trim() {
	const keepFields, keepTables, keepSpare = 4 << 10, 16, 256 << 10
	n.fields = n.fields[:0]
	if cap(n.fields) > keepFields || len(n.tables) > keepTables {
		n.fields, n.tables = nil, nil
	}
	if cap(n.spare) > keepSpare {
		n.spare = nil
	}
}
