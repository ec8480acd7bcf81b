package record

// Arena hands out memory for documents and takes all of it back at once. Small documents are cut from
// common blocks: an allocation for each costs a tenth of a conversion, and clearing and collecting the blocks as much
// again, so that they are used again. The zero value is ready. It is not safe for concurrent use.
type Arena struct {
	blocks [][]byte // those before current are used up
	// current is the block that is being cut, up to its length.
	current int
}

const (
	arenaBlock = 64 << 10
	// arenaKept bounds what an arena holds on to after a Reset.
	arenaKept = (512 << 10) / arenaBlock
)

// Room returns an empty slice with room for n bytes. What is built in it counts only once it is given to Keep, and
// before the next Room.
func (a *Arena) Room(n int) []byte {
	if n > arenaBlock/4 {
		return make([]byte, 0, n)
	}
	if a.current < len(a.blocks) && cap(a.blocks[a.current])-len(a.blocks[a.current]) < n {
		a.current++
	}
	if a.current == len(a.blocks) {
		a.blocks = append(a.blocks, make([]byte, 0, arenaBlock))
	}
	block := a.blocks[a.current]
	return block[len(block):]
}

// Keep returns what was built in a Room, from start on, and promises to leave it alone until Reset. What grew out of its
// room has memory of its own; where much of that is left over it is copied, since it may wait long for its turn.
func (a *Arena) Keep(built []byte, start int) []byte {
	kept := built[start:len(built):len(built)]
	if a.current < len(a.blocks) && len(built) > 0 {
		block := a.blocks[a.current]
		if free := block[len(block):cap(block)]; len(free) > 0 && &built[0] == &free[0] {
			a.blocks[a.current] = block[:len(block)+len(built)]
			return kept
		}
	}
	if cap(built) > len(kept)+len(kept)/2 {
		return append(make([]byte, 0, len(kept)), kept...)
	}
	return kept
}

// Full tells whether so much was cut that it is time for another arena: what Reset keeps is used up.
func (a *Arena) Full() bool { return a.current >= arenaKept-1 }

// Reset takes back all that was kept: nobody may look at it any more.
func (a *Arena) Reset() {
	if len(a.blocks) > arenaKept {
		clear(a.blocks[arenaKept:])
		a.blocks = a.blocks[:arenaKept]
	}
	for i := range a.blocks {
		a.blocks[i] = a.blocks[i][:0]
	}
	a.current = 0
}
