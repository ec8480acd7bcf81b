package localcheckpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
)

const (
	// lockWait bounds a write that finds the folder locked. A writer holds the lock for some milliseconds, so this is a
	// stopped process, and the same bound as that of a call to Firestore.
	lockWait = 10 * time.Second
	// lockPoll is how often it is tried: flock itself cannot be cancelled.
	lockPoll = 2 * time.Millisecond
)

// File keeps the documents of one pipeline in a folder.
type File struct {
	store
}

// OpenFile returns the store of a pipeline under dir, which is made if it is not there. Nothing else is made before the
// first Create.
func OpenFile(dir, pipeline string) (*File, error) {
	if !validName(pipeline) {
		return nil, fault.Fatalf("bad-pipeline", "pipeline %q cannot be the name of a folder: use letters, digits, dashes and dots", pipeline)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, storage(err, "making the checkpoint folder")
	}
	root := filepath.Join(dir, pipeline)
	return &File{store{folder: &diskFolder{root: root}, clock: time.Now}}, nil
}

type diskFolder struct {
	root string
}

func (f *diskFolder) path(name string) string { return filepath.Join(f.root, filepath.FromSlash(name)) }

func (f *diskFolder) show(name string) string { return f.path(name) }

// lock takes the lock beside the folder. The kernel drops it with the process, however that ends; the file stays.
func (f *diskFolder) lock(ctx context.Context) (func(), error) {
	name := f.root + ".lock"
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, storage(err, "locking the checkpoint")
	}
	if err := flock(ctx, file); err != nil {
		_ = file.Close()
		return nil, storage(err, "locking %s", name)
	}
	if err := f.recover(); err != nil {
		_ = file.Close() // which unlocks
		return nil, err
	}
	return func() { _ = file.Close() }, nil // which unlocks
}

func flock(ctx context.Context, file *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("another process has held the lock for %s", lockWait))
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err //nolint:wrapcheck // the caller names the file
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (f *diskFolder) read(name string) ([]byte, error) {
	pending, err := f.pending()
	if err != nil {
		return nil, err
	}
	if content, ok := pending[name]; ok {
		if content == nil {
			return nil, fs.ErrNotExist
		}
		return []byte(*content), nil
	}
	return os.ReadFile(f.path(name)) //nolint:wrapcheck // the error names the file
}

func (f *diskFolder) write(name string, content []byte) error {
	target := f.path(name)
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return fmt.Errorf("making its folder: %w", err)
	}
	// One writer at a time has the lock, so the name is free, and one that a killed process left is written over.
	temporary := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".tmp")
	if err := writeSynced(temporary, content); err != nil {
		return err
	}
	if err := os.Rename(temporary, target); err != nil {
		return fmt.Errorf("replacing it: %w", err)
	}
	return syncFolder(filepath.Dir(target))
}

// create writes all files into a folder of another name and gives it its name: the one step that a crash cannot halve.
func (f *diskFolder) create(files map[string][]byte) error {
	dir, base := filepath.Split(f.root)
	staged := &diskFolder{root: filepath.Join(dir, "."+base+".new")}
	if err := os.RemoveAll(staged.root); err != nil {
		return fmt.Errorf("removing what an unfinished start left: %w", err)
	}
	for name, content := range files {
		if err := staged.write(name, content); err != nil {
			return err
		}
	}
	if err := syncFolder(staged.root); err != nil {
		return err
	}
	// Empty folders are in the way of the name. Remove takes no other ones, so that nothing of a person's is ever lost.
	for _, sub := range []string{"lanes", "runs", "audit", ""} {
		_ = os.Remove(f.path(sub))
	}
	if err := os.Rename(staged.root, f.root); err != nil {
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			return fault.Fatalf("checkpoint-folder", "%s has files that are no checkpoint: move them away", f.root)
		}
		return fmt.Errorf("naming the folder: %w", err)
	}
	return syncFolder(dir)
}

func (f *diskFolder) list(sub string) ([]string, error) {
	entries, err := os.ReadDir(f.path(sub))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	type aged struct {
		name string
		at   time.Time
	}
	var files []aged
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("listing files: %w", err)
		}
		files = append(files, aged{path.Join(sub, entry.Name()), info.ModTime()})
	}
	slices.SortStableFunc(files, func(a, b aged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.name
	}
	return names, nil
}

func (f *diskFolder) remove(name string) error {
	return os.Remove(f.path(name)) //nolint:wrapcheck // the error names the file
}

// writeSynced writes a file that is on the disk when it returns.
func writeSynced(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening a temporary file: %w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing a temporary file: %w", err)
	}
	return nil
}

// syncFolder makes a rename in the folder survive a crash of the machine.
func syncFolder(name string) error {
	if name == "" {
		name = "."
	}
	dir, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("syncing the folder: %w", err)
	}
	return nil
}
