package pull

import (
	"maps"
	"slices"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// topics returns what the pipeline reads: the configured topics, or with a pattern those that matched in this log and
// those that matched before, which may be missing from one answer.
func (r *Runner) topics(checkpoint record.Checkpoint, log record.Log) ([]string, error) {
	if r.Pattern == "" {
		return r.Topics, nil
	}
	all := map[string]bool{}
	for topic := range log.Topics {
		all[topic] = true
	}
	for topic := range checkpoint.Topics {
		all[topic] = true
	}
	if len(all) == 0 {
		return nil, fault.Fatalf("no-topic-matches", "no topic matches source.subscribePattern %q: it must match the whole name of a "+
			"topic that this client may describe; internal topics never match", r.Pattern)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// startingAt returns where topics without a position are started. One that comes to match a pattern after the first run
// was not there before: all of it is new.
func (r *Runner) startingAt(checkpoint record.Checkpoint) record.StartingOffsets {
	if r.Pattern != "" && started(checkpoint) {
		return record.StartingOffsets{Mode: record.StartEarliest}
	}
	return r.Starting
}

// started tells whether the lane has had its first run.
func started(checkpoint record.Checkpoint) bool { return checkpoint.StartingOffsets != "" }

// wantTimestamps asks for the offsets of a timestamp in the topics that are to be started by it, as far as they are
// known: those of a pattern are known from a first answer only. It says whether the question changed.
func (r *Runner) wantTimestamps(query *record.BoundsQuery, checkpoint record.Checkpoint, topics []string) bool {
	starting := r.startingAt(checkpoint)
	if starting.Mode != record.StartTimestamp {
		return false
	}
	query.Timestamp = starting.Timestamp.UnixMilli()
	wanted := map[string]bool{}
	for _, topic := range topics {
		if _, known := checkpoint.Topics[topic]; !known {
			wanted[topic] = true
		}
	}
	changed := !maps.Equal(wanted, query.TimestampTopics)
	query.TimestampTopics = wanted
	return changed
}
