package record

import "time"

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run. Failed carries the error; which kind it is decides the HTTP status.
const (
	Done    Outcome = "done"
	Idle    Outcome = "idle"
	Partial Outcome = "partial"
	Paused  Outcome = "paused"
	Skipped Outcome = "skipped"
	Failed  Outcome = "failed"
)

// Report is the answer of a run, its log line and its stored summary. It never holds a payload or a credential.
type Report struct {
	Run      string  `json:"run"`
	Pipeline string  `json:"pipeline"`
	Lane     int     `json:"lane"`
	Outcome  Outcome `json:"outcome"`
	// StartedFrom says what the positions came from: "checkpoint", or the startingOffsets of a first run.
	StartedFrom string        `json:"startedFrom,omitempty"`
	Ranges      []RangeReport `json:"ranges"`
	// Read counts records, Written documents stored by this run, Duplicates those that were there already.
	Read         int64       `json:"read"`
	Written      int64       `json:"written"`
	Duplicates   int64       `json:"duplicates"`
	DeadLettered int64       `json:"deadLettered"`
	Filtered     int64       `json:"filtered"`
	Gaps         []GapReport `json:"gaps"`
	// Undecided counts offsets between the last stable offset and the high watermark, as far as it was asked for.
	Undecided int64 `json:"undecided"`
	// Unanswered counts known partitions of which Kafka said nothing: what they hold is not in Remaining.
	Unanswered int `json:"unanswered,omitempty"`
	// Remaining counts offsets that were in the log when the run began and are still to be read, null where Kafka was
	// not asked.
	Remaining *int64 `json:"remaining"`
	// OldestUnprocessedAgeSeconds is null where it is not known, 0 where nothing is left.
	OldestUnprocessedAgeSeconds *float64 `json:"oldestUnprocessedAgeSeconds"`
	// LimitedBy says what ended a partial run: records, bytes, time or stop.
	LimitedBy  string `json:"limitedBy,omitempty"`
	DurationMs int64  `json:"durationMs"`
	// Notices are lines for the operator that are no errors.
	Notices []string `json:"notices,omitempty"`
	// Error is one line; ErrorKind and ErrorClass are for programs.
	Error      string `json:"error,omitempty"`
	ErrorKind  string `json:"errorKind,omitempty"`
	ErrorClass string `json:"errorClass,omitempty"`

	StartedAt time.Time `json:"startedAt"`
}

// RangeReport is one range of a run: planned [from, to), done up to doneTo.
type RangeReport struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	DoneTo    int64  `json:"doneTo"`
	LogEnd    int64  `json:"logEnd"`
}

// GapReport is one gap that a run recorded.
type GapReport struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Reason    string `json:"reason"`
}
