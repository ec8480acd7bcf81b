package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/serve"
	"github.com/tidemark/tidemark/local/terminal"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
)

const (
	pipelineName = "orders"
	collection   = "orders"
	deadLetters  = "orders_dead"
	project      = "demo-tidemark"
	// leaseLength is short, so that the run after the killed one need not wait long, and long enough for an emulator on
	// a busy machine.
	leaseLength = 4 * time.Second
)

// stage is everything that the demo starts.
type stage struct {
	out      io.Writer
	dir      string
	made     produced
	prepared time.Time

	kafka     *kfake.Cluster
	mongod    *realpart.Process
	firestore *realpart.Process // nil where the file store stands in
	client    *mongo.Client
	store     lease.Store
	function  *realpart.Process
	perRun    int
	log       *os.File
}

// newStage starts the parts, fills Kafka with n orders and starts the function process.
func newStage(ctx context.Context, out io.Writer, n int) (*stage, error) {
	dir, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &stage{out: out, dir: dir, perRun: (n + 5) / 6}
	if err := s.start(ctx, n); err != nil {
		s.close()
		return nil, err
	}
	s.prepared = time.Now()
	return s, nil
}

func (s *stage) start(ctx context.Context, n int) error {
	var err error
	if s.kafka, err = startKafka(); err != nil {
		return err
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "function.log")); err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	fmt.Fprintf(s.out, "starting MongoDB and the checkpoint store, and producing %s orders into Kafka (%d partitions) ...\n",
		terminal.Thousands(n), partitions)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		s.made, err = produce(groupCtx, s.kafka.ListenAddrs(), n)
		return err
	})
	group.Go(func() error { return s.startMongo(groupCtx) })
	group.Go(func() error { return s.startStore(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.startFunction(ctx)
}

func (s *stage) startMongo(ctx context.Context) (err error) {
	if s.mongod, err = realpart.Mongod(ctx, realpart.Options{CacheGB: 0.5}); err != nil {
		return fmt.Errorf("starting MongoDB: %w", err)
	}
	if s.client, err = mongo.Connect(options.Client().ApplyURI(s.mongod.URI)); err != nil {
		return fmt.Errorf("connecting to MongoDB: %w", err)
	}
	return nil
}

// startStore starts the Firestore emulator, or takes the file store where there is none.
func (s *stage) startStore(ctx context.Context) (err error) {
	s.firestore, err = realpart.FirestoreEmulator(ctx, realpart.Options{})
	if errors.Is(err, realpart.ErrNotFound) {
		fmt.Fprintln(s.out, "no Firestore emulator here: the checkpoint is kept in files instead (install the Google Cloud SDK's emulator to see Firestore)")
		s.store, err = localcheckpoint.OpenFile(s.checkpointDir(), pipelineName)
		return err
	}
	if err != nil {
		return fmt.Errorf("starting the Firestore emulator: %w", err)
	}
	if err := os.Setenv("FIRESTORE_EMULATOR_HOST", s.firestore.Host); err != nil {
		return fmt.Errorf("setting FIRESTORE_EMULATOR_HOST: %w", err)
	}
	s.store, err = firecheckpoint.New(firecheckpoint.Options{Project: project, Collection: s.name(), Pipeline: pipelineName})
	return err
}

func (s *stage) checkpointDir() string { return filepath.Join(s.dir, "checkpoint") }

// startFunction starts the function process: this program again, under the functions framework.
func (s *stage) startFunction(ctx context.Context) (err error) {
	s.function, err = serve.Child(ctx, s.log, "TIDEMARK_CONFIG_INLINE="+s.config())
	return err
}

// config is the pipeline, as config.example.yaml.
func (s *stage) config() string {
	store := "{store: firestore, project: " + project + ", collection: " + s.name()
	if s.firestore == nil {
		store = "{store: file, path: " + s.checkpointDir()
	}
	return fmt.Sprintf(`pipeline: %s
kafka: {bootstrapServers: [%s], fetchWait: 50ms}
source: {subscribe: [%s], startingOffsets: earliest}
record: {format: json, dates: [createdAt]}
sink: {uri: "%s", database: %s, collection: %s}
deadLetters: {collection: %s}
checkpoint: %s, lease: %s}
run: {deadline: 30s, limits: {records: %d}}
`, pipelineName, strings.Join(s.kafka.ListenAddrs(), ", "), topic, s.mongod.URI, s.name(), collection, deadLetters,
		store, leaseLength, s.perRun)
}

func (s *stage) database() *mongo.Database { return s.client.Database(s.name()) }

// name is the demo's own database and checkpoint collection: new in every demo, for a MongoDB or an emulator that was
// running already holds what is somebody else's.
func (s *stage) name() string { return strings.ReplaceAll(filepath.Base(s.dir), "-", "_") }

// close ends everything that was started.
func (s *stage) close() {
	if s.function != nil {
		s.function.Kill()
	}
	if s.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.database().Drop(ctx)   // where mongod was not started here, it stays
		_ = s.client.Disconnect(ctx) // else it is stopped next
	}
	for _, part := range []*realpart.Process{s.mongod, s.firestore} {
		if part != nil {
			part.Stop()
		}
	}
	if s.kafka != nil {
		s.kafka.Close()
	}
	if s.log != nil {
		_ = s.log.Close() // it is thrown away
	}
	_ = os.RemoveAll(s.dir) // a temporary folder
}
