package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark/tidemark/local/realpart"
)

const (
	databaseName = "tidemark_e2e"
	project      = "e2e-tidemark"
	partitions   = 4
)

// stage is everything that is started. The parts share it, and each has topics, collections and pipelines of its own.
type stage struct {
	out  io.Writer
	dir  string
	keys *keyring

	kafka     *realpart.KafkaBroker
	mongod    *realpart.Process
	firestore *realpart.Process
	client    *mongo.Client
	log       *os.File // of the function processes
}

func newStage(ctx context.Context, out io.Writer) (*stage, error) {
	dir, err := os.MkdirTemp("", "tidemark-e2e-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &stage{out: out, dir: dir}
	if err := s.start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) start(ctx context.Context) (err error) {
	if s.keys, err = newKeyring(s.dir); err != nil {
		return err
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "function.log")); err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startKafka(groupCtx) })
	group.Go(func() error { return s.startMongo(groupCtx) })
	group.Go(func() (err error) {
		if s.firestore, err = realpart.FirestoreEmulator(groupCtx, realpart.Options{}); err != nil {
			return fmt.Errorf("starting the Firestore emulator: %w", err)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := os.Setenv("FIRESTORE_EMULATOR_HOST", s.firestore.Host); err != nil {
		return fmt.Errorf("setting FIRESTORE_EMULATOR_HOST: %w", err)
	}
	return nil
}

// startKafka starts the broker on its own log, which a second start finds again.
func (s *stage) startKafka(ctx context.Context) (err error) {
	if os.Getenv("KAFKA_BOOTSTRAP") != "" {
		return errors.New("KAFKA_BOOTSTRAP is set, and the broker of this test needs listeners of its own and is restarted: unset it")
	}
	s.kafka, err = realpart.Kafka(ctx, realpart.KafkaOptions{
		Options:   realpart.Options{Dir: filepath.Join(s.dir, "kafka")},
		Listeners: s.keys.listeners(), SCRAM: s.keys.scram(),
		Properties: map[string]string{"log.cleaner.backoff.ms": "200", "transaction.max.timeout.ms": "900000"},
	})
	if err != nil {
		return fmt.Errorf("starting Kafka: %w", err)
	}
	return nil
}

// startMongo starts MongoDB on its own data, which a second start finds again.
func (s *stage) startMongo(ctx context.Context) (err error) {
	if s.mongod, err = realpart.Mongod(ctx, realpart.Options{Dir: filepath.Join(s.dir, "mongod"), CacheGB: 1}); err != nil {
		return fmt.Errorf("starting MongoDB: %w", err)
	}
	if s.client, err = mongo.Connect(options.Client().ApplyURI(s.mongod.URI)); err != nil {
		return fmt.Errorf("connecting to MongoDB: %w", err)
	}
	if s.mongod.Started {
		return nil
	}
	if err := s.client.Database(databaseName).Drop(ctx); err != nil { // what an earlier e2e left in it
		return fmt.Errorf("emptying database %s: %w", databaseName, err)
	}
	return nil
}

func (s *stage) collection(name string) *mongo.Collection {
	return s.client.Database(databaseName).Collection(name)
}

// say tells progress.
func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.out, "   "+format+"\n", args...) }

// kafkaClient returns a client that the caller closes.
func (s *stage) kafkaClient(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.kafka.Host)}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	return client, nil
}

func (s *stage) createTopic(ctx context.Context, topic string, count int32, config map[string]string) error {
	client, err := s.kafkaClient()
	if err != nil {
		return err
	}
	defer client.Close()
	settings := map[string]*string{}
	for name, value := range config {
		settings[name] = &value
	}
	if _, err := kadm.NewClient(client).CreateTopic(ctx, count, 1, settings, topic); err != nil {
		return fmt.Errorf("creating topic %s: %w", topic, err)
	}
	return nil
}

// produce sends the records and waits until all are acknowledged.
func (s *stage) produce(ctx context.Context, records []*kgo.Record, opts ...kgo.Opt) error {
	client, err := s.kafkaClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(20_000))...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("producing: %w", err)
	}
	return nil
}

func (s *stage) close() {
	if s.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.client.Disconnect(ctx) // mongod is stopped next
	}
	for _, p := range []*realpart.Process{s.mongod, s.firestore} {
		if p != nil {
			p.Stop()
		}
	}
	if s.kafka != nil {
		s.kafka.Stop()
	}
	if s.log != nil {
		_ = s.log.Close() // it is thrown away
	}
	_ = os.RemoveAll(s.dir) // a temporary folder
}
