package window

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// ReasonRetention is the reason of a gap whose records were deleted before they were read.
const ReasonRetention = "retention"

// A partition is given up on when it had no answer in this many runs and for this long: an election or a broker that
// restarts is over by then, and a schedule of a few seconds does not raise an alarm for it.
const (
	missingRuns = 3
	missingFor  = 10 * time.Minute
)

// goOn plans a topic that has a checkpoint.
func (p *planner) goOn(topic string, stored record.Topic, log record.TopicLog) error {
	if stored.ID != "" && log.ID == "" {
		p.notice("%s: Kafka tells no topic id any more (%s is stored): a recreated topic would not be noticed", topic, stored.ID)
	}
	if log.ID != "" {
		stored.ID = log.ID
	}
	p.plan.Topics[topic] = stored
	for _, part := range p.owned(topic, log) {
		b := log.Partitions[part.ID]
		pos, ok := p.in.Checkpoint.Offsets[part]
		if !ok {
			// Its first records were produced after the topic was started, so none of them may be skipped.
			if err := p.placeAtStart(part, b); err != nil {
				return err
			}
			continue
		}
		if log.ID == "" && b.LeaderEpoch != -1 && b.LeaderEpoch < pos.LeaderEpoch {
			// Epochs only grow while a topic lives. Without ids this is the one sign of another log of that name.
			return loss(LossError{
				Class: ClassEpochWentBack, Partition: part, Offset: pos.Offset,
				CheckpointEpoch: pos.LeaderEpoch, LeaderEpoch: b.LeaderEpoch,
			})
		}
		if err := p.placeKnown(part, pos, b); err != nil {
			return err
		}
	}
	return p.skipMissing(topic, log.Partitions)
}

// placeKnown compares a position with the log before it is read from.
func (p *planner) placeKnown(part record.Partition, pos record.Position, b record.Bounds) error {
	if err := answered(part, pos.Offset, b); err != nil {
		return err
	}
	switch {
	case b.Start > pos.Offset: // an unknown start is below every position
		if !p.in.Resume {
			return loss(LossError{
				Class: ClassBeforeLogStart, Partition: part, Offset: pos.Offset, LogStart: b.Start,
			})
		}
		p.gap(part, pos.Offset, b.Start)
		pos.Offset = b.Start
	case b.End < pos.Offset && b.HighWatermark < pos.Offset:
		// Not even resume passes this: what was read may not be what the log holds now.
		return loss(LossError{
			Class: ClassBeyondLogEnd, Partition: part, Offset: pos.Offset, LogEnd: b.HighWatermark,
		})
	}
	p.place(part, pos, b)
	return nil
}

// answered refuses bounds that lack a number which the position makes necessary.
func answered(part record.Partition, offset int64, b record.Bounds) error {
	switch {
	case b.End < 0:
		return unanswered(part, "log end")
	case b.End > offset && b.Start < 0:
		return unanswered(part, "log start")
	case b.End < offset && b.HighWatermark < 0:
		return unanswered(part, "high watermark")
	}
	return nil
}

func unanswered(part record.Partition, what string) error {
	return fault.Transientf("planning %s: Kafka's answer has no %s", part, what)
}

// restart plans a topic that was deleted and created again: all of the new log, as the next incarnation.
func (p *planner) restart(topic string, stored record.Topic, log record.TopicLog) error {
	if !p.in.Resume {
		return loss(LossError{
			Class: ClassRecreated, Partition: wholeTopic(topic), CheckpointTopicID: stored.ID, TopicID: log.ID,
		})
	}
	unread := int64(0)
	for part, pos := range p.in.Checkpoint.Offsets {
		// Those that are not owned go too: the id is stored for all, so one that is assigned again later would look like
		// a position in the new log.
		if part.Topic != topic {
			continue
		}
		unread = addCapped(unread, max(0, pos.LogEnd-pos.Offset))
		delete(p.plan.Offsets, part)
	}
	reset := Reset{Topic: topic, From: stored.ID, To: log.ID, Incarnation: stored.Incarnation + 1}
	p.plan.Resets = append(p.plan.Resets, reset)
	stored.ID, stored.Incarnation = reset.To, reset.Incarnation
	p.plan.Topics[topic] = stored
	p.notice("%s: recreated, topic id %s is now %s: incarnation %d starts at its earliest. What was not read of the old log is lost: "+
		"%d offsets as it was last seen, and what came after that, which is not known",
		topic, reset.From, reset.To, reset.Incarnation, unread)
	for _, part := range p.owned(topic, log) {
		b := log.Partitions[part.ID]
		if err := p.placeAtStart(part, b); err != nil {
			return err
		}
		if b.Start > 0 {
			p.notice("%s: the new log begins at %d: what was before that was deleted before it was read", part, b.Start)
		}
	}
	return nil
}

func (p *planner) placeAtStart(part record.Partition, b record.Bounds) error {
	switch {
	case b.Start < 0:
		return unanswered(part, "log start")
	case b.End < 0:
		return unanswered(part, "log end")
	}
	p.place(part, fresh(b.Start), b)
	return nil
}

// fresh returns a position of which nothing but the offset is known. It has never moved, so it is first in line.
func fresh(offset int64) record.Position {
	return record.Position{Offset: offset, LeaderEpoch: -1, LogStart: record.Unknown, LogEnd: record.Unknown}
}

// skipMissing counts the known partitions without an answer; their positions stay. When the time of waiting is over,
// onDataLoss decides. Resume goes on without them and records no gap: how much was lost cannot be known, and if a
// partition comes back, its position is compared with its log like any other.
func (p *planner) skipMissing(topic string, log map[int32]record.Bounds) error {
	var missing []record.Partition
	for part := range p.in.Checkpoint.Offsets {
		if _, ok := log[part.ID]; part.Topic == topic && p.owns(part) && !ok {
			missing = append(missing, part)
		}
	}
	if len(missing) == 0 {
		if log == nil {
			p.notice("%s: Kafka does not know this topic", topic)
		}
		return nil
	}
	slices.SortFunc(missing, record.Partition.Compare)
	var over []LossError
	since := p.in.Now
	for _, part := range missing {
		m := p.countMissing(part)
		if m.Since.Before(since) {
			since = m.Since
		}
		if m.Runs >= missingRuns && p.in.Now.Sub(m.Since) >= missingFor {
			over = append(over, LossError{
				Class: ClassPartitionMissing, Partition: part, Offset: p.in.Checkpoint.Offsets[part].Offset,
				Since: m.Since, TopicGone: log == nil,
			})
		}
	}
	if len(over) > 0 && !p.in.Resume {
		over[0].More = len(over) - 1
		return loss(over[0])
	}
	fate := "skipped"
	if len(over) > 0 {
		fate = "onDataLoss: resume goes on without them, and how much is lost is not known"
	}
	p.notice("%s%s: no answer from Kafka since %s: %s; positions are kept",
		missing[0], andMore(len(missing)-1), since.UTC().Format(time.RFC3339), fate)
	return nil
}

// countMissing stops at the number that decides: more would write the document in every run of an idle pipeline.
func (p *planner) countMissing(part record.Partition) record.Missing {
	m, ok := p.in.Checkpoint.Missing[part]
	if !ok {
		m.Since = p.in.Now
	}
	m.Runs = max(m.Runs, min(m.Runs+1, missingRuns))
	p.plan.Missing[part] = m
	return m
}

func (p *planner) notice(format string, args ...any) {
	p.plan.Notices = append(p.plan.Notices, fmt.Sprintf(format, args...))
}
