package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/local/realpart"
)

// keyedRounds is how often each movie is written. Every seventh one is deleted in the end, and every 21st comes back.
const keyedRounds = 3

// showKeyed writes the movies by their titles, again and again, with deletions, through a process that is killed in the
// middle, and compares what is left with a fold of the topic.
func showKeyed(ctx context.Context, s *stage) (string, error) {
	var figures []string
	for _, mode := range []string{"upsert", "update"} {
		name := "keyed-" + mode
		want, records, err := s.produceKeyed(ctx, name, mode == "update")
		if err != nil {
			return "", err
		}
		p := pipeline{name: name, lease: shortLease, sink: ", mode: " + mode + ", tombstones: delete, batch: {records: 200}"}
		if err := s.killInTheMiddle(ctx, p, int64(len(want)/4)); err != nil {
			return "", err
		}
		t, err := s.move(ctx, p)
		if err != nil {
			return "", err
		}
		if t.deadLettered != 0 {
			return "", fmt.Errorf("%s: %d dead letters", name, t.deadLettered)
		}
		if err := s.compareKeyed(ctx, name, want); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		s.say("%s: %d records of %d keys, killed in the middle: %d documents, each as the fold has it", name, records, len(want), len(want))
		figures = append(figures, fmt.Sprintf("%s: %d records, %d documents", mode, records, len(want)))
	}
	return strings.Join(figures, "; ") + ", the same as the fold of the topic", nil
}

// produceKeyed fills the topic and returns the fold: what stands under each key in the end. A key stays in its partition.
func (s *stage) produceKeyed(ctx context.Context, name string, merge bool) (want map[string]bson.D, n int, err error) {
	rows, err := movies(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := s.createTopic(ctx, name, partitions, nil); err != nil {
		return nil, 0, err
	}
	want = map[string]bson.D{}
	var records []*kgo.Record
	add := func(i int, value []byte) error {
		key := fmt.Sprintf("movie %d", i)
		records = append(records, &kgo.Record{Topic: name, Partition: int32(i % partitions), Key: []byte(key), Value: value})
		if value == nil {
			delete(want, key)
			return nil
		}
		doc, err := document(key, value)
		if err != nil {
			return err
		}
		var fields bson.D
		if err := bson.Unmarshal(doc, &fields); err != nil {
			return fmt.Errorf("reading a document back: %w", err)
		}
		if was, there := want[key]; there && merge {
			fields = set(was, fields)
		}
		want[key] = fields
		return nil
	}
	for round := range keyedRounds + 2 {
		for i, row := range rows {
			var value []byte
			switch {
			case round < keyedRounds:
				value = append(append([]byte(nil), row[:len(row)-1]...), fmt.Sprintf(`,"round":%d,"round %d":true}`, round, round)...)
			case round == keyedRounds && i%7 == 0: // a tombstone
			case round > keyedRounds && i%21 == 0:
				value = []byte(`{"back":true}`)
			default:
				continue
			}
			if err := add(i, value); err != nil {
				return nil, 0, err
			}
		}
	}
	return want, len(records), s.produce(ctx, records)
}

// set is what update does: the fields take the place of those of their names, and new ones follow.
func set(doc, fields bson.D) bson.D {
	out := append(bson.D(nil), doc...)
next:
	for _, f := range fields {
		for i := range out {
			if out[i].Key == f.Key {
				out[i].Value = f.Value
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

func movies(ctx context.Context) ([]json.RawMessage, error) {
	path, err := realpart.Dataset(ctx, realpart.Movies)
	if err != nil {
		return nil, fmt.Errorf("fetching the movies: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the movies: %w", err)
	}
	return list(text)
}

// killInTheMiddle kills a run once the collection holds so many documents. A run that fails for a while is made again.
func (s *stage) killInTheMiddle(ctx context.Context, p pipeline, documents int64) error {
	process, err := s.function(ctx, p)
	if err != nil {
		return err
	}
	defer process.Kill()
	for range maxFailures {
		ended := make(chan error, 1)
		go func() {
			a, err := call(ctx, process)
			if err == nil {
				err = fmt.Errorf("the run was over before it could be killed: %s %s", a.Outcome, a.Error)
			}
			ended <- err
		}()
		reached, runErr := s.await(ctx, p.name, documents, ended)
		if reached {
			return nil
		}
		err = runErr
	}
	return err
}

// await waits until the collection holds so many documents. It returns false if the run is over first.
func (s *stage) await(ctx context.Context, name string, documents int64, ended <-chan error) (bool, error) {
	for {
		n, err := s.collection(name).EstimatedDocumentCount(ctx)
		if err != nil {
			return false, fmt.Errorf("counting: %w", err)
		}
		if n >= documents {
			return true, nil
		}
		select {
		case err := <-ended:
			return false, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// compareKeyed wants exactly the documents of the fold, byte by byte but for the guard.
func (s *stage) compareKeyed(ctx context.Context, name string, want map[string]bson.D) error {
	cursor, err := s.collection(name).Find(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }() // it was read to its end
	seen := 0
	for cursor.Next(ctx) {
		var stored bson.D
		if err := cursor.Decode(&stored); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		var plain bson.D
		for _, f := range stored {
			if f.Key != "_tidemark" {
				plain = append(plain, f)
			}
		}
		key, _ := cursor.Current.Lookup("_id").StringValueOK()
		got, gotErr := bson.Marshal(plain)
		expected, expectedErr := bson.Marshal(want[key])
		if err := errors.Join(gotErr, expectedErr); err != nil {
			return fmt.Errorf("encoding a document: %w", err)
		}
		if !bytes.Equal(got, expected) {
			return fmt.Errorf("%q is %v, want %v", key, plain, want[key])
		}
		seen++
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if seen != len(want) {
		return fmt.Errorf("%d documents, want %d", seen, len(want))
	}
	return nil
}
