package pull

import (
	"sync/atomic"

	"github.com/tidemark/tidemark/shared/record"
)

// shelf holds the documents of some batches that were converted one after the other. It is used again once the last of
// them has landed.
type shelf struct {
	arena record.Arena
	users atomic.Int32 // batches in flight, and the dispatcher while it fills it
}

func (m *mover) freshShelf() *shelf {
	var s *shelf
	select {
	case s = <-m.shelves:
	default:
		s = &shelf{}
	}
	s.users.Store(1)
	return s
}

// place gives a batch its shelf. A full one is left to those who use it.
func (d *dispatcher) place(f *flight) {
	if d.shelf.arena.Full() {
		d.release(d.shelf)
		d.shelf = d.freshShelf()
	}
	d.shelf.users.Add(1)
	f.shelf = d.shelf
}

// release takes a user from a shelf. Nobody may look at its documents after the last.
func (m *mover) release(s *shelf) {
	if s.users.Add(-1) > 0 {
		return
	}
	s.arena.Reset()
	select {
	case m.shelves <- s:
	default: // enough are kept
	}
}
