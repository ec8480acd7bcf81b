package localcheckpoint

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
)

// Memory keeps the documents of one pipeline in the process, as the text that File would write.
type Memory struct {
	store
}

// NewMemory returns an empty store. The clock is the store's, as Snapshot.ReadAt tells it; nil is time.Now.
func NewMemory(clock func() time.Time) *Memory {
	if clock == nil {
		clock = time.Now
	}
	return &Memory{store{folder: &memoryFolder{files: map[string]memoryFile{}}, clock: clock}}
}

// memoryFolder has two locks as the folder on disk has: readers do not wait for a writer that is between its files.
type memoryFolder struct {
	writer sync.Mutex

	mu    sync.Mutex
	files map[string]memoryFile
	count int64 // of writes, which is the age of a file
}

type memoryFile struct {
	content []byte
	age     int64
}

func (f *memoryFolder) lock(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.Transientf("locking the checkpoint: %w", err)
	}
	f.writer.Lock()
	return f.writer.Unlock, nil
}

func (f *memoryFolder) read(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, ok := f.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return file.content, nil
}

func (f *memoryFolder) write(name string, content []byte) error {
	return f.create(map[string][]byte{name: content})
}

func (f *memoryFolder) create(files map[string][]byte) error { return f.apply(files) }

func (f *memoryFolder) apply(files map[string][]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	for name, content := range files {
		if content == nil {
			delete(f.files, name)
			continue
		}
		f.files[name] = memoryFile{content: slices.Clone(content), age: f.count}
	}
	return nil
}

func (f *memoryFolder) list(sub string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := slices.Sorted(maps.Keys(f.files))
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, sub+"/") })
	slices.SortStableFunc(names, func(a, b string) int { return int(f.files[a].age - f.files[b].age) })
	return names, nil
}

func (f *memoryFolder) remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, name)
	return nil
}

func (f *memoryFolder) show(name string) string {
	if name == "" {
		return "the checkpoint in memory"
	}
	return "memory:" + name
}
