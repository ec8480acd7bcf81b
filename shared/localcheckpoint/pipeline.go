package localcheckpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// pipelineDocument is what holds for all lanes. That it exists says that the pipeline has run.
type pipelineDocument struct {
	Schema    int               `json:"schema"`
	Lanes     int               `json:"lanes"`
	Layout    int               `json:"layout"`
	Identity  map[string]string `json:"identity"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedBy string            `json:"updatedBy"`
	Draining  drainingDoc       `json:"draining"` // from schema 2 on
	Audits    int64             `json:"audits"`   // from schema 2 on
}

// auditDocument is one entry. It is written once and read by people and programs of any later version.
type auditDocument struct {
	Schema int               `json:"schema"`
	Number int64             `json:"number"`
	At     time.Time         `json:"at"`
	Who    string            `json:"who"`
	What   string            `json:"what"`
	Why    string            `json:"why"`
	Before map[string]string `json:"before"`
	After  map[string]string `json:"after"`
}

// auditFile has a name that sorts by number.
func auditFile(number int64) string { return path.Join("audit", fmt.Sprintf("%010d.json", number)) }

func encodePipeline(p record.Pipeline) ([]byte, error) {
	identity := p.Identity
	if identity == nil {
		identity = map[string]string{}
	}
	return marshal(pipelineDocument{
		Schema: record.Schema, Lanes: len(p.Lanes), Layout: p.Layout, Identity: identity, CreatedAt: micros(p.CreatedAt),
		UpdatedBy: p.UpdatedBy, Draining: fromDraining(p.Draining), Audits: p.Audits,
	})
}

// decodePipeline returns the document without those of its lanes, of which it has the number.
func decodePipeline(name string, text []byte) (*record.Pipeline, error) {
	var stored pipelineDocument
	if err := decodeStrictly(name, text, &stored); err != nil {
		return nil, err
	}
	p := record.Pipeline{
		Layout: stored.Layout, Identity: stored.Identity, Draining: stored.Draining.draining(), Audits: stored.Audits,
		CreatedAt: micros(stored.CreatedAt), UpdatedBy: stored.UpdatedBy,
	}
	err := p.Check()
	if stored.Lanes < 1 || stored.Lanes > maxLanes {
		err = fmt.Errorf("lanes is %d, it is 1 to %d", stored.Lanes, maxLanes)
	}
	if err != nil {
		return nil, corrupt(name, err)
	}
	p.Lanes = make([]record.Checkpoint, stored.Lanes)
	return &p, nil
}

// maxLanes bounds what an edit by hand can make us look for. Configuration allows 256.
const maxLanes = 1 << 16

// readPipeline returns nil where there is no document.
func (s *store) readPipeline() (*record.Pipeline, error) {
	name := s.folder.show(pipelineFile)
	text, err := s.folder.read(pipelineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storage(err, "reading %s", name)
	}
	return decodePipeline(name, text)
}

// Edit changes several files under the lock.
func (s *store) Edit(ctx context.Context, change lease.Edit) error {
	unlock, err := s.folder.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	before, reports, err := s.readAll(ctx)
	if err != nil {
		return err
	}
	now := micros(s.clock())
	after := before.Clone()
	audit, err := change(now, &after)
	if err != nil {
		return err
	}
	files, err := edited(before, after, audit, now)
	if err != nil || len(files) == 0 {
		return err
	}
	// A run whose process died between its two files is given its own file before its lane forgets it.
	for lane, report := range reports {
		if _, changed := files[laneFile(lane)]; changed {
			if err := s.keepRun(laneFile(lane), report); err != nil {
				return err
			}
		}
	}
	if err := s.folder.apply(files); err != nil {
		return storage(err, "changing %s", s.folder.show(""))
	}
	return nil
}

// readAll reads the documents of a pipeline and the reports that its lanes hold, or says what is missing.
func (s *store) readAll(ctx context.Context) (record.Pipeline, []json.RawMessage, error) {
	pipeline, err := s.readPipeline()
	if err != nil {
		return record.Pipeline{}, nil, err
	}
	if pipeline == nil {
		traces, err := s.traces("lanes")
		if err == nil && len(traces) > 0 {
			err = missingDocument(s.folder.show(pipelineFile), fmt.Sprintf("although %s has %s", s.folder.show(""), strings.Join(traces, ", ")))
		}
		return record.Pipeline{}, nil, err
	}
	reports := make([]json.RawMessage, len(pipeline.Lanes))
	for lane := range pipeline.Lanes {
		snapshot, err := s.Load(ctx, lane)
		if err != nil {
			return record.Pipeline{}, nil, err
		}
		if snapshot.Doc == nil {
			traces, err := s.traces("lanes", "runs", "audit")
			if err != nil {
				return record.Pipeline{}, nil, err
			}
			return record.Pipeline{}, nil, missingDocument(s.folder.show(laneFile(lane)),
				fmt.Sprintf("although the pipeline has %d lanes and %s has %s", len(pipeline.Lanes), s.folder.show(""), strings.Join(traces, ", ")))
		}
		if reports[lane], err = s.unchanged(*snapshot.Doc, snapshot.Revision); err != nil {
			return record.Pipeline{}, nil, err
		}
		pipeline.Lanes[lane] = *snapshot.Doc
	}
	names, err := s.folder.list("lanes")
	if err != nil {
		return record.Pipeline{}, nil, storage(err, "reading %s", s.folder.show("lanes"))
	}
	if len(names) > len(pipeline.Lanes) {
		return record.Pipeline{}, nil, corrupt(s.folder.show(pipelineFile),
			fmt.Errorf("it has %d lanes and there is %s", len(pipeline.Lanes), strings.Join(names, ", ")))
	}
	if err := pipeline.Consistent(); err != nil {
		return record.Pipeline{}, nil, corrupt(s.folder.show(pipelineFile), err)
	}
	return *pipeline, reports, nil
}

// edited returns the files in which a pipeline differs from what it was.
func edited(before, after record.Pipeline, audit *record.Audit, now time.Time) (map[string][]byte, error) {
	if err := errors.Join(after.Check(), after.Consistent()); err != nil {
		return nil, fault.Fatalf("checkpoint-unwritable", "changing a pipeline: %w", err)
	}
	files := map[string][]byte{}
	for _, doc := range after.Changed(before) {
		text, err := encode(doc, nil)
		if err != nil {
			return nil, err
		}
		files[laneFile(doc.Lane)] = text
	}
	for lane := len(after.Lanes); lane < len(before.Lanes); lane++ {
		files[laneFile(lane)] = nil
	}
	if audit != nil {
		after.Audits = before.Audits + 1
		text, err := marshal(auditDocument{
			Schema: record.Schema, Number: after.Audits, At: now, Who: audit.Who, What: audit.What, Why: audit.Why,
			Before: audit.Before, After: audit.After,
		})
		if err != nil {
			return nil, err
		}
		files[auditFile(after.Audits)] = text
	}
	was, err := encodePipeline(before)
	if err != nil {
		return nil, err
	}
	is, err := encodePipeline(after)
	if err != nil {
		return nil, err
	}
	if string(was) != string(is) {
		files[pipelineFile] = is
	}
	if len(before.Lanes) == 0 && len(files) > 0 {
		return nil, fault.Fatalf("checkpoint-missing", "the pipeline has no documents that could be changed: it has never run")
	}
	return files, nil
}

// Audits returns the audit of the pipeline, oldest first.
func (s *store) Audits(ctx context.Context) ([]record.Audit, error) {
	unlock, err := s.folder.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	pipeline, err := s.readPipeline()
	if err != nil || pipeline == nil {
		return nil, err
	}
	var audits []record.Audit
	for number := int64(1); number <= pipeline.Audits; number++ {
		name := s.folder.show(auditFile(number))
		text, err := s.folder.read(auditFile(number))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a person removed it
		}
		if err != nil {
			return nil, storage(err, "reading %s", name)
		}
		var stored auditDocument
		if err := json.Unmarshal(text, &stored); err != nil {
			return nil, corrupt(name, where(text, err))
		}
		audits = append(audits, record.Audit{
			Number: stored.Number, At: micros(stored.At), Who: stored.Who, What: stored.What, Why: stored.Why,
			Before: stored.Before, After: stored.After,
		})
	}
	return audits, nil
}
