package localcheckpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// keptRuns is how many run reports a pipeline keeps: more than a day of runs at one every fifteen minutes, and few
// enough to be listed at a glance.
const keptRuns = 100

// folder is the folder of one pipeline. Names are relative to it and use slashes; errors say which file.
type folder interface {
	// lock keeps every other writer of the folder out until unlock is called.
	lock(ctx context.Context) (unlock func(), err error)
	// read returns an error that is fs.ErrNotExist where there is no such file.
	read(name string) ([]byte, error)
	// write replaces a file: a reader sees the old or the new content, and after a nil error the new one survives a crash.
	write(name string, content []byte) error
	// create makes the folder with all these files in one step.
	create(files map[string][]byte) error
	// apply replaces and creates files, and removes those whose content is nil, all in one step that no crash halves and
	// that no reader sees half of one file. Its caller holds the lock.
	apply(files map[string][]byte) error
	// list returns the names of the files below a subfolder, oldest first.
	list(sub string) ([]string, error)
	remove(name string) error
	// show returns the name of a file for a person.
	show(name string) string
}

// store is lease.Store over a folder.
type store struct {
	folder folder
	clock  func() time.Time
}

const pipelineFile = "pipeline.json"

func laneFile(lane int) string { return path.Join("lanes", strconv.Itoa(lane)+".json") }

// Load reads the lane's file. It takes no lock, because files are replaced as a whole.
func (s *store) Load(ctx context.Context, lane int) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, fault.Transientf("reading %s: %w", s.folder.show(laneFile(lane)), err)
	}
	name := s.folder.show(laneFile(lane))
	text, err := s.folder.read(laneFile(lane))
	now := micros(s.clock())
	if errors.Is(err, fs.ErrNotExist) {
		return lease.Snapshot{ReadAt: now}, nil
	}
	if err != nil {
		return lease.Snapshot{}, storage(err, "reading %s", name)
	}
	doc, err := decode(name, text)
	if err != nil {
		return lease.Snapshot{}, err
	}
	if doc.Lane != lane {
		return lease.Snapshot{}, corrupt(name, fmt.Errorf("it is the document of lane %d", doc.Lane))
	}
	return lease.Snapshot{Doc: &doc, Revision: revisionOf(text), ReadAt: now}, nil
}

// Create stores the files of a pipeline in one step, where nothing of it exists.
func (s *store) Create(ctx context.Context, doc record.Checkpoint) (lease.Revision, error) {
	unlock, err := s.folder.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := s.refuseTraces(doc); err != nil {
		return "", err
	}
	pipeline, err := encodePipeline(record.Pipeline{
		Layout: doc.Layout, Identity: doc.Identity, CreatedAt: s.clock(), UpdatedBy: doc.UpdatedBy,
		Lanes: make([]record.Checkpoint, doc.Lanes),
	})
	if err != nil {
		return "", err
	}
	files := map[string][]byte{pipelineFile: pipeline}
	for lane := range doc.Lanes {
		if files[laneFile(lane)], err = encode(doc.Sibling(lane), nil); err != nil {
			return "", err
		}
	}
	own, err := encode(doc, nil)
	if err != nil {
		return "", err
	}
	files[laneFile(doc.Lane)] = own
	if err := s.folder.create(files); err != nil {
		return "", storage(err, "creating %s", s.folder.show(""))
	}
	return revisionOf(own), nil
}

// refuseTraces says why the first documents of a pipeline cannot be created: they exist, or some of them do.
func (s *store) refuseTraces(doc record.Checkpoint) error {
	name := s.folder.show(laneFile(doc.Lane))
	pipeline, err := s.readPipeline()
	switch {
	case err != nil:
		return err
	case pipeline != nil && pipeline.Layout != doc.Layout:
		return fault.Conflictf("creating %s: %s has layout %d and not %d: another run created it first", name,
			s.folder.show(pipelineFile), pipeline.Layout, doc.Layout)
	}
	if _, err := s.folder.read(laneFile(doc.Lane)); err == nil {
		return fault.Conflictf("%s exists: another run created it first", name)
	}
	traces, err := s.traces("lanes", "runs", "audit")
	if err != nil || len(traces) == 0 {
		return err
	}
	return missingDocument(name, fmt.Sprintf("although %s has %s", s.folder.show(""), strings.Join(traces, ", ")))
}

// traces names what there is of the pipeline: its own document, and what is in the folders.
func (s *store) traces(folders ...string) ([]string, error) {
	var traces []string
	_, err := s.folder.read(pipelineFile)
	switch {
	case err == nil:
		traces = append(traces, pipelineFile)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, storage(err, "reading %s", s.folder.show(pipelineFile))
	}
	for _, sub := range folders {
		names, err := s.folder.list(sub)
		if err != nil {
			return nil, storage(err, "reading %s", s.folder.show(sub))
		}
		if len(names) > 3 {
			names = append(names[:3:3], fmt.Sprintf("and %d more in %s", len(names)-3, sub))
		}
		traces = append(traces, names...)
	}
	return traces, nil
}

func missingDocument(name, evidence string) error {
	return fault.Fatalf("checkpoint-missing", "%s does not exist %s, so it was lost or deleted by hand: restore it from a backup, "+
		"or delete the pipeline's whole folder to start over at startingOffsets, with another sink.collection: in this one its records would be taken for those that are there", name, evidence)
}

// Update replaces the lane's file if its text is still the one of the revision.
func (s *store) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	report, err := encodeReport(run)
	if err != nil {
		return "", err
	}
	text, err := encode(doc, report)
	if err != nil {
		return "", err
	}
	unlock, err := s.folder.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	name := laneFile(doc.Lane)
	before, err := s.unchanged(doc, at)
	if err != nil {
		return "", err
	}
	// A run whose process died between its two files is given its own file before the lane forgets it.
	if err := s.keepRun(name, before); err != nil {
		return "", err
	}
	if err := s.folder.write(name, text); err != nil {
		return "", storage(err, "writing %s", s.folder.show(name))
	}
	// The write is done and holds the report. What fails here is made up for by the next write, so it is no error.
	_ = s.keepRun(name, report)
	return revisionOf(text), nil
}

// unchanged returns the report in the lane's file, or why the file is not at the revision. A text of the revision was
// decoded when it was read, and is not again.
func (s *store) unchanged(of record.Checkpoint, at lease.Revision) (json.RawMessage, error) {
	name := s.folder.show(laneFile(of.Lane))
	text, err := s.folder.read(laneFile(of.Lane))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.gone(of)
	}
	if err != nil {
		return nil, storage(err, "reading %s", name)
	}
	if revisionOf(text) != at {
		doc, err := decode(name, text)
		if err != nil {
			return nil, err
		}
		return nil, fault.Conflictf("%s was changed by %s since it was read", name, doc.UpdatedBy)
	}
	var with struct {
		Run json.RawMessage `json:"run"`
	}
	if err := json.Unmarshal(text, &with); err != nil {
		return nil, corrupt(name, where(text, err))
	}
	return with.Run, nil
}

// gone says why a lane that was read has no file any more.
func (s *store) gone(of record.Checkpoint) error {
	name := s.folder.show(laneFile(of.Lane))
	pipeline, err := s.readPipeline()
	if err != nil {
		return err
	}
	if pipeline != nil && pipeline.Layout != of.Layout {
		return fault.Conflictf("%s is gone: %s changed the lanes of the pipeline, which has layout %d now and not %d", name,
			pipeline.UpdatedBy, pipeline.Layout, of.Layout)
	}
	return missingDocument(name, "although it was read before")
}

func encodeReport(run *record.Report) (json.RawMessage, error) {
	if run == nil {
		return nil, nil
	}
	if !validName(run.Run) {
		return nil, fault.Fatalf("bad-run", "run %q cannot be the name of a file", run.Run)
	}
	return marshal(run)
}

// keepRun gives the report that the lane's file holds its own file, if it has none, and removes the oldest ones.
func (s *store) keepRun(lane string, report json.RawMessage) error {
	if report == nil {
		return nil
	}
	var id struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal(report, &id); err != nil || !validName(id.Run) {
		return corrupt(s.folder.show(lane), errors.New("run.run is no name of a run"))
	}
	name := path.Join("runs", id.Run+".json")
	if _, err := s.folder.read(name); err == nil {
		return nil
	}
	var text bytes.Buffer
	if err := json.Indent(&text, report, "", "  "); err != nil {
		return corrupt(s.folder.show(lane), err)
	}
	if err := s.folder.write(name, text.Bytes()); err != nil {
		return storage(err, "writing %s", s.folder.show(name))
	}
	names, err := s.folder.list("runs")
	if err != nil {
		return storage(err, "reading %s", s.folder.show("runs"))
	}
	for _, old := range names[:max(0, len(names)-keptRuns)] {
		if err := s.folder.remove(old); err != nil {
			return storage(err, "removing %s", s.folder.show(old))
		}
	}
	return nil
}

// validName says whether a name can be a file of its own: names of pipelines and runs come from outside.
func validName(name string) bool {
	return name != "" && len(name) <= 200 && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\\\x00")
}

func revisionOf(text []byte) lease.Revision {
	sum := sha256.Sum256(text)
	return lease.Revision(hex.EncodeToString(sum[:]))
}

// storage gives an error of the folder its kind. Permissions need a person; a full disk or a signal may pass.
func storage(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fault.Fatalf("checkpoint-permission", "%s: %w: give the user of this program read and write access", doing, err)
	}
	return fault.Transientf("%s: %w", doing, err)
}
