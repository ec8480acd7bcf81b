package localcheckpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// relaid shares the partitions of topic orders, which all have the same offset, out to that many lanes, and adds one to
// the offset.
func relaid(lanes int) lease.Edit {
	return func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		all := map[record.Partition]record.Position{}
		for _, doc := range p.Lanes {
			maps.Copy(all, doc.Offsets)
		}
		next := make([]record.Checkpoint, lanes)
		for i := range next {
			next[i] = record.Checkpoint{Lane: i, Lanes: lanes, Layout: p.Layout + 1, Seq: p.Lanes[0].Seq + 1, Offsets: map[record.Partition]record.Position{}}
		}
		for partition, at := range all {
			at.Offset++
			next[partition.Lane(lanes)].Offsets[partition] = at
		}
		p.Lanes, p.Layout = next, p.Layout+1
		return &record.Audit{Who: "test", What: "layout"}, nil
	}
}

const relaidPartitions = 8

func created(t *testing.T, store *localcheckpoint.File) {
	t.Helper()
	offsets := map[record.Partition]record.Position{}
	for id := range int32(relaidPartitions) {
		offsets[record.Partition{Topic: "orders", ID: id}] = record.Position{}
	}
	_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1, Offsets: offsets})
	must(t, err)
}

// layoutOf returns the layout after checking that it is whole: each partition once, in its lane, with the offset of that
// layout, and one audit entry a change.
func layoutOf(t *testing.T, store *localcheckpoint.File) int {
	t.Helper()
	var found record.Pipeline
	must(t, store.Edit(t.Context(), func(_ time.Time, p *record.Pipeline) (*record.Audit, error) {
		found = p.Clone()
		return nil, nil
	}))
	partitions := 0
	for i, doc := range found.Lanes {
		for partition, at := range doc.Offsets {
			partitions++
			if partition.Lane(len(found.Lanes)) != i || at.Offset != int64(found.Layout) {
				t.Errorf("layout %d: %s is at %d in lane %d of %d", found.Layout, partition, at.Offset, i, len(found.Lanes))
			}
		}
	}
	audits, err := store.Audits(t.Context())
	must(t, err)
	if partitions != relaidPartitions || len(audits) != found.Layout {
		t.Errorf("layout %d: %d partitions and %d audit entries", found.Layout, partitions, len(audits))
	}
	return found.Layout
}

func TestFile_KilledWhileLanesChange_LeavesOneWholeLayout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	created(t, store)
	last, unfinished := 0, 0
	for i := range 25 {
		cmd := other(t, dir, "lanes")
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "changing\n" {
			t.Fatalf("the other process says %q, %v", line, err)
		}
		<-time.After(time.Duration(5+7*i%40) * time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		if _, err := os.Stat(filepath.Join(dir, "orders", localcheckpoint.JournalFile)); err == nil {
			unfinished++
		}
		layout := layoutOf(t, store)
		if layout < last {
			t.Errorf("layout %d after %d", layout, last)
		}
		last = layout
	}
	t.Logf("%d layouts; %d of 25 processes were killed in the middle of an edit", last, unfinished)
	if last < 8 {
		t.Errorf("only %d changes were made: the test does not test what it says", last)
	}
}

// Every point between two files of an edit, one after another: whoever comes next sees the edit as a whole.
func TestFile_CrashBetweenTwoFilesOfAnEdit_IsFinishedByWhoeverComesNext(t *testing.T) {
	t.Parallel()
	before, after := t.TempDir(), t.TempDir()
	for _, dir := range []string{before, after} {
		created(t, open(t, dir))
		must(t, open(t, dir).Edit(t.Context(), relaid(4)))
	}
	must(t, open(t, after).Edit(t.Context(), relaid(2)))
	edit := difference(t, filepath.Join(before, "orders"), filepath.Join(after, "orders"))
	names := slices.Sorted(maps.Keys(edit))
	if len(names) != 6 { // four lanes, the pipeline and an audit entry
		t.Fatalf("the edit is of %v", names)
	}
	for done := range len(names) + 1 {
		t.Run(fmt.Sprint(done), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(before)))
			journal, err := localcheckpoint.Journal(edit)
			must(t, err)
			store := open(t, dir)
			must(t, store.Write(localcheckpoint.JournalFile, journal))
			for _, name := range names[:done] {
				if content := edit[name]; content != nil {
					must(t, os.WriteFile(filepath.Join(dir, "orders", name), content, 0o600))
				} else {
					must(t, os.Remove(filepath.Join(dir, "orders", name)))
				}
			}
			for lane := range 4 { // a reader takes no lock, and sees the new layout all the same
				snapshot, err := store.Load(t.Context(), lane)
				if err != nil || (snapshot.Doc != nil) != (lane < 2) || lane < 2 && snapshot.Doc.Layout != 2 {
					t.Errorf("lane %d: %+v, %v", lane, snapshot.Doc, err)
				}
			}
			if layout := layoutOf(t, store); layout != 2 {
				t.Errorf("layout %d, want 2", layout)
			}
			if _, err := store.Read(localcheckpoint.JournalFile); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the journal is still there: %v", err)
			}
			if left := difference(t, filepath.Join(dir, "orders"), filepath.Join(after, "orders")); len(left) > 0 {
				t.Errorf("%v are not as the edit made them", slices.Sorted(maps.Keys(left)))
			}
		})
	}
}

// difference returns what files have to become so that one folder is as the other, apart from what a clock says.
func difference(t *testing.T, from, to string) map[string][]byte {
	t.Helper()
	was, is := contents(t, from), contents(t, to)
	for name := range was {
		if _, ok := is[name]; !ok {
			is[name] = nil
		} else if string(is[name]) == string(was[name]) || name == "audit/0000000001.json" {
			delete(is, name)
		}
	}
	return is
}

func contents(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	must(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	}))
	return files
}

func TestFile_BrokenJournal_StopsEveryCall(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"lanes/0.json": `, `{"../other/pipeline.json": "x"}`, `{".edit.json": null}`, `[]`} {
		store := open(t, t.TempDir())
		created(t, store)
		must(t, store.Write(localcheckpoint.JournalFile, []byte(text)))
		_, err := store.Load(t.Context(), 0)
		wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
		wantFault(t, store.Edit(t.Context(), relaid(2)), fault.Fatal, "checkpoint-corrupt")
	}
}

// The report of a run whose process died between its two files is not lost by an edit.
func TestFile_EditAfterACrashBetweenLaneAndRun_KeepsTheRun(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	doc.Seq++
	_, err = store.Update(t.Context(), doc, rev, &record.Report{Run: "run-1", Read: 7})
	must(t, err)
	must(t, store.Remove("runs/run-1.json"))
	must(t, store.Edit(t.Context(), relaid(3)))
	if kept := runs(t, store); len(kept) != 1 || kept[0].Run != "run-1" || kept[0].Read != 7 {
		t.Errorf("runs: %+v, want run-1", kept)
	}
}

// A lane that is there beyond those of the pipeline is somebody's mistake, and would be written over by the next change.
func TestFile_OneLaneTooMany_IsFatal(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	created(t, store)
	text, err := store.Read("lanes/0.json")
	must(t, err)
	must(t, store.Write("lanes/1.json", text))
	wantFault(t, store.Edit(context.WithoutCancel(t.Context()), relaid(2)), fault.Fatal, "checkpoint-corrupt")
}

func TestFile_LanesChangedWhileAllRun_EveryRecordOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	mapper, err := mapping.New(mapping.Options{})
	must(t, err)
	dir := t.TempDir()
	pulltest.LanesTest{
		Open: func() lease.Store { return open(t, dir) }, Converter: mapper, Seed: 1, Between: 3 * time.Second,
	}.Run(t)
}
