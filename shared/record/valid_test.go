package record_test

import (
	"testing"

	"github.com/tidemark/tidemark/shared/record"
)

func TestCheckpoint_CheckNamesTheFieldAndTheNumber(t *testing.T) {
	t.Parallel()
	p := record.Partition{Topic: "orders", ID: 1}
	position := func(change func(*record.Position)) func(*record.Checkpoint) {
		return func(c *record.Checkpoint) {
			at := c.Offsets[p]
			change(&at)
			c.Offsets[p] = at
		}
	}
	for _, test := range []struct {
		says  string
		spoil func(*record.Checkpoint)
	}{
		{"lane is -1, it is never below 0", func(c *record.Checkpoint) { c.Lane = -1 }},
		{"lanes is 0, it is never below 1", func(c *record.Checkpoint) { c.Lanes = 0 }},
		{"layout is -1, it is never below 0", func(c *record.Checkpoint) { c.Layout = -1 }},
		{"seq is -4, it is never below 0", func(c *record.Checkpoint) { c.Seq = -4 }},
		{"lease.epoch is -5, it is never below 0", func(c *record.Checkpoint) { c.Lease.Epoch = -5 }},
		{"topics.orders.incarnation is -1, it is never below 0", func(c *record.Checkpoint) { c.Topics["orders"] = record.Topic{Incarnation: -1} }},
		{"topics.orders.rewrite is -2, it is never below 0", func(c *record.Checkpoint) { c.Topics["orders"] = record.Topic{Rewrite: -2} }},
		{"offsets.orders/1.offset is -5, it is never below 0", position(func(at *record.Position) { at.Offset = -5 })},
		{"offsets.orders/1.offset is -1, it is never below 0", position(func(at *record.Position) { at.Offset = record.Unknown })},
		{"offsets.orders/1.leaderEpoch is -2, it is never below -1", position(func(at *record.Position) { at.LeaderEpoch = -2 })},
		{"offsets.orders/1.logStart is -2, it is never below -1", position(func(at *record.Position) { at.LogStart = -2 })},
		{"offsets.orders/1.logEnd is -9, it is never below -1", position(func(at *record.Position) { at.LogEnd = -9 })},
		{"missing.orders/1.runs is -1, it is never below 0", func(c *record.Checkpoint) { c.Missing[p] = record.Missing{Runs: -1} }},
		{"rejects[0].records is -10, it is never below 0", func(c *record.Checkpoint) { c.Rejects[0].Records = -10 }},
		{"rejects[0].rejected is -1, it is never below 0", func(c *record.Checkpoint) { c.Rejects[0].Rejected = -1 }},
		{"gaps[0].incarnation is -1, it is never below 0", func(c *record.Checkpoint) { c.Gaps[0].Incarnation = -1 }},
		{"gaps[0].from is 3, beyond its to, which is 2", func(c *record.Checkpoint) { c.Gaps[0].From = 3 }},
		{"gapRecords is -1, it is never below 0", func(c *record.Checkpoint) { c.GapRecords = -1 }},
		{"draining.lanes is -1, it is never below 0", func(c *record.Checkpoint) { c.Draining.Lanes = -1 }},
		{"draining.layout is -2, it is never below 0", func(c *record.Checkpoint) { c.Draining.Layout = -2 }},
		{"lane is -1, it is never below 0", func(c *record.Checkpoint) { c.Lane, c.Seq, c.Gaps[0].From = -1, -1, 3 }},
	} {
		doc := full()
		test.spoil(&doc)
		if err := doc.Check(); err == nil || err.Error() != test.says {
			t.Errorf("error %v, want %q", err, test.says)
		}
	}
}

func TestCheckpoint_CheckAcceptsWhatProgramsWrite(t *testing.T) {
	t.Parallel()
	p := record.Partition{Topic: "orders", ID: 1}
	unread := full()
	unread.Offsets[p] = record.Position{LeaderEpoch: -1, LogStart: record.Unknown, LogEnd: record.Unknown}
	empty := full()
	empty.Gaps = []record.Gap{{Range: record.Range{Partition: p, From: 7, To: 7}}}
	for name, doc := range map[string]record.Checkpoint{
		"every field set": full(),
		"first document":  {Schema: record.Schema, Lanes: 1},
		"sibling":         full().Sibling(0),
		"nothing known":   unread,
		"empty gap":       empty,
	} {
		if err := doc.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
