package localcheckpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// journalFile holds an edit of several files from the moment that it counts until all of them are written. Its name is
// one that no listing shows.
const journalFile = ".edit.json"

// journal is the content of each file, null for one that is removed.
type journal map[string]*string

// apply writes the edit down before it begins with it. A process that dies after that has made the edit: readers look
// there first, and whoever takes the lock next finishes it.
func (f *diskFolder) apply(files map[string][]byte) error {
	edit := journal{}
	for name, content := range files {
		edit[name] = nil
		if content != nil {
			text := string(content)
			edit[name] = &text
		}
	}
	text, err := marshal(edit)
	if err != nil {
		return err
	}
	if err := f.write(journalFile, text); err != nil {
		return err
	}
	return f.finish(edit)
}

// pending returns the edit that is not finished, if there is one.
func (f *diskFolder) pending() (journal, error) {
	text, err := os.ReadFile(f.path(journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for an unfinished edit: %w", err)
	}
	var edit journal
	if err := json.Unmarshal(text, &edit); err != nil {
		return nil, corrupt(f.show(journalFile), where(text, err))
	}
	for name := range edit {
		if !filepath.IsLocal(filepath.FromSlash(name)) || strings.HasPrefix(name, ".") {
			return nil, corrupt(f.show(journalFile), fmt.Errorf("%q is no file of a checkpoint", name))
		}
	}
	return edit, nil
}

// recover finishes what a process that died had begun. The caller holds the lock.
func (f *diskFolder) recover() error {
	edit, err := f.pending()
	if err == nil && edit != nil {
		err = f.finish(edit)
	}
	if err != nil {
		return storage(err, "finishing the edit in %s", f.show(journalFile))
	}
	return nil
}

// finish may be called again after any part of it. Only what is on the disk is taken out of the journal, which goes last.
func (f *diskFolder) finish(edit journal) error {
	for _, name := range slices.Sorted(maps.Keys(edit)) {
		if content := edit[name]; content != nil {
			if err := f.write(name, []byte(*content)); err != nil {
				return fmt.Errorf("writing %s: %w", f.show(name), err)
			}
			continue
		}
		if err := f.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", f.show(name), err)
		}
		if err := syncFolder(filepath.Dir(f.path(name))); err != nil {
			return err
		}
	}
	if err := f.remove(journalFile); err != nil {
		return fmt.Errorf("removing the journal: %w", err)
	}
	return syncFolder(f.root)
}
