package config

import "strings"

// fate is what becomes of a property of Kafka's clients.
type fate string

const (
	honoured fate = "honoured"
	ignored  fate = "ignored, with a notice"
	refused  fate = "refused"
)

// clientKeys are properties that share a fate. A name that ends with * stands for all that begin so.
type clientKeys struct {
	names []string
	fate  fate
	// note is what is done instead of an ignored property, or what to do instead of a refused one.
	note string
	// to is the key of ours that an honoured property is a value for.
	to string
	// must are the values of an honoured property that say what is done anyway. Others are refused with the note.
	must []string
}

// ours says what an honoured property does that has no key of ours alone.
func (k clientKeys) ours() string {
	if len(k.must) > 0 {
		return "must be " + strings.Join(k.must, " or ") + ": " + k.note
	}
	return k.note
}

// clientTable has the properties of Kafka's consumers, producers and admin clients, of librdkafka and of the files that
// Confluent Cloud hands out. What it does not have is refused, as a slip of the hand.
var clientTable = []clientKeys{ //nolint:gochecknoglobals // an immutable table
	{names: []string{"bootstrap.servers", "metadata.broker.list"}, fate: honoured, to: "kafka.bootstrapServers", note: "a scheme before a host is left out"},
	{names: []string{"security.protocol"}, fate: honoured, to: "kafka.tls.enabled", note: "SSL and SASL_SSL set it; SASL_PLAINTEXT and SASL_SSL want a login"},
	{names: []string{"sasl.mechanism", "sasl.mechanisms"}, fate: honoured, to: "kafka.sasl.mechanism"},
	{names: []string{"sasl.jaas.config"}, fate: honoured, note: "PlainLoginModule or ScramLoginModule, for kafka.sasl.username and kafka.sasl.password"},
	{names: []string{"sasl.username"}, fate: honoured, to: "kafka.sasl.username"},
	{names: []string{"sasl.password"}, fate: honoured, to: "kafka.sasl.password"},
	{names: []string{"ssl.truststore.certificates", "ssl.ca.pem"}, fate: honoured, to: "kafka.tls.caFile"},
	{names: []string{"ssl.keystore.certificate.chain", "ssl.certificate.pem"}, fate: honoured, to: certFile},
	{names: []string{"ssl.keystore.key", "ssl.key.pem"}, fate: honoured, to: keyFile, note: "without a password"},
	{names: []string{"ssl.truststore.type"}, fate: honoured, must: []string{"PEM"}, note: pemInstead},
	{names: []string{"ssl.keystore.type"}, fate: honoured, must: []string{"PEM"}, note: pemInstead},
	{names: []string{"ssl.endpoint.identification.algorithm"}, fate: honoured, must: []string{"https"}, note: verifyInstead},
	{names: []string{"enable.ssl.certificate.verification"}, fate: honoured, must: []string{"true"}, note: verifyInstead},
	{names: []string{"client.dns.lookup"}, fate: honoured, must: []string{"use_all_dns_ips", "default"}, note: "names of brokers are used as they are given: write their full names in kafka.bootstrapServers"},
	{names: []string{"isolation.level"}, fate: honoured, to: "source.isolationLevel"},
	{names: []string{"fetch.max.wait.ms", "fetch.wait.max.ms"}, fate: honoured, to: "kafka.fetchWait"},

	{fate: ignored, note: "a first run starts where source.startingOffsets says, each later one at the checkpoint", names: []string{"auto.offset.reset"}},
	{fate: ignored, note: "the checkpoint keeps the position, and Kafka no offsets", names: []string{
		"enable.auto.commit", "auto.commit.*", "enable.auto.offset.store", "offset.store.*",
	}},
	{fate: ignored, note: "no consumer group is joined", names: []string{
		"group.*", "partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.*",
		"coordinator.query.interval.ms", "share.acknowledgement.mode",
	}},
	{fate: ignored, note: "nothing is produced", names: []string{
		"acks", "request.required.acks", "retries", "linger.ms", "batch.*", "buffer.memory", "compression.*", "delivery.*",
		"enable.idempotence", "enable.gapless.guarantee", "max.block.ms", "max.in.flight", "max.in.flight.*", "max.request.size",
		"message.*", "metadata.max.idle.ms", "partitioner", "partitioner.*", "queue.buffering.*", "queuing.strategy",
		"sticky.partitioning.linger.ms", "produce.offset.report", "transaction.*", "transactional.id", "key.serializer", "value.serializer",
	}},
	{fate: ignored, note: "record.format and record.keyFormat say how records are read; there is no schema registry", names: []string{
		"key.deserializer", "value.deserializer", "schema.registry.*", "basic.auth.*", "bearer.auth.*", "auto.register.schemas",
		"use.latest.version", "specific.avro.reader", "key.subject.name.strategy", "value.subject.name.strategy",
	}},
	{fate: ignored, note: "times, retries and buffers follow run.deadline and run.limits", names: []string{
		"request.timeout.ms", "default.api.timeout.ms", "socket.*", "send.buffer.bytes", "receive.*", "reconnect.backoff.*", "retry.backoff.*",
		"connections.max.idle.ms", "metadata.max.age.ms", "metadata.recovery.*", "topic.metadata.*", "fetch.min.bytes", "fetch.max.bytes",
		"fetch.message.max.bytes", "max.partition.fetch.bytes", "fetch.queue.backoff.ms", "fetch.error.backoff.ms", "queued.*",
		"broker.*", "bootstrap.resolve.timeout.ms", "api.version.*", "consume.callback.max.messages",
	}},
	{fate: ignored, note: "the client is called tidemark- and the pipeline's name", names: []string{"client.id"}},
	{fate: ignored, note: "the leader of a partition is read", names: []string{"client.rack"}},
	{fate: ignored, note: "topics are never created", names: []string{"allow.auto.create.topics"}},
	{fate: ignored, note: "checksums are always checked", names: []string{"check.crcs"}},
	{fate: ignored, note: "TLS is Go's, of version 1.2 or later", names: []string{
		"ssl.protocol", "ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation",
	}},
	{fate: ignored, note: "it is for OAUTHBEARER and Kerberos", names: []string{
		"sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.*", "sasl.login.retry.*",
	}},
	{fate: ignored, note: "logs and metrics are those of the function", names: []string{
		"metric.reporters", "metrics.*", "auto.include.jmx.reporter", "enable.metrics.push", "statistics.interval.ms", "log_level", "log.*", "debug",
	}},
	{fate: ignored, note: "it has no counterpart here", names: []string{
		"exclude.internal.topics", "enable.partition.eof", "builtin.features", "enable.random.seed", "enabled_events", "internal.*",
	}},

	{fate: refused, note: pemInstead, names: []string{
		"ssl.truststore.location", "ssl.truststore.password", "ssl.keystore.location", "ssl.keystore.password",
	}},
	{fate: refused, note: "store the key without a password, as a secret, and set kafka.tls.keyFile to it", names: []string{"ssl.key.password"}},
	{fate: refused, note: "set kafka.tls.caFile to that path", names: []string{"ssl.ca.location"}},
	{fate: refused, note: "set kafka.tls.certFile to that path", names: []string{"ssl.certificate.location"}},
	{fate: refused, note: "set kafka.tls.keyFile to that path", names: []string{"ssl.key.location"}},
	{fate: refused, note: "TLS is Go's and cannot be narrowed: leave it out, or let the brokers refuse what is too weak", names: []string{
		"ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list", "ssl.provider", "ssl.providers", "ssl.engine.*", "security.providers",
		"ssl.crl.location", "ssl.ca.certificate.stores", "https.ca.*",
	}},
	{fate: refused, note: "OAUTHBEARER is not supported by this version: " + insteadOfOAuth, names: []string{
		"sasl.oauthbearer.*", "enable.sasl.oauthbearer.unsecure.jwt",
	}},
	{fate: refused, note: "Kerberos is not supported: use PLAIN or SCRAM", names: []string{"sasl.kerberos.*"}},
	{fate: refused, note: "a class of Java cannot run here: use PLAIN or SCRAM, with username and password", names: []string{
		"sasl.login.class", "sasl.login.callback.handler.class", "sasl.client.callback.handler.class",
	}},
	{fate: refused, note: "it may change records, and cannot run here: leave it out", names: []string{"interceptor.classes", "interceptors", "plugin.library.paths"}},
	{fate: refused, note: "placeholders are not replaced: leave it out, and set the keys of kafka with references instead", names: []string{"config.providers", "config.providers.*"}},
	{fate: refused, note: "name what is read in source.subscribe, source.subscribePattern or source.assign", names: []string{"topic.blacklist"}},
}

const (
	pemInstead    = "stores of Java are not read: convert them to PEM with keytool and openssl, and set kafka.tls.caFile, kafka.tls.certFile and kafka.tls.keyFile"
	verifyInstead = "brokers are always verified: name their authority in kafka.tls.caFile, and their name in kafka.tls.serverName where it differs"
)

// nearestProperty returns the property that a text is nearly the name of, "" for none.
func nearestProperty(text string) string {
	var names []string
	for _, row := range clientTable {
		for _, name := range row.names {
			names = append(names, strings.TrimSuffix(name, ".*"))
		}
	}
	return nearestOf(text, names)
}

// findClientKey returns the row of a property.
func findClientKey(name string) (clientKeys, bool) {
	for _, row := range clientTable {
		for _, known := range row.names {
			begin, open := strings.CutSuffix(known, "*")
			if known == name || open && strings.HasPrefix(name, begin) {
				return row, true
			}
		}
	}
	return clientKeys{}, false
}
