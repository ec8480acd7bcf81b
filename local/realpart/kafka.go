package realpart

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	kafkaMain     = "kafka.Kafka"
	kafkaStorage  = "kafka.tools.StorageTool"
	kafkaCluster  = "tidemark-kafka-cluster" // any 22 characters of base64 are a cluster id
	plainListener = "PLAINTEXT"
)

// KafkaOptions say how a broker is started. The zero value is one without sign-in.
type KafkaOptions struct {
	Options

	// Listeners are beside the one without sign-in that every broker has.
	Listeners []KafkaListener
	// Properties are added to the broker's configuration, and win over ours.
	Properties map[string]string
	// SCRAM are users that are known from the first start of a Dir on, each as StorageTool's --add-scram takes it:
	// "SCRAM-SHA-256=[name=u,password=p]".
	SCRAM []string
}

// KafkaListener is one more port of a broker.
type KafkaListener struct {
	// Name is in capitals; Protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	Name, Protocol string
	// Properties are those of this listener alone, without the prefix "listener.name.<name>.".
	Properties map[string]string
}

// KafkaBroker is a broker that can be used. Host is its listener without sign-in.
type KafkaBroker struct {
	*Process

	// Listeners are the addresses of the others, by name.
	Listeners map[string]string
}

// Kafka returns an Apache Kafka of one broker: the one of $KAFKA_BOOTSTRAP, which must ask for no sign-in, or one that
// is started from jars that Maven fetches once. With a Dir that was used before it goes on with the log in it. The
// options are for a broker that is started.
func Kafka(ctx context.Context, opts KafkaOptions) (*KafkaBroker, error) {
	if host := os.Getenv("KAFKA_BOOTSTRAP"); host != "" {
		p, err := running(ctx, "KAFKA_BOOTSTRAP", &Process{Host: host}, strings.Split(host, ",")...)
		return &KafkaBroker{Process: p}, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("java, which runs Apache Kafka, %w: install Java 17 or later, or set KAFKA_BOOTSTRAP", ErrNotFound)
	}
	lib, err := downloadedKafka(ctx)
	if err != nil {
		return nil, fmt.Errorf("the Apache Kafka of the tests %w: %w; install Maven 3.6 or later, or set KAFKA_BOOTSTRAP", ErrNotFound, err)
	}
	broker := &KafkaBroker{}
	broker.Process, err = retryStart(func() (*Process, error) {
		broker.Listeners = map[string]string{}
		return startKafka(ctx, java, filepath.Join(lib, "*"), opts, broker.Listeners)
	})
	if err != nil {
		return nil, err
	}
	return broker, nil
}

// startKafka starts a broker that is its own controller, and enters the addresses of its listeners.
func startKafka(ctx context.Context, java, classes string, opts KafkaOptions, listeners map[string]string) (*Process, error) {
	dir, cleanup, err := dataDir(opts.Dir, "kafka")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "server.properties")
	host, err := writeBrokerConfig(ctx, config, dir, opts, listeners)
	if err != nil {
		removeAll(cleanup)
		return nil, err
	}
	if err := formatStorage(ctx, java, classes, config, opts.SCRAM); err != nil {
		removeAll(cleanup)
		return nil, err
	}
	// A small heap and no second compiler for the first seconds: a broker of tests is idle most of the time.
	p, err := launch(opts.Options, java, "-Xmx1g", "-XX:+UseSerialGC", "-cp", classes, kafkaMain, config)
	if err != nil {
		removeAll(cleanup)
		return nil, err
	}
	p.cleanup, p.Host = cleanup, host
	if err := p.waitListening(ctx, "Apache Kafka on "+host); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// writeBrokerConfig writes the configuration of a broker with ports that are free, and returns the address of the
// listener without sign-in. Ports may be others at the next start of the same folder.
func writeBrokerConfig(ctx context.Context, path, dir string, opts KafkaOptions, listeners map[string]string) (host string, err error) {
	all := append([]KafkaListener{{Name: plainListener, Protocol: plainListener}, {Name: "CONTROLLER", Protocol: plainListener}}, opts.Listeners...)
	properties := map[string]string{
		"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER",
		"inter.broker.listener.name": plainListener,
		"log.dirs":                   filepath.Join(dir, "log"),
		// There is one broker, and a topic that comes into being by a slip would hide the slip.
		"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
		"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0",
	}
	var addresses, advertised, protocols []string
	for _, l := range all {
		port, err := freePort(ctx)
		if err != nil {
			return "", err
		}
		address := "127.0.0.1:" + port
		addresses = append(addresses, l.Name+"://"+address)
		protocols = append(protocols, l.Name+":"+l.Protocol)
		switch l.Name {
		case "CONTROLLER":
			properties["controller.quorum.voters"] = "1@" + address
			continue
		case plainListener:
			host = address
		default:
			listeners[l.Name] = address
		}
		advertised = append(advertised, l.Name+"://"+address)
		for name, value := range l.Properties {
			properties["listener.name."+strings.ToLower(l.Name)+"."+name] = value
		}
	}
	properties["listeners"] = strings.Join(addresses, ",")
	properties["advertised.listeners"] = strings.Join(advertised, ",")
	properties["listener.security.protocol.map"] = strings.Join(protocols, ",")
	maps.Copy(properties, opts.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		// Lines of a PEM go on with a backslash in this format.
		fmt.Fprintf(&text, "%s=%s\n", name, strings.ReplaceAll(properties[name], "\n", "\\n"))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("writing the configuration of Kafka: %w", err)
	}
	return host, nil
}

// formatStorage makes the log folder of a broker, unless it is there from an earlier start.
func formatStorage(ctx context.Context, java, classes, config string, scram []string) error {
	args := []string{"-XX:TieredStopAtLevel=1", "-cp", classes, kafkaStorage, "format", "--ignore-formatted", "-t", kafkaCluster, "-c", config}
	for _, user := range scram {
		args = append(args, "--add-scram", user)
	}
	out, err := exec.CommandContext(ctx, java, args...).CombinedOutput() //nolint:gosec // the program is found by this package
	if err != nil {
		last := &tail{}
		_, _ = last.Write(out)
		return fmt.Errorf("formatting the storage of Kafka: %w: %s", err, last.last())
	}
	return nil
}
