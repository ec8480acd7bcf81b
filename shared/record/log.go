package record

// Log is what Kafka says of the topics of a pipeline at one moment.
type Log struct {
	// ClusterID is "" where the broker does not tell it.
	ClusterID string
	// Topics has no entry for a topic that Kafka does not know.
	Topics map[string]TopicLog
}

// TopicLog is what Kafka says of one topic.
type TopicLog struct {
	// ID is the topic id as Kafka's tools print it; "" from brokers before 2.8.
	ID string
	// Partitions has the owned partitions that Kafka answered for: a missing one is unknown, never empty.
	Partitions map[int32]Bounds
	// Count is how many partitions the topic has by its metadata, owned or not, answered or not; 0 where it is not known.
	Count int32
}

// Bounds are the offsets between which a partition can be read.
type Bounds struct {
	// Start is the log start offset, the first that retention left. It is Unknown where the End is not above the
	// checkpoint: nothing can be lost to retention there, and the request is spent on the high watermark.
	Start int64
	// End is the last stable offset, the high watermark under read_uncommitted.
	End int64
	// HighWatermark is only asked for where End is not above the checkpoint; elsewhere it is End.
	HighWatermark int64
	// AtTimestamp is the first offset whose record is not older than the asked timestamp: End where none is newer,
	// Unknown where none was asked.
	AtTimestamp int64
	// LeaderEpoch is the current leader's epoch, -1 where it is not known.
	LeaderEpoch int32
}

// Unknown stands for an offset that was not asked for. It is never a position.
const Unknown int64 = -1

// BoundsQuery says what to ask of Kafka.
type BoundsQuery struct {
	// Lane of Lanes owns the partitions asked for.
	Lane, Lanes int
	// Positions are the next offsets to read, as far as there is a checkpoint.
	Positions map[Partition]int64
	// Timestamp, in milliseconds, is looked up for every partition of the topics in TimestampTopics.
	Timestamp       int64
	TimestampTopics map[string]bool
}
