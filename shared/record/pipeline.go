package record

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Pipeline is all that is stored of a pipeline at one moment, apart from its runs and its audit: its own document and
// those of its lanes.
type Pipeline struct {
	// Layout numbers the ways in which the partitions were shared out: it grows with every change of the lanes.
	Layout   int
	Identity map[string]string
	Draining Draining
	// Audits is how many audit entries were ever written, and so the number of the last one.
	Audits    int64
	CreatedAt time.Time
	UpdatedBy string // what wrote last: a run's id or an operator
	// Lanes are the lanes' documents, that of lane i at i. A pipeline of which nothing is stored has none.
	Lanes []Checkpoint
}

// Draining is the mark of a pipeline whose lanes are to change: while it counts no lease is given, and whoever holds one
// ends soon. It stands in the pipeline's document and, so that no run needs a second read to see it and every lease that
// is taken at the same time fails its compare-and-set, in that of every lane. Without a By there is no mark.
type Draining struct {
	By            string // the run that set it
	Lanes, Layout int    // what is to come
	Since         time.Time
	// Until is when the mark ends by itself: a rollout that was taken back must not stop the old lanes for ever.
	Until time.Time
}

// Counts says whether there is a mark at a time of the store's clock.
func (d Draining) Counts(now time.Time) bool { return d.By != "" && now.Before(d.Until) }

// Audit is one entry of what was done to a pipeline's checkpoint by other means than moving records.
type Audit struct {
	// Number and At are given by the store: 1 is the first, and the time is the store's.
	Number int64
	At     time.Time
	Who    string // a run's id or an operator
	What   string // one word, such as "layout"
	Why    string
	// Before and After are what was changed, by field.
	Before, After map[string]string
}

// Clone returns a deep copy.
func (p Pipeline) Clone() Pipeline {
	p.Identity = maps.Clone(p.Identity)
	p.Lanes = slices.Clone(p.Lanes)
	for i := range p.Lanes {
		p.Lanes[i] = p.Lanes[i].Clone()
	}
	return p
}

// Check returns an error that names the first field that no program writes: see Checkpoint.Check.
func (p Pipeline) Check() error {
	var l limits
	l.least(0, int64(p.Layout), "layout")
	l.least(0, p.Audits, "audits")
	l.draining(p.Draining)
	return l.broken
}

// Consistent returns an error that names the first lane document that is not of this pipeline's layout.
func (p Pipeline) Consistent() error {
	for i, doc := range p.Lanes {
		if doc.Lane != i || doc.Lanes != len(p.Lanes) || doc.Layout != p.Layout {
			return fmt.Errorf("the document of lane %d says lane %d of %d under layout %d, the pipeline's has %d lanes under layout %d",
				i, doc.Lane, doc.Lanes, doc.Layout, len(p.Lanes), p.Layout)
		}
	}
	return nil
}

// Changed returns the lane documents that are not as they were before, as they are to be stored: of the newest schema,
// with a seq that was never used, and in the name of whoever changed the pipeline.
func (p Pipeline) Changed(before Pipeline) []Checkpoint {
	var changed []Checkpoint
	for i, doc := range p.Lanes {
		if i < len(before.Lanes) {
			if reflect.DeepEqual(doc, before.Lanes[i]) {
				continue
			}
			doc.Seq = max(doc.Seq, before.Lanes[i].Seq+1)
		}
		doc.Schema, doc.UpdatedBy = Schema, p.UpdatedBy
		changed = append(changed, doc)
	}
	return changed
}
