package localcheckpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/record"
)

// helperVariable makes this test binary another process: it names the folder.
const helperVariable = "LOCALCHECKPOINT_HELPER_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(helperVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := help(dir, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// help is the other process.
func help(dir, task string) error {
	store, err := localcheckpoint.OpenFile(dir, "orders")
	if err != nil {
		return err
	}
	if task == "lock" {
		if _, err := store.Lock(context.Background()); err != nil {
			return err
		}
		fmt.Println("locked")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	if task == "lanes" {
		fmt.Println("changing")
		for n := 0; ; n++ {
			if err := store.Edit(context.Background(), relaid(1+n%5)); err != nil {
				return err
			}
		}
	}
	for range 25 {
		if err := addOne(store); err != nil {
			return err
		}
	}
	return nil
}

func addOne(store *localcheckpoint.File) error {
	for {
		snapshot, err := store.Load(context.Background(), 0)
		if err != nil {
			return err
		}
		next := snapshot.Doc.Clone()
		next.Seq++
		_, err = store.Update(context.Background(), next, snapshot.Revision, nil)
		if err == nil || fault.KindOf(err) != fault.Conflict {
			return err
		}
	}
}

func other(t *testing.T, dir, task string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), binary, task)
	cmd.Env = append(os.Environ(), helperVariable+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestFile_ThreeProcesses_LoseNoUpdate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
	must(t, err)
	var others []*exec.Cmd
	for range 3 {
		cmd := other(t, dir, "add")
		must(t, cmd.Start())
		others = append(others, cmd)
	}
	for _, cmd := range others {
		must(t, cmd.Wait())
	}
	snapshot, err := store.Load(t.Context(), 0)
	must(t, err)
	if snapshot.Doc.Seq != 75 {
		t.Errorf("seq = %d, want 75", snapshot.Doc.Seq)
	}
}

func TestFile_KilledWriter_LeavesNoLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	cmd := other(t, dir, "lock")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	doc.Seq++
	_, err = store.Update(ctx, doc, rev, nil)
	wantFault(t, err, fault.Transient, "")
	if _, err := store.Load(t.Context(), 0); err != nil {
		t.Errorf("reading while another process has the lock: %v", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	_, err = store.Update(t.Context(), doc, rev, nil)
	must(t, err)
}

func TestFile_CrashBetweenLaneAndRun_KeepsTheRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	doc.Seq++
	rev, err = store.Update(t.Context(), doc, rev, &record.Report{Run: "run-1", Read: 7})
	must(t, err)
	must(t, store.Remove("runs/run-1.json")) // as if the process had died before it
	doc.Seq++
	_, err = store.Update(t.Context(), doc, rev, nil)
	must(t, err)
	if kept := runs(t, store); len(kept) != 1 || kept[0].Run != "run-1" || kept[0].Read != 7 {
		t.Errorf("runs: %+v, want run-1", kept)
	}
}

func TestFile_CrashBeforeRename_LeavesTheOldDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	// What a process leaves that dies in Create, and in Update.
	must(t, os.MkdirAll(filepath.Join(dir, ".orders.new", "lanes"), 0o750))
	must(t, os.WriteFile(filepath.Join(dir, ".orders.new", "lanes", "7.json"), []byte("{"), 0o600))
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "orders", "lanes", ".0.json.tmp"), []byte("{"), 0o600))
	snapshot, err := store.Load(t.Context(), 0)
	must(t, err)
	if snapshot.Revision != rev {
		t.Errorf("revision %q, want %q", snapshot.Revision, rev)
	}
	doc.Seq++
	_, err = store.Update(t.Context(), doc, rev, nil)
	must(t, err)
	for _, left := range []string{".orders.new", "orders/lanes/.0.json.tmp", "orders/lanes/7.json"} {
		if _, err := os.Stat(filepath.Join(dir, left)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", left, err)
		}
	}
}

func TestFile_KeepsTheLastHundredRuns(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	for i := range 103 {
		doc.Seq++
		rev, err = store.Update(t.Context(), doc, rev, &record.Report{Run: fmt.Sprintf("run-%03d", i)})
		must(t, err)
	}
	kept := runs(t, store)
	if len(kept) != 100 || kept[0].Run != "run-003" || kept[99].Run != "run-102" {
		t.Errorf("%d runs from %s to %s, want the 100 from run-003 to run-102", len(kept), kept[0].Run, kept[len(kept)-1].Run)
	}
}

func TestFile_FoldersWithoutCheckpoint_AreUsedOrRefused(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		files []string
		class string
	}{
		{"no folder", nil, ""},
		{"empty folders", []string{"lanes/", "runs/"}, ""},
		{"a person's file", []string{"notes.txt"}, "checkpoint-folder"},
		{"another lane", []string{"lanes/1.json"}, "checkpoint-missing"},
		{"a run", []string{"runs/run-1.json"}, "checkpoint-missing"},
		{"an audit entry", []string{"audit/0000000001.json"}, "checkpoint-missing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range c.files {
				name = filepath.Join(dir, "orders") + "/" + name
				must(t, os.MkdirAll(name[:strings.LastIndex(name, "/")], 0o750))
				if !strings.HasSuffix(name, "/") {
					must(t, os.WriteFile(name, []byte("{}"), 0o600))
				}
			}
			_, err := open(t, dir).Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
			if c.class == "" {
				must(t, err)
				return
			}
			wantFault(t, err, fault.Fatal, c.class)
			for _, name := range c.files {
				if c.class == "checkpoint-missing" && !strings.Contains(err.Error(), name) {
					t.Errorf("%q does not name %s", err, name)
				}
				if _, err := os.Stat(filepath.Join(dir, "orders", name)); err != nil {
					t.Errorf("the refused create removed it: %v", err)
				}
			}
		})
	}
}

func TestFile_NamesThatAreNoFile_AreFatal(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, ".hidden", "a\x00", strings.Repeat("x", 201)} {
		_, err := localcheckpoint.OpenFile(t.TempDir(), name)
		wantFault(t, err, fault.Fatal, "bad-pipeline")
		store := open(t, t.TempDir())
		doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
		rev, err := store.Create(t.Context(), doc)
		must(t, err)
		_, err = store.Update(t.Context(), doc, rev, &record.Report{Run: name})
		wantFault(t, err, fault.Fatal, "bad-run")
	}
}

func TestFile_CorruptFile_StopsEveryCall(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	doc := record.Checkpoint{Schema: record.Schema, Lanes: 2}
	rev, err := store.Create(t.Context(), doc)
	must(t, err)
	must(t, store.Write("lanes/0.json", []byte(`{"schema": 1,`)))
	_, err = store.Load(t.Context(), 0)
	wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
	_, err = store.Update(t.Context(), doc, rev, nil)
	wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
	other, err := store.Read("lanes/1.json")
	must(t, err)
	must(t, store.Write("lanes/0.json", other)) // copied to the wrong name
	_, err = store.Load(t.Context(), 0)
	wantFault(t, err, fault.Fatal, "checkpoint-corrupt")
}

func TestMemory_UsesTheClockItIsGiven(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6_007_008, time.UTC)
	snapshot, err := localcheckpoint.NewMemory(func() time.Time { return at }).Load(t.Context(), 0)
	must(t, err)
	if want := at.Truncate(time.Microsecond); !snapshot.ReadAt.Equal(want) {
		t.Errorf("ReadAt = %s, want %s", snapshot.ReadAt, want)
	}
}

func TestMemory_LivesInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := localcheckpoint.NewMemory(nil)
		doc := record.Checkpoint{Schema: record.Schema, Lanes: 1}
		rev, err := store.Create(t.Context(), doc)
		must(t, err)
		before, err := store.Load(t.Context(), 0)
		must(t, err)
		<-time.After(time.Hour)
		doc.Seq++
		_, err = store.Update(t.Context(), doc, rev, nil)
		must(t, err)
		after, err := store.Load(t.Context(), 0)
		must(t, err)
		if passed := after.ReadAt.Sub(before.ReadAt); passed != time.Hour {
			t.Errorf("%s passed, want 1h", passed)
		}
	})
}
