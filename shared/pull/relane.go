package pull

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// relane shares out what the lanes of a pipeline know to another number of lanes. Nothing is read or thought up: each
// position, gap and absence goes with its partition. It is Fatal where one lane would have to believe two things of a topic.
func relane(p record.Pipeline, lanes, layout int, by string) (record.Pipeline, error) {
	m := &relaning{from: p.Lanes, to: make([]record.Checkpoint, lanes), homes: map[record.Partition]int{}}
	for lane := range m.to {
		m.to[lane] = m.empty(lane, layout, by)
	}
	for i, old := range m.from {
		if err := m.positions(i, old); err != nil {
			return record.Pipeline{}, err
		}
		m.gaps(old)
	}
	for lane := range m.to {
		if err := m.topics(lane); err != nil {
			return record.Pipeline{}, err
		}
		if err := m.identity(&m.to[lane]); err != nil {
			return record.Pipeline{}, err
		}
		m.rejects(lane)
		keepGaps(&m.to[lane], nil)
	}
	p = p.Clone()
	p.Lanes, p.Layout, p.Draining, p.UpdatedBy = m.to, layout, record.Draining{}, by
	return p, nil
}

type relaning struct {
	from, to []record.Checkpoint
	homes    map[record.Partition]int // the old lane of each position
}

// empty is a lane as it is without any partition. Its epoch and seq are above all that were ever given, so that no
// zombie's write is taken for one of the new lanes.
func (m *relaning) empty(lane, layout int, by string) record.Checkpoint {
	doc := record.Checkpoint{
		Schema: record.Schema, Lane: lane, Lanes: len(m.to), Layout: layout, UpdatedBy: by,
		Identity: map[string]string{}, Topics: map[string]record.Topic{},
		Offsets: map[record.Partition]record.Position{}, Missing: map[record.Partition]record.Missing{},
	}
	if lane < len(m.from) {
		doc.LastRun = m.from[lane].LastRun
	}
	for _, old := range m.from {
		doc.Paused = doc.Paused || old.Paused
		doc.Seq = max(doc.Seq, old.Seq+1)
		doc.Lease.Epoch = max(doc.Lease.Epoch, old.Lease.Epoch+1)
		doc.StartingOffsets = cmp.Or(doc.StartingOffsets, old.StartingOffsets)
	}
	return doc
}

func (m *relaning) positions(lane int, old record.Checkpoint) error {
	for _, partition := range slices.SortedFunc(maps.Keys(old.Offsets), record.Partition.Compare) {
		if other, twice := m.homes[partition]; twice {
			return fault.Fatalf("lanes-disagree", "%s has a position in lane %d and in lane %d, %d and %d: take out the one that is not right, by hand",
				partition, other, lane, m.from[other].Offsets[partition].Offset, old.Offsets[partition].Offset)
		}
		m.homes[partition] = lane
		m.to[partition.Lane(len(m.to))].Offsets[partition] = old.Offsets[partition]
	}
	for partition, missing := range old.Missing {
		m.to[partition.Lane(len(m.to))].Missing[partition] = missing
	}
	return nil
}

// gaps moves the gaps that are kept one by one. What the total has beyond them goes to the first lane: whose it was is
// not known any more, and the sum over all lanes is what must stay.
func (m *relaning) gaps(old record.Checkpoint) {
	rest := old.GapRecords
	for _, gap := range old.Gaps {
		to := &m.to[gap.Partition.Lane(len(m.to))]
		to.Gaps = append(to.Gaps, gap)
		slices.SortStableFunc(to.Gaps, func(a, b record.Gap) int { return a.SeenAt.Compare(b.SeenAt) })
		known := min(rest, gap.To-gap.From)
		to.GapRecords += known
		rest -= known
	}
	m.to[0].GapRecords += rest
}

// topics takes over every topic that any lane knows: a partition of one that is not known would be started anew. The
// lanes that a lane has positions from must agree on it, because an incarnation is part of the _id of what is written
// next: what was written and not committed would be there twice.
func (m *relaning) topics(lane int) error {
	to := &m.to[lane]
	for i, old := range m.from {
		for name, topic := range old.Topics {
			if known, ok := to.Topics[name]; !ok || newer(topic, known) {
				to.Topics[name] = m.from[i].Topics[name]
			}
		}
	}
	said := map[string]int{} // the lane whose word on a topic counts
	for _, partition := range slices.SortedFunc(maps.Keys(to.Offsets), record.Partition.Compare) {
		home := m.homes[partition]
		topic, ok := m.from[home].Topics[partition.Topic]
		if !ok {
			continue
		}
		first, ok := said[partition.Topic]
		if !ok {
			said[partition.Topic], to.Topics[partition.Topic] = home, topic
			continue
		}
		known := to.Topics[partition.Topic]
		if known.Incarnation != topic.Incarnation || known.Rewrite != topic.Rewrite || known.ID != "" && topic.ID != "" && known.ID != topic.ID {
			return fault.Fatalf("lanes-disagree", "lane %d knows topic %s as %s and lane %d as %s, so they cannot become one: set run.layout and run.lanes "+
				"back, let every lane run, and raise them again; if they still differ, take a multiple of %d lanes", first, partition.Topic,
				shown(known), home, shown(topic), len(m.from))
		}
		if known.ID == "" {
			to.Topics[partition.Topic] = topic
		}
	}
	return nil
}

// newer orders what two lanes say of a topic for a lane that has no position in it.
func newer(a, b record.Topic) bool {
	return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Rewrite, b.Rewrite), cmp.Compare(len(a.ID), len(b.ID))) > 0
}

func shown(t record.Topic) string {
	return fmt.Sprintf("id %q, incarnation %d, rewrite %d", t.ID, t.Incarnation, t.Rewrite)
}

// identity is the same in every lane, as far as they have run.
func (m *relaning) identity(to *record.Checkpoint) error {
	for i, old := range m.from {
		for _, key := range slices.Sorted(maps.Keys(old.Identity)) {
			was, is := to.Identity[key], old.Identity[key]
			if was != "" && is != "" && was != is {
				return fault.Fatalf("lanes-disagree", "%s is %q in lane %d and was %q in a lane before it: they belong to different things and "+
					"cannot become one: set run.layout and run.lanes back", key, is, i, was)
			}
			to.Identity[key] = cmp.Or(was, is)
		}
	}
	return nil
}

// rejects adds up the histories of the lanes that the new one may have partitions from, the newest with the newest: it
// is the recent past that maxRatio looks at, and a lane that is split in two leaves it to both.
func (m *relaning) rejects(lane int) {
	common := divisor(len(m.from), len(m.to))
	to := &m.to[lane]
	for i, old := range m.from {
		if i%common != lane%common {
			continue
		}
		for len(to.Rejects) < len(old.Rejects) {
			to.Rejects = append([]record.RejectCount{{}}, to.Rejects...)
		}
		ahead := len(to.Rejects) - len(old.Rejects)
		for j, stretch := range old.Rejects {
			to.Rejects[ahead+j].Records += stretch.Records
			to.Rejects[ahead+j].Rejected += stretch.Rejected
		}
	}
}

// divisor is the greatest one that both have. The hashes that lane i of a owns and lane j of b owns have one in common
// only where i and j are the same modulo it.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
