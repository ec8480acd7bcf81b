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
	l.checkFields(cfg)
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
	subscribe, assigned, pattern := "source.subscribe", "source.assign", "source.subscribePattern"
	given := 0
	for _, path := range []string{subscribe, assigned, pattern} {
		if l.set(path) {
			given++
		}
	}
	switch {
	case given == 0:
		l.fail("source", "needs source.subscribe or source.assign")
	case l.set(subscribe) && l.set(assigned):
		l.fail(assigned, "source.subscribe is set too: keep one")
	case l.set(pattern) && given > 1:
		l.fail(pattern, "source.subscribe or source.assign is set too: keep one")
	case l.fine(subscribe, assigned, pattern, "source.startingOffsets"):
		l.checkStart(source)
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
	login := slices.ContainsFunc(keys, l.set)
	for _, key := range keys {
		if login && !l.set(key) {
			l.fail(key, "missing; kafka.sasl needs mechanism, username and password")
		}
	}
	if login && !l.set("kafka.tls.enabled") {
		l.fail("kafka.tls.enabled", "missing; write true, or false if the password of kafka.sasl may cross the network in clear")
	}
	if kafka.TLS.Enabled || !l.fine("kafka.tls.enabled") {
		return
	}
	for _, path := range []string{"kafka.tls.caFile", "kafka.tls.serverName"} {
		if l.set(path) {
			l.fail(path, "has no effect while kafka.tls.enabled is false: set that to true, or leave this out")
		}
	}
}

func (l *loader) checkFields(cfg Config) {
	lists := []struct {
		path  string
		names []string
	}{
		{"record.dates", cfg.Record.Dates},
		{"record.epochSeconds", cfg.Record.EpochSeconds},
		{"record.objectIds", cfg.Record.ObjectIDs},
		{"record.decimals", cfg.Record.Decimals},
	}
	first := map[string]string{}
	for _, list := range lists {
		if !l.fine(list.path) {
			continue
		}
		for _, name := range list.names {
			if other, twice := first[name]; twice {
				l.fail(list.path, "%s is in %s too: a field has one type", quoted(name), other)
			}
			first[name] = list.path
		}
	}
	if l.fine("record.wrap", "sink.guardField") && cfg.Record.Wrap == cfg.Sink.GuardField {
		l.fail("record.wrap", "is the name of sink.guardField: the guard would replace the value")
	}
}

func (l *loader) checkCollections(cfg Config) {
	if !l.fine("sink.database") {
		return
	}
	for path, collection := range map[string]string{"sink.collection": cfg.Sink.Collection, "deadLetters.collection": cfg.DeadLetters.Collection} {
		// MongoDB's manual: a namespace of an unsharded collection takes 255 bytes, of a sharded one 235.
		const longest = 235
		if size := len(cfg.Sink.Database) + len(".") + len(collection); l.fine(path) && size > longest {
			l.fail(path, "database and collection make a name of %d bytes, MongoDB takes %d", size, longest)
		}
	}
	if l.fine("sink.collection", "deadLetters.collection") && cfg.Sink.Collection == cfg.DeadLetters.Collection {
		l.fail("deadLetters.collection", "is sink.collection: dead letters need a collection of their own")
	}
}

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
	deadline := cfg.Run.Deadline
	if told := l.vars[timeoutVariable]; told != "" {
		seconds, err := strconv.ParseInt(told, 10, 32)
		timeout := time.Duration(seconds) * time.Second
		switch {
		case err != nil || seconds <= 0:
			l.report(origin{variable: timeoutVariable}, timeoutVariable, "", "is no number of seconds")
		case deadline >= timeout:
			l.fail("run.deadline", "%s is not below the service's timeout, %s (%s): the platform would cut the run off before its last commit; lower run.deadline or raise the timeout",
				formatDuration(deadline), formatDuration(timeout), timeoutVariable)
		}
	}
	if !l.fine("run.schedule") || cfg.Run.Schedule == "" {
		return
	}
	if period, known := shortestPeriod(cfg.Run.Schedule); known && deadline > period {
		l.fail("run.deadline", "%s is longer than the shortest time between two runs of run.schedule, %s: runs would overlap; lower run.deadline or call less often",
			formatDuration(deadline), formatDuration(period))
	}
}
