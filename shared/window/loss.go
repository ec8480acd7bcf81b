package window

import (
	"fmt"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// The classes of a LossError.
const (
	ClassBeforeLogStart    = "offset-before-log-start"
	ClassBeyondLogEnd      = "checkpoint-beyond-log-end"
	ClassRecreated         = "topic-recreated"
	ClassEpochWentBack     = "leader-epoch-went-back"
	ClassPartitionMissing  = "partition-missing"
	ClassUnknownTopic      = "unknown-topic"
	ClassNoStart           = "no-starting-offset"
	ClassMissingStart      = "missing-starting-offset"
	ClassUnknownPartition  = "unknown-partition"
	ClassStartBeyondLogEnd = "starting-offset-beyond-log-end"
)

// LossError is why no window can be planned without losing records or guessing. A field is zero where its class does
// not speak of it.
type LossError struct {
	Class string
	// Partition has the ID -1 where the whole topic is meant.
	Partition record.Partition
	// Offset is the position of the checkpoint or, where Starting is set, the one that startingOffsets names.
	Offset           int64
	Starting         bool
	LogStart, LogEnd int64
	// CheckpointTopicID and TopicID are the id that is stored and the one that Kafka tells now.
	CheckpointTopicID, TopicID   string
	CheckpointEpoch, LeaderEpoch int32
	// Since is when a missing partition first had no answer, TopicGone that its whole topic has none.
	Since     time.Time
	TopicGone bool
	// More counts the partitions of the topic to which the same has happened.
	More int
}

// Error names the partition, the numbers and the next step.
func (e *LossError) Error() string {
	if e.Starting {
		return e.startingText()
	}
	const playbook = "See docs/playbooks/DataLoss.md"
	switch e.Class {
	case ClassBeforeLogStart:
		return fmt.Sprintf("%s: checkpoint %d is below the log start %d: %d records were deleted by retention before they were read. "+
			"%s, or set onDataLoss: resume.", e.Partition, e.Offset, e.LogStart, e.LogStart-e.Offset, playbook)
	case ClassBeyondLogEnd:
		return fmt.Sprintf("%s: checkpoint %d is above the log end %d: the log was truncated by %d records that had been read, "+
			"and new records may take their offsets. %s; onDataLoss: resume does not pass this.",
			e.Partition, e.Offset, e.LogEnd, e.Offset-e.LogEnd, playbook)
	case ClassRecreated:
		return fmt.Sprintf("%s: the checkpoint belongs to topic id %s and Kafka has %s: the topic was deleted and created again. "+
			"%s, or set onDataLoss: resume to read all of the new topic.", e.Partition.Topic, e.CheckpointTopicID, e.TopicID, playbook)
	case ClassEpochWentBack:
		return fmt.Sprintf("%s: the checkpoint %d was read under leader epoch %d and Kafka is at epoch %d: this is another log, "+
			"the topic was probably recreated. %s.", e.Partition, e.Offset, e.CheckpointEpoch, e.LeaderEpoch, playbook)
	case ClassPartitionMissing:
		what := "Kafka does not answer for it"
		if e.TopicGone {
			what = "Kafka does not know its topic"
		}
		return fmt.Sprintf("%s%s: %s since %s, and its checkpoint is %d. Bring it back, or set onDataLoss: resume to go on without it. %s.",
			e.Partition, andMore(e.More), what, e.Since.UTC().Format(time.RFC3339), e.Offset, playbook)
	case ClassUnknownTopic:
		return fmt.Sprintf("%s: Kafka does not know this topic, and it has no checkpoint. Create it, or correct source.subscribe.",
			e.Partition.Topic)
	}
	return fmt.Sprintf("%s: %s", e.Partition, e.Class)
}

// startingText is about startingOffsets, which an operator can correct at once.
func (e *LossError) startingText() string {
	switch e.Class {
	case ClassNoStart:
		return fmt.Sprintf("%s: there is no checkpoint and startingOffsets is none. "+
			"Restore the checkpoint, or say in startingOffsets where to begin.", e.Partition.Topic)
	case ClassMissingStart:
		return fmt.Sprintf("%s: startingOffsets names partitions of this topic, but not this one. "+
			"Name every partition: -2 is earliest, -1 latest.", e.Partition)
	case ClassUnknownPartition:
		return fmt.Sprintf("%s%s: startingOffsets names it, but Kafka has no such partition. Take it out of startingOffsets.",
			e.Partition, andMore(e.More))
	case ClassStartBeyondLogEnd:
		return fmt.Sprintf("%s: startingOffsets %d is above the log end %d: the next %d records would be skipped. "+
			"Correct it, or say -1 for latest.", e.Partition, e.Offset, e.LogEnd, e.Offset-e.LogEnd)
	case ClassBeforeLogStart:
		return fmt.Sprintf("%s: startingOffsets %d is below the log start %d. "+
			"Correct it, say -2 for earliest, or set onDataLoss: resume.", e.Partition, e.Offset, e.LogStart)
	}
	return fmt.Sprintf("%s: startingOffsets: %s", e.Partition, e.Class)
}

// loss makes a LossError a Fatal fault of its class.
func loss(e LossError) error { return fault.Fatalf(e.Class, "%w", &e) }

func wholeTopic(topic string) record.Partition { return record.Partition{Topic: topic, ID: -1} }

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
