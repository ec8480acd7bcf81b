package record

import (
	"fmt"
	"maps"
	"slices"
)

// Check returns an error that names the first field whose number no program writes. Documents are edited by hand, and a
// slip such as a negative offset would else look like lost data further on.
//
// It judges each field for itself: what a document must agree with, such as the configuration or the log, is not known here.
func (c Checkpoint) Check() error {
	var l limits
	l.least(0, int64(c.Lane), "lane")
	l.least(1, int64(c.Lanes), "lanes")
	l.least(0, int64(c.Layout), "layout")
	l.least(0, c.Seq, "seq")
	l.least(0, c.Lease.Epoch, "lease.epoch")
	l.draining(c.Draining)
	for _, name := range slices.Sorted(maps.Keys(c.Topics)) {
		l.least(0, c.Topics[name].Incarnation, "topics.%s.incarnation", name)
		l.least(0, c.Topics[name].Rewrite, "topics.%s.rewrite", name)
	}
	for _, p := range slices.SortedFunc(maps.Keys(c.Offsets), Partition.Compare) {
		at := c.Offsets[p]
		l.least(0, at.Offset, "offsets.%s.offset", p)
		l.least(-1, int64(at.LeaderEpoch), "offsets.%s.leaderEpoch", p)
		l.least(Unknown, at.LogStart, "offsets.%s.logStart", p)
		l.least(Unknown, at.LogEnd, "offsets.%s.logEnd", p)
	}
	for _, p := range slices.SortedFunc(maps.Keys(c.Missing), Partition.Compare) {
		l.least(0, int64(c.Missing[p].Runs), "missing.%s.runs", p)
	}
	for i, r := range c.Rejects {
		l.least(0, r.Records, "rejects[%d].records", i)
		l.least(0, r.Rejected, "rejects[%d].rejected", i)
	}
	for i, g := range c.Gaps {
		l.least(0, g.Incarnation, "gaps[%d].incarnation", i)
		if g.From > g.To && l.broken == nil {
			l.broken = fmt.Errorf("gaps[%d].from is %d, beyond its to, which is %d", i, g.From, g.To)
		}
	}
	l.least(0, c.GapRecords, "gapRecords")
	return l.broken
}

// limits keeps the first number that is out of its limits.
type limits struct{ broken error }

func (l *limits) draining(d Draining) {
	l.least(0, int64(d.Lanes), "draining.lanes")
	l.least(0, int64(d.Layout), "draining.layout")
}

func (l *limits) least(low, got int64, field string, of ...any) {
	if got < low && l.broken == nil {
		l.broken = fmt.Errorf("%s is %d, it is never below %d", fmt.Sprintf(field, of...), got, low)
	}
}
