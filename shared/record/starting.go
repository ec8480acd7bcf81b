package record

import "time"

// StartingOffsets says where a topic without a checkpoint is started. The JSON form is Spark's.
type StartingOffsets struct {
	// Mode is one of the Start constants.
	Mode StartMode
	// Timestamp is set in mode StartTimestamp.
	Timestamp time.Time
	// Offsets is set in mode StartOffsets: -2 is earliest, -1 latest, others are taken as they are.
	Offsets map[Partition]int64
}

// StartMode is the form of a StartingOffsets.
type StartMode string

// The forms of startingOffsets.
const (
	StartEarliest  StartMode = "earliest"
	StartLatest    StartMode = "latest"
	StartNone      StartMode = "none"
	StartTimestamp StartMode = "timestamp"
	StartOffsets   StartMode = "offsets"
)

// The special offsets of Spark's JSON form.
const (
	OffsetEarliest int64 = -2
	OffsetLatest   int64 = -1
)
