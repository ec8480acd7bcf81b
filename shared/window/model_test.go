package window_test

import (
	"maps"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// complete returns the checkpoint after a run that read all of its plan.
func complete(stored record.Checkpoint, plan window.Plan, now time.Time) record.Checkpoint {
	next := stored.Clone()
	next.Topics = maps.Clone(plan.Topics)
	next.Offsets = maps.Clone(plan.Offsets)
	next.Missing = maps.Clone(plan.Missing)
	for _, r := range plan.Ranges {
		pos := next.Offsets[r.Partition]
		pos.Offset, pos.MovedAt = r.To, now
		next.Offsets[r.Partition] = pos
	}
	return next
}

// checkWaiting keeps in waited for how many runs in a row each partition had records and was given none.
func checkWaiting(t rapid.TB, waited map[record.Partition]int, in window.Input, plan window.Plan, within int) {
	t.Helper()
	served := map[record.Partition]bool{}
	for _, r := range plan.Ranges {
		served[r.Partition] = true
	}
	for part, pos := range plan.Offsets {
		if served[part] || in.Log.Topics[part.Topic].Partitions[part.ID].End <= pos.Offset {
			waited[part] = 0
			continue
		}
		waited[part]++
		if waited[part] >= within {
			t.Errorf("%s has records and was given none in %d runs", part, waited[part])
		}
	}
}

func total(plan window.Plan) int64 {
	n := int64(0)
	for _, r := range plan.Ranges {
		n += r.To - r.From
	}
	return n
}

func grow(log record.Log, part record.Partition, n int64) {
	b := log.Topics[part.Topic].Partitions[part.ID]
	b.End += n
	b.HighWatermark = max(b.HighWatermark, b.End)
	log.Topics[part.Topic].Partitions[part.ID] = b
}

func setTopic(c *record.Checkpoint, topic string, known record.Topic) {
	if c.Topics == nil {
		c.Topics = map[string]record.Topic{}
	}
	c.Topics[topic] = known
}

func setOffset(c *record.Checkpoint, part record.Partition, offset int64) {
	if c.Offsets == nil {
		c.Offsets = map[record.Partition]record.Position{}
	}
	c.Offsets[part] = record.Position{Offset: offset, LeaderEpoch: -1, LogStart: record.Unknown, LogEnd: record.Unknown}
}
