package localcheckpoint

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// document is a lane document as it stands in its file. Every field is required but the times, which are left out where
// they are zero.
type document struct {
	Schema          int                    `json:"schema"`
	Lane            int                    `json:"lane"`
	Lanes           int                    `json:"lanes"`
	Layout          int                    `json:"layout"`
	Paused          bool                   `json:"paused"`
	Seq             int64                  `json:"seq"`
	Lease           leaseDoc               `json:"lease"`
	Identity        map[string]string      `json:"identity"`
	StartingOffsets string                 `json:"startingOffsets"`
	Topics          map[string]topicDoc    `json:"topics"`
	Offsets         map[string]positionDoc `json:"offsets"`
	Missing         map[string]missingDoc  `json:"missing"`
	Rejects         []rejectDoc            `json:"rejects"`
	Gaps            []gapDoc               `json:"gaps"`
	GapRecords      int64                  `json:"gapRecords"`
	LastRun         string                 `json:"lastRun"`
	UpdatedBy       string                 `json:"updatedBy"`
	Draining        drainingDoc            `json:"draining"` // from schema 2 on
	// Run is the report that was stored with this write. Being in the same file makes the two one atomic write; its own
	// file under runs/ is made from it. It is never read as a report: another version may have written it.
	Run json.RawMessage `json:"run,omitempty"`
}

type leaseDoc struct {
	Holder    string    `json:"holder"`
	Epoch     int64     `json:"epoch"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

type drainingDoc struct {
	By     string    `json:"by"`
	Lanes  int       `json:"lanes"`
	Layout int       `json:"layout"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

func fromDraining(d record.Draining) drainingDoc {
	d.Since, d.Until = micros(d.Since), micros(d.Until)
	return drainingDoc(d)
}

func (d drainingDoc) draining() record.Draining {
	d.Since, d.Until = micros(d.Since), micros(d.Until)
	return record.Draining(d)
}

type topicDoc struct {
	ID          string `json:"id"`
	Incarnation int64  `json:"incarnation"`
	Rewrite     int64  `json:"rewrite"`
}

type positionDoc struct {
	Offset      int64     `json:"offset"`
	LeaderEpoch int32     `json:"leaderEpoch"`
	LogStart    int64     `json:"logStart"`
	LogEnd      int64     `json:"logEnd"`
	SeenAt      time.Time `json:"seenAt,omitzero"`
	MovedAt     time.Time `json:"movedAt,omitzero"`
}

type missingDoc struct {
	Runs  int       `json:"runs"`
	Since time.Time `json:"since,omitzero"`
}

type rejectDoc struct {
	Records  int64 `json:"records"`
	Rejected int64 `json:"rejected"`
}

type gapDoc struct {
	Partition   string    `json:"partition"`
	From        int64     `json:"from"`
	To          int64     `json:"to"`
	Incarnation int64     `json:"incarnation"`
	Reason      string    `json:"reason"`
	SeenAt      time.Time `json:"seenAt,omitzero"`
}

func fromCheckpoint(c record.Checkpoint) document {
	d := document{
		Schema: c.Schema, Lane: c.Lane, Lanes: c.Lanes, Layout: c.Layout, Paused: c.Paused, Seq: c.Seq,
		Lease:           leaseDoc{Holder: c.Lease.Holder, Epoch: c.Lease.Epoch, ExpiresAt: micros(c.Lease.ExpiresAt)},
		Identity:        make(map[string]string, len(c.Identity)),
		StartingOffsets: c.StartingOffsets,
		Topics:          make(map[string]topicDoc, len(c.Topics)),
		Offsets:         make(map[string]positionDoc, len(c.Offsets)),
		Missing:         make(map[string]missingDoc, len(c.Missing)),
		Rejects:         make([]rejectDoc, 0, len(c.Rejects)),
		Gaps:            make([]gapDoc, 0, len(c.Gaps)),
		GapRecords:      c.GapRecords, LastRun: c.LastRun, UpdatedBy: c.UpdatedBy,
		Draining: fromDraining(c.Draining),
	}
	for name, value := range c.Identity {
		d.Identity[name] = value
	}
	for name, t := range c.Topics {
		d.Topics[name] = topicDoc(t)
	}
	for p, at := range c.Offsets {
		at.SeenAt, at.MovedAt = micros(at.SeenAt), micros(at.MovedAt)
		d.Offsets[p.String()] = positionDoc(at)
	}
	for p, m := range c.Missing {
		d.Missing[p.String()] = missingDoc{Runs: m.Runs, Since: micros(m.Since)}
	}
	for _, r := range c.Rejects {
		d.Rejects = append(d.Rejects, rejectDoc(r))
	}
	for _, g := range c.Gaps {
		d.Gaps = append(d.Gaps, gapDoc{
			Partition: g.Partition.String(), From: g.From, To: g.To,
			Incarnation: g.Incarnation, Reason: g.Reason, SeenAt: micros(g.SeenAt),
		})
	}
	return d
}

func (d document) checkpoint() (record.Checkpoint, error) {
	c := record.Checkpoint{
		Schema: d.Schema, Lane: d.Lane, Lanes: d.Lanes, Layout: d.Layout, Paused: d.Paused, Seq: d.Seq,
		Lease:           record.Lease{Holder: d.Lease.Holder, Epoch: d.Lease.Epoch, ExpiresAt: micros(d.Lease.ExpiresAt)},
		Identity:        d.Identity,
		StartingOffsets: d.StartingOffsets,
		Topics:          make(map[string]record.Topic, len(d.Topics)),
		Offsets:         make(map[record.Partition]record.Position, len(d.Offsets)),
		Missing:         make(map[record.Partition]record.Missing, len(d.Missing)),
		GapRecords:      d.GapRecords, LastRun: d.LastRun, UpdatedBy: d.UpdatedBy,
		Draining: d.Draining.draining(),
	}
	for name, t := range d.Topics {
		c.Topics[name] = record.Topic(t)
	}
	for key, at := range d.Offsets {
		p, err := parsePartition(key)
		if err != nil {
			return record.Checkpoint{}, fmt.Errorf("offsets: %w", err)
		}
		at.SeenAt, at.MovedAt = micros(at.SeenAt), micros(at.MovedAt)
		c.Offsets[p] = record.Position(at)
	}
	for key, m := range d.Missing {
		p, err := parsePartition(key)
		if err != nil {
			return record.Checkpoint{}, fmt.Errorf("missing: %w", err)
		}
		c.Missing[p] = record.Missing{Runs: m.Runs, Since: micros(m.Since)}
	}
	for _, r := range d.Rejects {
		c.Rejects = append(c.Rejects, record.RejectCount(r))
	}
	for i, g := range d.Gaps {
		p, err := parsePartition(g.Partition)
		if err != nil {
			return record.Checkpoint{}, fmt.Errorf("gaps[%d]: %w", i, err)
		}
		c.Gaps = append(c.Gaps, record.Gap{
			Range:       record.Range{Partition: p, From: g.From, To: g.To},
			Incarnation: g.Incarnation, Reason: g.Reason, SeenAt: micros(g.SeenAt),
		})
	}
	return c, nil
}

// micros cuts a time to what every store keeps: Firestore has microseconds, and a store that kept more would hide that.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// parsePartition is the inverse of record.Partition.String. The topic may hold slashes; a second spelling of a number,
// such as 03, is refused, because two keys could then mean one partition.
func parsePartition(key string) (record.Partition, error) {
	slash := strings.LastIndexByte(key, '/')
	if slash < 0 {
		return record.Partition{}, fmt.Errorf("%q is not topic/partition", key)
	}
	id, err := strconv.ParseInt(key[slash+1:], 10, 32)
	if err != nil || strconv.FormatInt(id, 10) != key[slash+1:] {
		return record.Partition{}, fmt.Errorf("%q does not end in a partition number", key)
	}
	return record.Partition{Topic: key[:slash], ID: int32(id)}, nil
}
