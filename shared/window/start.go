package window

import (
	"slices"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// start plans a topic without a checkpoint: startingOffsets counts for it, this once.
func (p *planner) start(topic string, log record.TopicLog) error {
	parts := p.owned(topic, log)
	if err := p.startable(topic, log); err != nil {
		return err
	}
	p.plan.Topics[topic] = record.Topic{ID: log.ID}
	p.plan.FirstRun = append(p.plan.FirstRun, topic)
	if log.ID == "" {
		p.notice("%s: Kafka tells no topic id (brokers before 2.8): a recreated topic is only noticed by numbers that do not fit", topic)
	}
	for _, part := range parts {
		b := log.Partitions[part.ID]
		offset, err := p.startAt(part, b)
		if err != nil {
			return err
		}
		p.place(part, fresh(offset), b)
	}
	return nil
}

// startable refuses a start that would have to guess.
func (p *planner) startable(topic string, log record.TopicLog) error {
	switch p.in.Starting.Mode {
	case record.StartEarliest:
		return nil // a partition that answers later starts at its earliest all the same
	case record.StartLatest, record.StartTimestamp, record.StartOffsets:
	case record.StartNone:
		return loss(LossError{Class: ClassNoStart, Partition: wholeTopic(topic), Starting: true})
	default:
		return fault.Fatalf(ClassNoStart, "%s: startingOffsets has the unknown form %q", topic, p.in.Starting.Mode)
	}
	// A partition that is left out now would later count as new and be read from its earliest.
	count := exist(log)
	for id := range count {
		part := record.Partition{Topic: topic, ID: id}
		if _, ok := log.Partitions[id]; !ok && p.owns(part) {
			return fault.Transientf("planning %s: Kafka did not answer for this partition, and the topic has %d; the first run must know all of them "+
				"(startingOffsets: %s): look at its leader (kafka-topics --describe)", part, count, p.in.Starting.Mode)
		}
	}
	if p.in.Starting.Mode == record.StartOffsets {
		return p.allNamedExist(topic, count)
	}
	return nil
}

// exist returns how many partitions the topic has, at least. Their numbers have no holes, and every topic has one.
func exist(log record.TopicLog) int32 {
	count := max(log.Count, 1)
	for id := range log.Partitions {
		count = max(count, id+1)
	}
	return count
}

// allNamedExist refuses offsets for a partition that the topic does not have, as far as it would be the lane's.
func (p *planner) allNamedExist(topic string, count int32) error {
	var unknown []record.Partition
	for part := range p.in.Starting.Offsets {
		if part.Topic == topic && p.owns(part) && (part.ID < 0 || part.ID >= count) {
			unknown = append(unknown, part)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return loss(LossError{
		Class: ClassUnknownPartition, Starting: true,
		Partition: slices.MinFunc(unknown, record.Partition.Compare), More: len(unknown) - 1,
	})
}

// startAt returns where a partition is started.
func (p *planner) startAt(part record.Partition, b record.Bounds) (int64, error) {
	if b.End < 0 {
		return 0, unanswered(part, "log end")
	}
	switch p.in.Starting.Mode {
	case record.StartLatest:
		return b.End, nil
	case record.StartTimestamp:
		if b.AtTimestamp < 0 {
			return 0, unanswered(part, "offset for the timestamp")
		}
		return b.AtTimestamp, nil
	case record.StartOffsets:
		return p.startAtNamed(part, b)
	case record.StartEarliest, record.StartNone: // none never comes here
	}
	if b.Start < 0 {
		return 0, unanswered(part, "log start")
	}
	return b.Start, nil
}

// startAtNamed takes the offset of the per-partition form. One below the log start is a loss like any other: somebody
// named records that are gone.
func (p *planner) startAtNamed(part record.Partition, b record.Bounds) (int64, error) {
	offset, ok := p.in.Starting.Offsets[part]
	if ok && offset == record.OffsetLatest {
		return b.End, nil
	}
	end := max(b.End, b.HighWatermark)
	switch {
	case !ok:
		return 0, loss(LossError{Class: ClassMissingStart, Partition: part, Starting: true})
	case offset > end:
		return 0, loss(LossError{
			Class: ClassStartBeyondLogEnd, Partition: part, Starting: true, Offset: offset, LogEnd: end,
		})
	case b.Start < 0:
		return 0, unanswered(part, "log start")
	case offset == record.OffsetEarliest:
		return b.Start, nil
	case offset < 0, offset < b.Start && !p.in.Resume:
		return 0, loss(LossError{
			Class: ClassBeforeLogStart, Partition: part, Starting: true, Offset: offset, LogStart: b.Start,
		})
	case offset < b.Start:
		p.gap(part, offset, b.Start)
		return b.Start, nil
	}
	return offset, nil
}
