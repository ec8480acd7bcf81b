package config

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// Variables that Cloud Run sets.
const (
	serviceVariable = "K_SERVICE"
	timeoutVariable = "CLOUD_RUN_TIMEOUT_SECONDS"
)

// check reports what no key can tell by itself. A rule is judged only where the keys that it is about are fine.
func (l *loader) check(cfg Config) {
	l.checkTopics(cfg.Source)
	l.checkLogin(cfg.Kafka)
	l.checkClientCertificate(cfg.Kafka)
	l.checkFields(cfg)
	l.checkFormats(cfg.Record)
	l.checkMode(cfg)
	l.checkCollections(cfg)
	l.checkStore(cfg.Checkpoint)
	l.checkTimes(cfg)
}

// set says whether the file or a variable sets a key.
func (l *loader) set(path string) bool {
	_, found := l.origins[path]
	return found
}

func (l *loader) checkTopics(source Source) {
	const subscribe, assigned, pattern, start = "source.subscribe", "source.assign", "source.subscribePattern", "source.startingOffsets"
	given := slices.DeleteFunc([]string{subscribe, pattern, assigned}, func(path string) bool { return !l.set(path) })
	if len(given) == 0 {
		l.fail("source", "needs source.subscribe, source.subscribePattern or source.assign")
		return
	}
	for _, path := range given[1:] {
		l.fail(path, "%s is set too: keep one", given[0])
	}
	if !l.fine(subscribe, assigned, pattern, start) {
		return
	}
	if source.Pattern == "" {
		l.checkStart(source)
		return
	}
	// A topic that comes to match later would have no offset to start at, and stop the pipeline on that day.
	if source.StartingOffsets.Mode == record.StartOffsets {
		l.fail(start, "cannot name partitions beside source.subscribePattern, whose topics are known at run time only: write earliest, latest, none or a timestamp")
	}
}

// checkStart refuses starting offsets of what is not read: a slip in a topic's name would start it elsewhere.
func (l *loader) checkStart(source Source) {
	for _, partition := range slices.SortedFunc(maps.Keys(source.StartingOffsets.Offsets), record.Partition.Compare) {
		ids, assigned := source.Assign[partition.Topic]
		if !slices.Contains(source.Subscribe, partition.Topic) && !assigned {
			l.fail("source.startingOffsets", "%s is not among the topics that are read", partition)
		} else if assigned && !slices.Contains(ids, partition.ID) {
			l.fail("source.startingOffsets", "%s is not among the partitions of source.assign", partition)
		}
	}
}

// checkLogin wants a whole login or none, and a clear word where its password would cross the network readable.
func (l *loader) checkLogin(kafka Kafka) {
	keys := []string{"kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password"}
	login := slices.ContainsFunc(keys, l.set) || l.wantsLogin
	login = login && l.fine(propertiesPath) // what is missing may stand in a text that could not be read
	for _, key := range keys {
		if login && !l.set(key) {
			l.fail(key, "missing; kafka.sasl needs mechanism, username and password")
		}
	}
	l.checkJAAS(kafka.SASL.Mechanism)
	if login && !l.set("kafka.tls.enabled") {
		l.fail("kafka.tls.enabled", "missing; write true, or false if the password of kafka.sasl may cross the network in clear")
	}
	if kafka.TLS.Enabled || !l.fine("kafka.tls.enabled", propertiesPath) {
		return
	}
	for _, path := range []string{"kafka.tls.caFile", certFile, keyFile, "kafka.tls.serverName"} {
		if l.set(path) {
			l.fail(path, "has no effect while kafka.tls.enabled is false: set that to true, or leave this out")
		}
	}
}

// typedFields are the lists of fields that are given a type.
func typedFields(cfg Record) map[string][]string {
	return map[string][]string{
		"record.dates": cfg.Dates, "record.epochSeconds": cfg.EpochSeconds,
		"record.objectIds": cfg.ObjectIDs, "record.decimals": cfg.Decimals,
	}
}

func (l *loader) checkFields(cfg Config) {
	first := map[string]string{}
	lists := typedFields(cfg.Record)
	for _, path := range []string{"record.dates", "record.epochSeconds", "record.objectIds", "record.decimals"} {
		if !l.fine(path) {
			continue
		}
		for _, name := range lists[path] {
			if other, twice := first[name]; twice {
				l.fail(path, "%s is in %s too: a field has one type", quoted(name), other)
			}
			first[name] = path
		}
	}
	const wrap, metadata, guard = "record.wrap", "record.metadata", "sink.guardField"
	if l.fine(wrap, guard) && cfg.Record.Wrap == cfg.Sink.GuardField {
		l.fail(wrap, "is the name of sink.guardField: the guard would replace the value")
	}
	if l.fine(metadata, guard) && cfg.Record.Metadata == cfg.Sink.GuardField {
		l.fail(metadata, "is the name of sink.guardField: the guard would replace it")
	}
	if l.fine(metadata, wrap) && cfg.Record.Metadata != "" && cfg.Record.Metadata == cfg.Record.Wrap {
		l.fail(metadata, "is the name of record.wrap: it would replace the value")
	}
}

// structuredFormat says that values of a format have fields.
func structuredFormat(format string) bool { return format != "string" && format != "bytes" }

// defaultWrap is record.wrap for values that are no documents at all.
const defaultWrap = "value"

// checkFormats refuses what a format makes void.
func (l *loader) checkFormats(cfg Record) {
	if !l.fine("record.format") {
		return
	}
	if l.set("record.wrap") && l.fine("record.wrap") && (cfg.Format == "bson" || cfg.Format == "extjson") {
		l.fail("record.wrap", "has no effect with record.format: %s, whose values are always documents: leave it out", cfg.Format)
	}
	if structuredFormat(cfg.Format) {
		return
	}
	for path, names := range typedFields(cfg) {
		if len(names) > 0 && l.fine(path) {
			l.fail(path, "has no effect with record.format: %s, whose values have no fields: leave it out", cfg.Format)
		}
	}
	if cfg.DuplicateKeys == "error" {
		l.fail("record.duplicateKeys", "has no effect with record.format: %s, whose values have no fields: leave it out", cfg.Format)
	}
	if l.fine("record.id") && cfg.ID.From == fromFields {
		l.fail("record.id", "finds no fields with record.format: %s: write coordinates, key or {keyField: name}", cfg.Format)
	}
}

// checkMode holds the mode, the _id and the deletes together.
func (l *loader) checkMode(cfg Config) {
	const id, tombstones, retention = "record.id", "sink.tombstones", "sink.tombstoneRetention"
	mode, rule := cfg.Sink.Mode, cfg.Record.ID
	if l.fine(id, "sink.mode") && mode != record.Insert && rule.From == fromCoordinates {
		l.fail(id, "coordinates never meet again, so that sink.mode: %s would find nothing to change: write key, {keyField: name} or {fields: [name, ...]}, or sink.mode: insert", mode)
	}
	// A format that is not set is a default that nobody chose, so that the rule names the key in any case.
	if l.fine(id, "record.keyFormat") && rule.From == fromKeyField && !structuredFormat(cfg.Record.KeyFormat) {
		l.fail("record.keyFormat", "%s keys have no fields, of which record.id %s takes one: write json, extjson or bson", cfg.Record.KeyFormat, rule)
	}
	if !l.fine(tombstones, "sink.mode", id) {
		return
	}
	switch deletes := cfg.Sink.Tombstones == "delete"; {
	case deletes && mode == record.Insert:
		l.fail(tombstones, "delete needs sink.mode: upsert or update: in insert each record is a document of its own; write deadLetter or ignore")
	case deletes && rule.From == fromFields:
		l.fail(tombstones, "delete cannot find a document by record.id %s, since a tombstone has no value: write deadLetter or ignore, or take the _id from the key", rule)
	case !deletes && l.set(retention) && l.fine(retention):
		l.fail(retention, "has no effect without sink.tombstones: delete: write that, or leave this out")
	}
}

func (l *loader) checkCollections(cfg Config) {
	if !l.fine("sink.database") {
		return
	}
	const sink, dead = "sink.collection", "deadLetters.collection"
	deleted := cfg.Sink.Collection + deletedSuffix
	names := []struct{ path, collection string }{{sink, cfg.Sink.Collection}, {dead, cfg.DeadLetters.Collection}}
	if cfg.Sink.Tombstones == "delete" {
		names[0].collection = deleted
	}
	for _, name := range names {
		// MongoDB's manual: a namespace of an unsharded collection takes 255 bytes, of a sharded one 235.
		const longest = 235
		full := cfg.Sink.Database + "." + name.collection
		if l.fine(name.path) && len(full) > longest {
			l.fail(name.path, "%s is a name of %d bytes, MongoDB takes %d", quoted(full), len(full), longest)
		}
	}
	if !l.fine(sink, dead) {
		return
	}
	switch {
	case cfg.Sink.Collection == cfg.DeadLetters.Collection:
		l.fail(dead, "is sink.collection: dead letters need a collection of their own")
	case cfg.Sink.Tombstones == "delete" && cfg.DeadLetters.Collection == deleted:
		l.fail(dead, "is where sink.tombstones: delete keeps what it must know of deleted documents: dead letters need a collection of their own")
	}
}

// deletedSuffix ends the name of the collection that stands beside the sink's and holds the guards of deleted keys.
const deletedSuffix = "_deleted"

func (l *loader) checkStore(checkpoint Checkpoint) {
	if l.fine("checkpoint.store") && checkpoint.Store != "firestore" && l.vars[serviceVariable] != "" {
		l.fail("checkpoint.store", "%s does not survive on Cloud Run, where %s is set: use firestore", checkpoint.Store, serviceVariable)
	}
	if checkpoint.Store == "firestore" && l.fine("checkpoint.store") && !l.set("checkpoint.project") {
		l.fail("checkpoint.project", "missing; write it, or set %s", variable("checkpoint.project"))
	}
	if l.fine("checkpoint.lease", "checkpoint.heartbeat") && checkpoint.Heartbeat > checkpoint.Lease/2 {
		l.fail("checkpoint.heartbeat", "%s is over half of checkpoint.lease, %s: one lost heartbeat would lose the lease; write %s at most, or leave it out",
			formatDuration(checkpoint.Heartbeat), formatDuration(checkpoint.Lease), formatDuration(checkpoint.Lease/2))
	}
}

// checkTimes holds the order that keeps a pipeline quiet: deadline < service timeout, and deadline <= schedule period.
func (l *loader) checkTimes(cfg Config) {
	if !l.fine("run.deadline") {
		return
	}
	deadline, told := cfg.Run.Deadline, formatDuration(cfg.Run.Deadline)
	if !l.set("run.deadline") {
		told += " (the default)"
	}
	if limit := l.vars[timeoutVariable]; limit != "" {
		seconds, err := strconv.ParseInt(limit, 10, 32)
		timeout := time.Duration(seconds) * time.Second
		switch {
		case err != nil || seconds <= 0:
			l.report(origin{variable: timeoutVariable}, timeoutVariable, "", "is no number of seconds")
		case deadline >= timeout:
			l.fail("run.deadline", "%s is not below the service's timeout, %s (%s): the platform would cut the run off before its last commit; lower run.deadline or raise the timeout",
				told, formatDuration(timeout), timeoutVariable)
		}
	}
	if !l.fine("run.schedule") || cfg.Run.Schedule == "" {
		return
	}
	if period, known := shortestPeriod(cfg.Run.Schedule); known && deadline > period {
		l.fail("run.deadline", "%s is longer than the shortest time between two runs of run.schedule, %s: runs would overlap; lower run.deadline or call less often",
			told, formatDuration(period))
	}
}
