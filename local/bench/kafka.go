package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/local/orders"
	"github.com/tidemark/tidemark/local/realpart"
)

// broker is the Kafka that is read from.
type broker struct {
	name    string
	started bool // by us, for this alone
	servers []string
	usage   func() usage
	stop    func()
}

// startKafka starts Apache Kafka, or takes the embedded one where that cannot be had: its cost is another, so the result
// says which it was.
func startKafka(ctx context.Context) (broker, error) {
	process, err := realpart.Kafka(ctx, realpart.KafkaOptions{})
	if errors.Is(err, realpart.ErrNotFound) {
		return embeddedKafka()
	}
	if err != nil {
		return broker{}, fmt.Errorf("starting Kafka: %w", err)
	}
	return broker{
		name: "Apache Kafka", started: process.Started, servers: []string{process.Host}, stop: process.Stop,
		usage: func() usage { return usageOfPart(process.Process) },
	}, nil
}

func embeddedKafka() (broker, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return broker{}, fmt.Errorf("starting the embedded Kafka: %w", err)
	}
	return broker{
		name: "embedded Kafka", started: true, servers: cluster.ListenAddrs(), stop: cluster.Close,
		usage: func() usage { return usageOf(os.Getpid()) }, // this process, which also watches
	}, nil
}

// createTopic makes the topic, with a name of its own on a broker that was running before.
func (s *stage) createTopic(ctx context.Context) error {
	s.topic = orders.Topic{Name: "orders", Partitions: partitions}
	if !s.kafka.started {
		s.topic.Name = filepath.Base(s.dir)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.servers...))
	if err != nil {
		return fmt.Errorf("connecting to Kafka: %w", err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, s.topic.Partitions, 1, nil, s.topic.Name); err != nil {
		return fmt.Errorf("creating topic %s: %w", s.topic.Name, err)
	}
	return nil
}

// deleteTopic leaves a broker that was running before as it was.
func (s *stage) deleteTopic() {
	if s.kafka.started {
		return
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.servers...))
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_, _ = kadm.NewClient(client).DeleteTopic(ctx, s.topic.Name) // nothing is left to do about it
}
