package config

// keyText is what docs/config.md says of a key beside what its parser tells.
type keyText struct {
	path string
	// what it does, for a person who knows Kafka and MongoDB.
	what string
	// spark, kafka and connect are what Spark's Kafka source and MongoDB writer, Kafka's clients and the MongoDB Kafka
	// Connector call it; "" where they have no such thing.
	spark, kafka, connect string
	// otherwise is the default in words, where it depends on other keys.
	otherwise string
}

// keyTexts has every key of the form, in its order.
var keyTexts = []keyText{ //nolint:gochecknoglobals // an immutable table
	{path: "pipeline", what: "Name of the pipeline and of its document in the checkpoint store: another name is another checkpoint", spark: "checkpointLocation", kafka: "group.id", connect: "name"},

	{path: "kafka.properties", what: "A text of Kafka's clients for the connection, as Confluent Cloud hands it out; other keys win over it (last section)", otherwise: "none"},
	{path: "kafka.bootstrapServers", what: "Brokers to ask first; may come from `properties`", spark: "kafka.bootstrap.servers", kafka: "bootstrap.servers", connect: "bootstrap.servers"},
	{path: "kafka.fetchWait", what: "How long a broker may hold a fetch that finds nothing", spark: "kafka.fetch.max.wait.ms", kafka: "fetch.max.wait.ms", connect: "consumer.override.fetch.max.wait.ms"},
	{path: "kafka.sasl.mechanism", what: "How to log in", otherwise: "no login", spark: "kafka.sasl.mechanism", kafka: "sasl.mechanism", connect: "consumer.sasl.mechanism"},
	{path: "kafka.sasl.username", what: "Needed with a mechanism", spark: "kafka.sasl.jaas.config", kafka: "sasl.jaas.config", connect: "consumer.sasl.jaas.config", otherwise: "none"},
	{path: "kafka.sasl.password", what: "Needed with a mechanism", spark: "kafka.sasl.jaas.config", kafka: "sasl.jaas.config", connect: "consumer.sasl.jaas.config", otherwise: "none"},
	{path: "kafka.tls.enabled", what: "Encrypt the connections; to be told, true or false, wherever there is a login", spark: "kafka.security.protocol", kafka: "security.protocol", connect: "consumer.security.protocol"},
	{path: "kafka.tls.caFile", what: "Authorities of the brokers' certificates", otherwise: "the system's", spark: "kafka.ssl.truststore.location", kafka: "ssl.truststore.location", connect: "consumer.ssl.truststore.location"},
	{path: "kafka.tls.certFile", what: "The client's certificate and the chain after it (mTLS); needs `keyFile`", spark: "kafka.ssl.keystore.location", kafka: "ssl.keystore.location", connect: "consumer.ssl.keystore.location"},
	{path: "kafka.tls.keyFile", what: "Private key of `certFile`, without a password", spark: "kafka.ssl.keystore.location", kafka: "ssl.keystore.location", connect: "consumer.ssl.keystore.location", otherwise: "none"},
	{path: "kafka.tls.serverName", what: "Name to verify the brokers by", otherwise: "each broker's host"},

	{path: "source.subscribe", what: "Topics to read", otherwise: oneOfThree, spark: "subscribe", connect: "topics"},
	{path: "source.subscribePattern", what: "Topics to read, by a pattern of their whole names; new ones join by themselves", otherwise: oneOfThree, spark: "subscribePattern", connect: "topics.regex"},
	{path: "source.assign", what: "Partitions to read", otherwise: oneOfThree, spark: "assign"},
	{path: "source.startingOffsets", what: "Where a first run starts; later ones go on at the checkpoint. -2 is the earliest offset, -1 the latest; every partition is to be named", spark: "startingOffsets", kafka: "auto.offset.reset", connect: "consumer.override.auto.offset.reset"},
	{path: "source.isolationLevel", what: "Whether records of open and aborted transactions are left out", spark: "kafka.isolation.level", kafka: "isolation.level", connect: "consumer.override.isolation.level"},
	{path: "source.onDataLoss", what: "Stop when records were deleted before they were read, or note the gap and go on", spark: "failOnDataLoss"},

	{path: "record.format", what: "Format of values", kafka: "value.deserializer", connect: "value.converter"},
	{path: "record.keyFormat", what: "Format of keys, where `id` or `metadata` takes them", kafka: "key.deserializer", connect: "key.converter"},
	{path: "record.id", what: "What the `_id` is made of", otherwise: "`coordinates` in insert, else `key`", spark: "idFieldList", connect: "document.id.strategy"},
	{path: "record.dates", what: "Fields that become dates: RFC 3339 text or epoch milliseconds", connect: "field.value.transformer"},
	{path: "record.epochSeconds", what: "Fields that become dates: epoch seconds", connect: "field.value.transformer"},
	{path: "record.objectIds", what: "Fields that become ObjectIds: 24 hexadecimal digits", connect: "field.value.transformer"},
	{path: "record.decimals", what: "Fields that become Decimal128, from text or number", connect: "field.value.transformer"},
	{path: "record.duplicateKeys", what: "What to do when an object has a name twice"},
	{path: "record.wrap", what: "Name to store a value under that is no document; in json only where it is set", otherwise: "`value` for string and bytes"},
	{path: "record.metadata", what: "Name of a field for topic, partition, offset, timestamp, key and headers", otherwise: "none", spark: "includeHeaders", connect: "KafkaMetaAdder"},

	{path: "sink.uri", what: "Connection string of MongoDB", spark: "connection.uri", connect: "connection.uri"},
	{path: "sink.database", what: "Database to write to", spark: "database", connect: "database"},
	{path: "sink.collection", what: "Collection to write to", spark: "collection", connect: "collection"},
	{path: "sink.mode", what: "insert keeps the first document of an `_id`, upsert replaces it by newer ones, update sets their fields", spark: "operationType", connect: "writemodel.strategy"},
	{path: "sink.tombstones", what: "What to do with a record without a value; delete needs upsert or update", connect: "delete.on.null.values"},
	{path: "sink.tombstoneRetention", what: "How long it is known of a deleted document what deleted it, so that no older record brings it back; only with `tombstones: delete`", kafka: "delete.retention.ms"},
	{path: "sink.onDuplicate", what: "What to do when another record has taken the `_id` or a unique value", spark: "ignoreDuplicatesOnInsert"},
	{path: "sink.guardField", what: "Field for the origin of a document, stored wherever the `_id` is not made of coordinates"},
	{path: "sink.batch.records", what: "Most documents of one command", spark: "maxBatchSize", connect: "max.batch.size"},
	{path: "sink.batch.bytes", what: "Most bytes of one command"},
	{path: "sink.writers", what: "Commands under way at once", connect: "tasks.max"},

	{path: "deadLetters.collection", what: "Collection, in the sink's database, for records that can never be written", connect: "errors.deadletterqueue.topic.name"},
	{path: "deadLetters.onReject", what: "Keep such a record and go on, or stop at the first", connect: "errors.tolerance"},
	{path: "deadLetters.maxRatio", what: "Stop when more than this share of the last `window` records would be dead letters"},
	{path: "deadLetters.window", what: "Records that `maxRatio` looks back on, across runs"},

	{path: "checkpoint.store", what: "Where the checkpoint is kept; file and memory are for a person's machine", spark: "checkpointLocation", connect: "offset.storage.topic"},
	{path: "checkpoint.project", what: "Google Cloud project of Firestore; needed with it", otherwise: "none"},
	{path: "checkpoint.database", what: "Firestore database"},
	{path: "checkpoint.collection", what: "Firestore collection of the pipelines' documents"},
	{path: "checkpoint.path", what: "Folder of the file store", spark: "checkpointLocation"},
	{path: "checkpoint.lease", what: "How long a run keeps its lane without a sign of life", kafka: "session.timeout.ms"},
	{path: "checkpoint.heartbeat", what: "How often a run gives one; at most half of `lease`", otherwise: "a third of `lease`", kafka: "heartbeat.interval.ms"},
	{path: "checkpoint.mirrorGroup", what: "Consumer group that shows the checkpoint to tools for lag", otherwise: "none", kafka: "group.id"},

	{path: "run.schedule", what: "When runs are called, to check the other times against", otherwise: "not told", spark: "Trigger.ProcessingTime"},
	{path: "run.deadline", what: "When a run ends, whatever is left; below the service's timeout"},
	{path: "run.lanes", what: "Shares of the partitions, each with runs of its own", connect: "tasks.max"},
	{path: "run.layout", what: "To be raised with every change of `lanes`"},
	{path: "run.limits.records", what: "Most records of a run; 0 for no limit", spark: "maxOffsetsPerTrigger"},
	{path: "run.limits.bytes", what: "Most bytes of a run; 0 for no limit"},
	{path: "run.limits.memory", what: "Resident memory to stay below"},
	{path: "run.limits.minPerPartition", what: "Least that each partition gets of `records`"},
}

const oneOfThree = "exactly one of three"
