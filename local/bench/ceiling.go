package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	mongooptions "go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark/tidemark/local/orders"
	"github.com/tidemark/tidemark/local/realpart"
)

const (
	// defaultWriters and ceilingBatch are the defaults of sink.writers and sink.batch.records.
	defaultWriters = 4
	ceilingBatch   = 2000

	ceilingPort = "TIDEMARK_BENCH_CEILING_PORT"
	ceilingURI  = "TIDEMARK_BENCH_CEILING_URI"
	// ceilingTopic is the topic that the documents are named after.
	ceilingTopic = "TIDEMARK_BENCH_CEILING_TOPIC"
)

// startCeiling starts the ceiling's process and has it encode its documents.
func (s *stage) startCeiling(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	s.ceiling, err = realpart.Program(ctx, realpart.Options{Env: []string{ceilingURI + "=" + s.mongod.URI, ceilingTopic + "=" + s.topic.Name}}, ceilingPort, self)
	if err != nil {
		return fmt.Errorf("starting the ceiling process: %w", err)
	}
	return askCeiling(ctx, s.ceiling, "prepare", "records", s.options.records)
}

// measureCeiling sends the documents that were encoded beforehand.
func (s *stage) measureCeiling(ctx context.Context, writers int) (result, error) {
	if err := s.empty(ctx); err != nil {
		return result{}, err
	}
	r, err := s.measure(ctx, "ceiling", s.ceiling, func(ctx context.Context) error {
		return askCeiling(ctx, s.ceiling, "insert", "writers", writers)
	})
	if err != nil {
		return result{}, err
	}
	r.writers = writers
	return r, s.verify(ctx, "ceiling")
}

func askCeiling(ctx context.Context, process *realpart.Process, what, name string, number int) error {
	target := url.URL{Scheme: "http", Host: process.Host, Path: "/" + what, RawQuery: url.Values{name: {strconv.Itoa(number)}}.Encode()}
	return post(ctx, http.DefaultClient, target.String(), io.Discard)
}

// post calls a process of the benchmark, which answers with 200 or with the error as text.
func post(ctx context.Context, client *http.Client, target string, answer io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, http.NoBody)
	if err != nil {
		return fmt.Errorf("making a call: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("calling a process of the benchmark: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what was read says more than why it ended
		return fmt.Errorf("calling %s: %s", req.URL.Path, text)
	}
	if _, err := io.Copy(answer, resp.Body); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", req.URL.Path, err)
	}
	return nil
}

// ceilingAsChild turns this program into the ceiling's process when it was started as one, and returns otherwise.
func ceilingAsChild() {
	port := os.Getenv(ceilingPort)
	if port == "" {
		return
	}
	if err := serveCeiling(port, os.Getenv(ceilingURI), os.Getenv(ceilingTopic)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func serveCeiling(port, uri, topic string) error {
	client, err := mongo.Connect(mongooptions.Client().ApplyURI(uri))
	if err != nil {
		return fmt.Errorf("connecting to MongoDB: %w", err)
	}
	c := &ceiling{database: client.Database(databaseName), topic: orders.Topic{Name: topic, Partitions: partitions}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /prepare", asked("records", c.prepare))
	mux.HandleFunc("POST /insert", asked("writers", c.insert))
	server := &http.Server{Addr: net.JoinHostPort("127.0.0.1", port), Handler: mux, ReadHeaderTimeout: time.Minute}
	return fmt.Errorf("serving the ceiling: %w", server.ListenAndServe())
}

// asked is a handler that takes one number.
func asked(name string, do func(context.Context, int) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.Atoi(r.FormValue(name))
		if err == nil {
			err = do(r.Context(), number)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// ceiling sends documents in the way that costs least: nothing is left to do but to send a command and to wait.
type ceiling struct {
	database *mongo.Database
	topic    orders.Topic
	commands []bson.Raw
	sizes    []int
}

// prepare encodes the commands, with the documents that the function must make of the same records.
func (c *ceiling) prepare(_ context.Context, records int) error {
	batch := make([]bson.Raw, 0, ceilingBatch)
	flush := func() error {
		command, err := bson.Marshal(bson.D{
			{Key: "insert", Value: collection},
			{Key: "documents", Value: batch},
			{Key: "ordered", Value: false},
			{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}},
		})
		if err != nil {
			return fmt.Errorf("encoding a command: %w", err)
		}
		c.commands, c.sizes = append(c.commands, command), append(c.sizes, len(batch))
		batch = batch[:0]
		return nil
	}
	err := c.topic.Each(records, func(e *orders.Event) error {
		document, err := e.Order.Document(c.topic.ID(e))
		if err != nil {
			return err
		}
		if batch = append(batch, document); len(batch) == cap(batch) {
			return flush()
		}
		return nil
	})
	if err == nil && len(batch) > 0 {
		err = flush()
	}
	return err
}

// insert sends every command, from so many writers at once.
func (c *ceiling) insert(ctx context.Context, writers int) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range writers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(c.commands) {
					return nil
				}
				answer, err := c.database.RunCommand(ctx, c.commands[i]).Raw()
				if err != nil {
					return fmt.Errorf("inserting %d documents: %w", c.sizes[i], err)
				}
				if stored, ok := answer.Lookup("n").AsInt64OK(); !ok || stored != int64(c.sizes[i]) {
					return errors.New("inserting documents: the server acknowledged another number of them")
				}
			}
		})
	}
	return group.Wait()
}
