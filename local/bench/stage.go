package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	mongooptions "go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark/tidemark/local/orders"
	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/terminal"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	partitions   = 4
	databaseName = "tidemark_bench"
	collection   = "orders"
	project      = "bench-tidemark"
	// cacheGB holds a million of the documents and their oplog entries, as a server's cache holds what was just written.
	cacheGB = 1
	// leaveTime bounds what is only politeness.
	leaveTime = 5 * time.Second
)

// stage is everything that the benchmark starts.
type stage struct {
	out     io.Writer
	options options
	dir     string

	kafka     broker
	topic     orders.Topic // nothing in it is poison: dead letters would be another benchmark
	valueSize float64      // bytes of JSON a record, on average
	mongod    *realpart.Process
	firestore *realpart.Process // nil where the file store stands in
	client    *mongo.Client
	ceiling   *realpart.Process
	log       *os.File
	hash      string // of what the first phase left
}

// newStage starts the parts and makes everything that is not measured: records in Kafka, documents in the ceiling process.
func newStage(ctx context.Context, out io.Writer, o options) (*stage, error) {
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &stage{out: out, options: o, dir: dir}
	if err := s.start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) start(ctx context.Context) (err error) {
	if s.log, err = os.Create(filepath.Join(s.dir, "function.log")); err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	fmt.Fprintf(s.out, "starting Kafka, MongoDB and the checkpoint store, producing %s records into Kafka, encoding the documents of the ceiling ...\n",
		terminal.Thousands(s.options.records))
	if s.kafka, err = startKafka(ctx); err != nil {
		return err
	}
	if err := s.createTopic(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.produce(groupCtx) })
	group.Go(func() error { return s.startStore(groupCtx) })
	group.Go(func() error {
		if err := s.startMongo(groupCtx); err != nil {
			return err
		}
		return s.startCeiling(groupCtx)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return s.warmUp(ctx)
}

// warmUp moves a few records in a pipeline of its own. The virtual machine of the Firestore emulator takes about two
// seconds for its first calls, which says nothing of Firestore.
func (s *stage) warmUp(ctx context.Context) error {
	const pipeline = "warm-up"
	process, err := s.startFunction(ctx, pipeline, "limits: {records: 1000}")
	if err != nil {
		return err
	}
	defer process.Kill()
	report, err := call(ctx, process, pipeline)
	if err == nil && report.Outcome != record.Partial {
		err = fmt.Errorf("the run ended as %s: %s", report.Outcome, report.Error)
	}
	if err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	return nil
}

func (s *stage) produce(ctx context.Context) error {
	total := 0
	err := s.topic.Produce(ctx, s.kafka.servers, s.options.records, func(e *orders.Event) error {
		total += len(e.Value)
		return nil
	})
	s.valueSize = float64(total) / float64(s.options.records)
	return err
}

func (s *stage) startMongo(ctx context.Context) (err error) {
	if s.mongod, err = realpart.Mongod(ctx, realpart.Options{CacheGB: cacheGB}); err != nil {
		return fmt.Errorf("starting MongoDB: %w", err)
	}
	if s.client, err = mongo.Connect(mongooptions.Client().ApplyURI(s.mongod.URI)); err != nil {
		return fmt.Errorf("connecting to MongoDB: %w", err)
	}
	return nil
}

// startStore starts the Firestore emulator, or takes the file store where there is none.
func (s *stage) startStore(ctx context.Context) error {
	firestore, err := realpart.FirestoreEmulator(ctx, realpart.Options{})
	if errors.Is(err, realpart.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("starting the Firestore emulator: %w", err)
	}
	s.firestore = firestore
	return nil
}

// empty makes MongoDB what it was before the first phase: no documents, and none of the last ones still to be flushed.
func (s *stage) empty(ctx context.Context) error {
	if err := s.client.Database(databaseName).Drop(ctx); err != nil {
		return fmt.Errorf("emptying database %s: %w", databaseName, err)
	}
	if err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err(); err != nil {
		return fmt.Errorf("flushing MongoDB: %w", err)
	}
	return nil
}

// verify counts the documents as a majority holds them, and compares them with those of the first phase.
func (s *stage) verify(ctx context.Context, what string) error {
	database := s.client.Database(databaseName)
	majority := database.Collection(collection, mongooptions.Collection().SetReadConcern(readconcern.Majority()))
	stored, err := majority.CountDocuments(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("counting the documents of the %s: %w", what, err)
	}
	if stored != int64(s.options.records) {
		return fmt.Errorf("the %s left %d documents of %d records", what, stored, s.options.records)
	}
	answer, err := database.RunCommand(ctx, bson.D{{Key: "dbHash", Value: 1}, {Key: "collections", Value: bson.A{collection}}}).Raw()
	if err != nil {
		return fmt.Errorf("hashing the documents of the %s: %w", what, err)
	}
	hash, ok := answer.Lookup("collections", collection).StringValueOK()
	if !ok {
		return fmt.Errorf("hashing the documents of the %s: the answer holds no hash", what)
	}
	if s.hash == "" {
		s.hash = hash
	}
	if s.hash != hash {
		return fmt.Errorf("the %s left other documents than the phase before it", what)
	}
	return nil
}

// close ends everything that was started.
func (s *stage) close() {
	if s.client != nil {
		_ = s.client.Disconnect(context.Background()) // mongod is stopped next
	}
	for _, part := range []*realpart.Process{s.ceiling, s.mongod, s.firestore} {
		if part != nil {
			part.Stop()
		}
	}
	if s.kafka.stop != nil {
		s.deleteTopic()
		s.kafka.stop()
	}
	if s.log != nil {
		_ = s.log.Close() // it is thrown away
	}
	_ = os.RemoveAll(s.dir) // a temporary folder
}
