// Package kafkasource reads Kafka through franz-go: the bounds of a pipeline's partitions, and the records of a fixed
// window of offsets.
//
// Contract: Source and Reader keep the promises of the Source and Reader of package pull, which this package does not
// import; whoever wires them wraps Open, whose result is a *Reader:
//
//	type kafka struct{ *kafkasource.Source }
//
//	func (k kafka) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) pull.Reader {
//		return k.Source.Open(ctx, ranges, topicIDs)
//	}
//
// The fetch loop is our own. The polling API of franz-go does not tell the fetch position, so a window that ends in
// compacted, aborted or control records is never seen to end; it jumps silently from an offset below the log start; and
// it decompresses whole fetches. Here one batch at a time goes through kgo.ProcessFetchPartition, whose second result
// is the position.
//
// Memory: what has been fetched and not handed over is bounded by Options.FetchBytes over all leaders together, unless
// a single batch is larger; at most decodersAtOnce batches are held decoded, each of Options.MaxBatchBytes at most.
//
// Error classes: kafka-auth, kafka-tls, kafka-acl, kafka-config, unknown-partition, offset-before-log-start,
// checkpoint-beyond-log-end, topic-recreated, batch-too-large, corrupt-batch. All of them are fatal; everything else
// that can go wrong between us and a broker is transient.
//
// Non-goals: consumer groups, commits to Kafka, fetch sessions, reading from followers, and schemas.
package kafkasource
