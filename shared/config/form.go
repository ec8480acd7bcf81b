package config

import (
	"math"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// readConfig walks the form: every key there is, with its rule and its default. keytext.go says what each is for.
func readConfig(root *section) Config {
	cfg := Config{
		Pipeline:    need(root, "pipeline", plain(pipelineNames, pipelineName)),
		Kafka:       readKafka(root.section("kafka")),
		Source:      readSource(root.section("source")),
		Record:      readRecord(root.section("record")),
		Sink:        readSink(root.section("sink")),
		DeadLetters: readDeadLetters(root.section("deadLetters")),
		Checkpoint:  readCheckpoint(root.section("checkpoint")),
		Run:         readRun(root.section("run")),
	}
	if cfg.Record.ID.From == "" {
		cfg.Record.ID = defaultID(cfg.Sink.Mode)
	}
	if cfg.Record.Wrap == "" && !structuredFormat(cfg.Record.Format) {
		cfg.Record.Wrap = defaultWrap
	}
	return cfg
}

func readKafka(s *section) Kafka {
	s.loader.lend(read(s, "properties", properties(), nil))
	// What is missing may stand in a text that could not be read.
	s.broken = s.broken || !s.loader.fine(propertiesPath)
	kafka := Kafka{
		BootstrapServers: need(s, "bootstrapServers", list(1, plain("host:port", broker))),
		FetchWait:        read(s, "fetchWait", duration(time.Millisecond, 30*time.Second), 500*time.Millisecond),
		SASL:             readSASL(s.section("sasl")),
	}
	tls := s.section("tls")
	kafka.TLS = TLS{
		Enabled:    read(tls, "enabled", boolean(), false),
		CAPEM:      read(tls, "caFile", certificates(), ""),
		CertPEM:    read(tls, "certFile", certificates(), ""),
		KeyPEM:     read(tls, "keyFile", privateKey(), ""),
		ServerName: read(tls, "serverName", plain("", notEmpty), ""),
	}
	return kafka
}

func readSASL(s *section) SASL {
	return SASL{
		Mechanism: read(s, "mechanism", oneOfUnseen("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), ""),
		Username:  read(s, "username", secret("", notEmpty), ""),
		Password:  read(s, "password", secret("", notEmpty), ""),
	}
}

func readSource(s *section) Source {
	source := Source{
		Subscribe:       read(s, "subscribe", list(1, plain("a topic", topicName)), nil),
		Pattern:         read(s, "subscribePattern", plain("a regular expression of RE2", topicPattern), ""),
		Assign:          read(s, "assign", assign(), nil),
		StartingOffsets: read(s, "startingOffsets", startingOffsets(), record.StartingOffsets{Mode: record.StartEarliest}),
		IsolationLevel:  read(s, "isolationLevel", oneOf("read_committed", "read_uncommitted"), "read_committed"),
		OnDataLoss:      read(s, "onDataLoss", oneOf("fail", "resume"), "fail"),
	}
	source.StartingText = startingText(source.StartingOffsets)
	return source
}

func readRecord(s *section) Record {
	paths := list(0, plain("a dotted path", fieldPath))
	return Record{
		Format:        read(s, "format", oneOf("json", "extjson", "bson", "string", "bytes"), "json"),
		KeyFormat:     read(s, "keyFormat", oneOf("string", "json", "extjson", "bson", "bytes"), "string"),
		ID:            read(s, "id", idRule(), ID{}),
		Dates:         read(s, "dates", paths, nil),
		EpochSeconds:  read(s, "epochSeconds", paths, nil),
		ObjectIDs:     read(s, "objectIds", paths, nil),
		Decimals:      read(s, "decimals", paths, nil),
		DuplicateKeys: read(s, "duplicateKeys", oneOf("last", "error"), "last"),
		Wrap:          read(s, "wrap", plain(fieldNames, fieldName), ""),
		Metadata:      read(s, "metadata", plain(fieldNames, optional(fieldName)), ""),
	}
}

func readSink(s *section) Sink {
	batch := s.section("batch")
	return Sink{
		URI:                need(s, "uri", secret("begins with mongodb:// or mongodb+srv://", mongoURI)),
		Database:           need(s, "database", plain("at most 63 bytes; not admin, config, local", mongoDatabase)),
		Collection:         need(s, "collection", plain(collectionNames, mongoCollection)),
		Mode:               read(s, "mode", oneOf(record.Insert, record.Upsert, record.Update), record.Insert),
		Tombstones:         read(s, "tombstones", oneOf("deadLetter", "delete", "ignore"), "deadLetter"),
		TombstoneRetention: read(s, "tombstoneRetention", duration(time.Second, 3650*day), 30*day),
		OnDuplicate:        read(s, "onDuplicate", oneOf("deadLetter", "ignore"), "deadLetter"),
		GuardField:         read(s, "guardField", plain(fieldNames, fieldName), "_tidemark"),
		Batch: Batch{
			// The limits of one MongoDB command: maxWriteBatchSize and maxBsonObjectSize.
			Records: read(batch, "records", whole(1, 100_000), 2000),
			Bytes:   read(batch, "bytes", size(1, 16<<20), 4<<20),
		},
		Writers: read(s, "writers", whole(1, 64), 4),
	}
}

func readDeadLetters(s *section) DeadLetters {
	return DeadLetters{
		Collection: need(s, "collection", plain(collectionNames, mongoCollection)),
		OnReject:   read(s, "onReject", oneOf("deadLetter", "stop"), "deadLetter"),
		MaxRatio:   read(s, "maxRatio", share(), 0.1),
		Window:     read(s, "window", whole[int64](1, 1_000_000_000), 1000),
	}
}

func readCheckpoint(s *section) Checkpoint {
	const longest = time.Hour
	checkpoint := Checkpoint{
		Store:      read(s, "store", oneOf("firestore", "file", "memory"), "firestore"),
		Project:    read(s, "project", plain("", resourceID), ""),
		Database:   read(s, "database", plain("", resourceID), "(default)"),
		Collection: read(s, "collection", plain("no /, not __x__", firestoreCollection), "tidemark"),
		Path:       read(s, "path", plain("a folder", folder), ".tidemark"),
		// A run that died keeps its lane for as long as its lease lasts.
		Lease: read(s, "lease", duration(2*time.Second, longest), time.Minute),
	}
	checkpoint.Heartbeat = read(s, "heartbeat", duration(time.Millisecond, longest), checkpoint.Lease/3)
	read(s, "mirrorGroup", plain("", anything), "")
	return checkpoint
}

func readRun(s *section) Run {
	limits := s.section("limits")
	return Run{
		Schedule: read(s, "schedule", schedule(), ""),
		// Cloud Scheduler waits at most half an hour, Cloud Run an hour.
		Deadline: read(s, "deadline", duration(time.Second, time.Hour), 4*time.Minute),
		// The first run writes a document for each lane in one transaction, which Firestore bounds.
		Lanes:  read(s, "lanes", whole(1, 256), 1),
		Layout: read(s, "layout", whole(1, math.MaxInt32), 1),
		Limits: Limits{
			Records:         read(limits, "records", whole[int64](0, math.MaxInt64), 0),
			Bytes:           read(limits, "bytes", size(0, math.MaxInt64), 0),
			Memory:          read(limits, "memory", size(64<<20, 1<<40), 128<<20),
			MinPerPartition: read(limits, "minPerPartition", whole[int64](1, math.MaxInt64), 1),
		},
	}
}
