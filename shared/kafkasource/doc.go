// Package kafkasource reads Kafka through franz-go: the bounds of a pipeline's partitions, the ids of its topics, and the
// records of a fixed window of offsets.
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
// Topics are named, named with partitions, or matched by a pattern as a whole. Requests do not grow with their number:
// Bounds takes one Metadata request and two ListOffsets requests to each leader, TopicIDs one Metadata request.
//
// The fetch loop is our own. The polling API of franz-go does not tell the fetch position, so a window that ends in
// compacted, aborted or control records is never seen to end; it jumps silently from an offset below the log start; and
// it decompresses whole fetches. Here one batch at a time is decoded, and its header tells the position behind it.
// Batches with a wrong checksum, a record that cannot be read, or anything that is left over are corrupt-batch, never
// passed. Messages of before Kafka 0.11, which brokers before 4.0 serve, are decoded by kgo.ProcessFetchPartition.
//
// An end is never guessed. A leader that cannot be read up to the end of a range, a quota and an election are waited out
// for as long as the reading may last. A partition of which nothing comes for stallTime, although its leader says that
// there is more, is given up with a transient error; the others are read to their ends before that is told.
//
// Signing in: SASL/PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, TLS, and client certificates. A refusal is one fatal line
// that names the key to correct, after a few connections. Brokers tell many of them only by closing the connection; that
// is looked into, and is fatal only where the broker's own answers prove the cause.
//
// Brokers before 2.8 tell no topic ids: TopicIDs and Bounds answer "", and a topic that is recreated is not noticed here.
//
// Memory: what has been fetched and not handed over is bounded by Options.FetchBytes over all leaders together, unless
// a single batch is larger; at most decodersAtOnce batches are held decoded, each of Options.MaxBatchBytes at most. A
// batch takes three allocations, however many records and headers it has.
//
// Error classes: kafka-auth, kafka-tls, kafka-acl, kafka-config, unknown-partition, offset-before-log-start,
// checkpoint-beyond-log-end, topic-recreated, batch-too-large, corrupt-batch. All of them are fatal; everything else
// that can go wrong between us and a broker is transient.
//
// Non-goals: consumer groups, commits to Kafka, fetch sessions, reading from followers, and schemas.
package kafkasource
