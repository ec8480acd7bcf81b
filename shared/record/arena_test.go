package record_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/record"
)

// What is kept stays as it is, whatever is built, kept or thrown away afterwards, and however much grew out of its room.
func TestArena_LeavesAloneWhatIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var arena record.Arena
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			var kept, want [][]byte
			for i := range rapid.IntRange(0, 60).Draw(t, "documents") {
				room := rapid.IntRange(0, 20_000).Draw(t, "room")
				size := rapid.IntRange(0, 25_000).Draw(t, "size")
				start := rapid.IntRange(0, size).Draw(t, "start")
				built := arena.Room(room)
				if len(built) != 0 || cap(built) < room {
					t.Fatalf("room for %d has %d of %d bytes", room, len(built), cap(built))
				}
				built = append(built, bytes.Repeat([]byte{byte(i + 1)}, size)...)
				if rapid.Bool().Draw(t, "refused") {
					continue
				}
				kept, want = append(kept, arena.Keep(built, start)), append(want, bytes.Repeat([]byte{byte(i + 1)}, size-start))
			}
			for i := range kept {
				if !bytes.Equal(kept[i], want[i]) {
					t.Fatalf("document %d changed", i)
				}
				if cap(kept[i]) > len(kept[i])+len(kept[i])/2+16 {
					t.Fatalf("document %d of %d bytes holds on to %d", i, len(kept[i]), cap(kept[i]))
				}
			}
			arena.Reset()
			if arena.Full() {
				t.Fatal("full after a reset")
			}
		}
	})
}

func TestArena_UsesItsBlocksAgain(t *testing.T) {
	t.Parallel()
	var arena record.Arena
	batch := func() (documents []*byte) {
		for range 500 {
			documents = append(documents, &arena.Keep(append(arena.Room(600), make([]byte, 400)...), 0)[0])
		}
		arena.Reset()
		return documents
	}
	if diff := cmp.Diff(batch(), batch(), cmp.Comparer(func(a, b *byte) bool { return a == b })); diff != "" {
		t.Errorf("the second batch has other memory:\n%s", diff)
	}
}
