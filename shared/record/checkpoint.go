package record

import (
	"maps"
	"slices"
	"time"
)

// Schema is the version of the stored documents that this program writes. An older one is brought to this one when it is
// read, and stored so by the next write; a newer one is refused, so that no program drops what it does not know.
//
//	1  the first one
//	2  draining, in the documents of the pipeline and of the lanes; audits, in that of the pipeline
const Schema = 2

// Checkpoint is the document of one lane. It is read once a run and written by compare-and-set only.
type Checkpoint struct {
	Schema int
	Lane   int
	// Lanes and Layout say how the partitions were shared out when this document was written.
	Lanes  int
	Layout int
	// Paused is set by an operator: no run reads or writes.
	Paused bool
	// Draining is the pipeline's mark.
	Draining Draining
	// Seq grows by one with every write, so that two writes never look the same to a compare-and-set and a writer
	// whose answer was lost can find out whether it was stored.
	Seq   int64
	Lease Lease
	// Identity is what the offsets belong to: cluster, topics, namespace, mode, id rule, format.
	Identity map[string]string
	Topics   map[string]Topic
	Offsets  map[Partition]Position
	// Missing counts the runs in which a known partition had no answer.
	Missing map[Partition]Missing
	// Rejects is the recent history that maxRatio is judged by, oldest first.
	Rejects []RejectCount
	// Gaps are the last gaps; GapRecords is the total of all, which is never forgotten.
	Gaps       []Gap
	GapRecords int64
	// StartingOffsets is the setting that was in force when this lane first ran.
	StartingOffsets string
	LastRun         string // id of the last run that wrote
	UpdatedBy       string // what wrote last: a run's id or an operator
}

// Lease says who may write the lane until when, by the store's clock.
type Lease struct {
	Holder string
	// Epoch grows by one with every lease given: the fencing token.
	Epoch     int64
	ExpiresAt time.Time
}

// Topic is what a lane knows of a topic.
type Topic struct {
	ID          string // topic id, "" where it is not known
	Incarnation int64  // how often it was recreated while the checkpoint went on
	Rewrite     int64  // how often an operator asked for a rewrite
}

// Position is the checkpoint of one partition.
type Position struct {
	Offset      int64 // the next offset to read
	LeaderEpoch int32 // of the last record read, -1 where it is not known
	LogStart    int64 // bounds as last seen, Unknown where they never were
	LogEnd      int64
	SeenAt      time.Time // when the bounds were seen
	MovedAt     time.Time // when Offset last grew
}

// Missing counts the runs in a row in which a partition had no answer.
type Missing struct {
	Runs  int
	Since time.Time
}

// RejectCount is one stretch of records and how many of them were rejected.
type RejectCount struct {
	Records, Rejected int64
}

// Gap is a range of offsets that was passed without being read, because it was lost.
type Gap struct {
	Range
	Incarnation int64
	Reason      string
	SeenAt      time.Time
}

// Clone returns a deep copy.
func (c Checkpoint) Clone() Checkpoint {
	c.Identity = maps.Clone(c.Identity)
	c.Topics = maps.Clone(c.Topics)
	c.Offsets = maps.Clone(c.Offsets)
	c.Missing = maps.Clone(c.Missing)
	c.Rejects = slices.Clone(c.Rejects)
	c.Gaps = slices.Clone(c.Gaps)
	return c
}
