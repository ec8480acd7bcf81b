package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// dayRecords are produced on each of two days.
const dayRecords = 5000

// showNextDay throws the function's processes and folders away in the evening and stops Kafka and MongoDB. In the
// morning these are started on their own data, at other ports, and the function anew. Only the checkpoint was kept.
func showNextDay(ctx context.Context, s *stage) (string, error) {
	files := pipeline{name: "nextday-files", files: filepath.Join(s.dir, "checkpoints")}
	days := []pipeline{{name: "nextday-firestore"}, files}
	for _, p := range days {
		if err := s.createTopic(ctx, p.name, partitions, nil); err != nil {
			return "", err
		}
		if err := s.produceDay(ctx, p.name, 0); err != nil {
			return "", err
		}
		if _, err := s.move(ctx, p); err != nil {
			return "", err
		}
	}
	if err := s.sleep(ctx); err != nil {
		return "", err
	}
	for _, p := range days {
		if err := s.produceDay(ctx, p.name, dayRecords); err != nil {
			return "", err
		}
		t, err := s.move(ctx, p)
		if err != nil {
			return "", err
		}
		if t.first.StartedFrom != "checkpoint" || t.written != dayRecords || t.duplicates != 0 {
			return "", fmt.Errorf("%s started from %s, wrote %d and %d again", p.name, t.first.StartedFrom, t.written, t.duplicates)
		}
		c, err := s.compare(ctx, p.name)
		if err != nil {
			return "", err
		}
		s.say("%s: started from the %s, %d new, none again; %s", p.name, t.first.StartedFrom, t.written, c)
	}
	refusals, err := s.deleteCheckpoints(ctx, days[0], files)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("resumed with %d new records and no duplicate, from Firestore and from files; a deleted checkpoint is refused (%s)",
		dayRecords, refusals), nil
}

func (s *stage) produceDay(ctx context.Context, topic string, from int) error {
	records := make([]*kgo.Record, dayRecords)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Appendf(nil, `{"n":%d}`, from+i)}
	}
	return s.produce(ctx, records)
}

// sleep stops Kafka and MongoDB and starts them again. No function process is running, and none has a folder.
func (s *stage) sleep(ctx context.Context) error {
	was := s.kafka.Host + " and " + strings.TrimPrefix(s.mongod.URI, "mongodb://")
	if err := s.client.Disconnect(ctx); err != nil {
		return fmt.Errorf("disconnecting: %w", err)
	}
	s.kafka.Stop()
	s.mongod.Stop()
	s.client = nil
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startKafka(groupCtx) })
	group.Go(func() error { return s.startMongo(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	s.say("Kafka and MongoDB were at %s and are at %s and %s", was, s.kafka.Host, strings.TrimPrefix(s.mongod.URI, "mongodb://"))
	return nil
}

// deleteCheckpoints deletes the lanes' documents by hand: the next runs must refuse to start over.
func (s *stage) deleteCheckpoints(ctx context.Context, inFirestore, inFiles pipeline) (string, error) {
	client, err := firestore.NewClient(ctx, project)
	if err != nil {
		return "", fmt.Errorf("connecting to Firestore: %w", err)
	}
	defer func() { _ = client.Close() }() // it was only written to
	if _, err := client.Doc("tidemark/" + inFirestore.name + "/lanes/0").Delete(ctx); err != nil {
		return "", fmt.Errorf("deleting the lane's document: %w", err)
	}
	lanes, err := filepath.Glob(filepath.Join(inFiles.files, inFiles.name, "lanes", "*"))
	if err != nil || len(lanes) == 0 {
		return "", errors.Join(errors.New("the file store has no lane document to delete"), err)
	}
	for _, lane := range lanes {
		if err := os.RemoveAll(lane); err != nil {
			return "", fmt.Errorf("deleting the lane's document: %w", err)
		}
	}
	var classes []string
	for _, p := range []pipeline{inFirestore, inFiles} {
		process, err := s.function(ctx, p)
		if err != nil {
			return "", err
		}
		a, err := call(ctx, process)
		process.Kill()
		if err != nil {
			return "", err
		}
		if a.status != http.StatusInternalServerError || a.ErrorClass != "checkpoint-missing" || a.Read != 0 {
			return "", fmt.Errorf("without its checkpoint %s answered %d, %s, %d read: %s", p.name, a.status, a.ErrorClass, a.Read, a.Error)
		}
		s.say("%s: %d %s", p.name, a.status, a.Error)
		classes = append(classes, a.ErrorClass)
	}
	return strings.Join(classes, ", "), nil
}
