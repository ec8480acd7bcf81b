package pull

import (
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// Settings say what a run may do. They are plain values: package config checks them and the wiring fills them in.
type Settings struct {
	Pipeline string
	// Topics are read, or with a Pattern, which the Source matches, those that it answers for.
	Topics  []string
	Pattern string
	// Assign narrows a topic to the partitions that are read; a topic that is not in it is read whole.
	Assign map[string][]int32
	// Lanes share out the partitions. Layout is raised with every change of Lanes.
	Lanes, Layout int
	// Identity is what the offsets belong to, apart from the Kafka cluster: sink namespace, mode, id rule, format.
	Identity map[string]string

	Starting record.StartingOffsets
	// StartingText is startingOffsets as it is written, kept to say when it was changed after the first run.
	StartingText string
	// ResumeAfterLoss is onDataLoss: resume.
	ResumeAfterLoss bool

	// MaxRecords and MaxBytes bound what a run reads; 0 is no limit. MinPerPartition keeps small partitions going.
	MaxRecords, MaxBytes, MinPerPartition int64
	// InFlight bounds the bytes of records that were read and are not yet acknowledged. One batch may exceed it.
	InFlight int64
	// ChunkRecords and ChunkBytes bound one write, Writers how many are sent at once.
	ChunkRecords int
	ChunkBytes   int64
	Writers      int

	// LeaseLength and Heartbeat are the terms of the lease.
	LeaseLength, Heartbeat time.Duration
	// WritesEndWithLease bounds each write by the end of the lease as it then is. Deletes need it: a document that a
	// newer run deleted must not come back by a write that comes late. Every other write is harmless whenever it comes,
	// and may take longer than a lease.
	WritesEndWithLease bool
	// CommitEvery is the shortest time between two commits of progress: a Firestore document takes about one write a
	// second.
	CommitEvery time.Duration
	// Reserve is kept at the end of the run's time for draining and the last commit.
	Reserve time.Duration
	// Patience is how long a part that has not answered in this run is tried before the run gives up on it. A part
	// that did answer is tried for as long as the run may last.
	Patience time.Duration

	// StopAtReject is onReject: stop. MaxRejectRatio of the last RejectWindow records (or of this run's, where it read
	// more) may become dead letters before the run stops.
	StopAtReject   bool
	MaxRejectRatio float64
	RejectWindow   int64
}

// Defaults of the settings that have no key in the config.
const (
	DefaultCommitEvery = time.Second
	DefaultPatience    = 10 * time.Second
)

// ReserveOf is the part of a run's time that is kept for its end: a quarter, and at most 15 s, which is longer than one
// bounded write and one commit take together.
func ReserveOf(deadline time.Duration) time.Duration {
	return min(deadline/4, 15*time.Second)
}
