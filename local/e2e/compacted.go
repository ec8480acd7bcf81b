package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/shared/record"
)

const (
	// compactionTime bounds how long the broker's cleaner is waited for; it takes a few seconds.
	compactionTime = time.Minute
	// quietTime is how long a consumer that gets nothing is taken to be at the end.
	quietTime = 2 * time.Second
)

// showCompacted fills a topic with few keys, most of them deleted in the end, and an aborted transaction behind them, so
// that after the compaction nothing can be read at the end of the log.
func showCompacted(ctx context.Context, s *stage) (string, error) {
	const name, keys, rounds = "compacted", 20, 50
	err := s.createTopic(ctx, name, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0",
	})
	if err != nil {
		return "", err
	}
	var records []*kgo.Record
	for round := range rounds {
		for key := range keys {
			r := &kgo.Record{Topic: name, Key: fmt.Appendf(nil, "key %d", key), Value: fmt.Appendf(nil, `{"key":%d,"round":%d}`, key, round)}
			if round == rounds-1 && key >= keys/4 {
				r.Value = nil
			}
			records = append(records, r)
		}
	}
	if err := s.produce(ctx, records); err != nil {
		return "", err
	}
	left, end, err := s.awaitCompaction(ctx, name, keys)
	if err != nil {
		return "", err
	}
	s.say("%d of %d records are left, the log ends at %d", left, len(records), end)

	t, err := s.move(ctx, pipeline{name: name, sink: ", tombstones: ignore"})
	if err != nil {
		return "", err
	}
	if t.first.Outcome != record.Done || t.first.Ranges[0].DoneTo != end {
		return "", fmt.Errorf("the run is %s up to %d, want done up to %d", t.first.Outcome, t.first.Ranges[0].DoneTo, end)
	}
	c, err := s.compareQuiet(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d records left, done up to %d; %s", left, len(records), end, c), nil
}

// awaitCompaction has the broker begin new segments by aborted transactions, which leave nothing to be read, until its
// cleaner has left no more than so many records.
func (s *stage) awaitCompaction(ctx context.Context, topic string, most int) (left int, end int64, err error) {
	producer, err := s.kafkaClient(kgo.TransactionalID("e2e-compaction"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return 0, 0, err
	}
	defer producer.Close()
	ctx, cancel := context.WithTimeout(ctx, compactionTime)
	defer cancel()
	for {
		if err := producer.BeginTransaction(); err != nil {
			return 0, 0, fmt.Errorf("beginning a transaction: %w", err)
		}
		r := &kgo.Record{Topic: topic, Key: []byte("aborted"), Value: []byte(`{}`)}
		if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
			return 0, 0, fmt.Errorf("producing in a transaction: %w", err)
		}
		if err := producer.EndTransaction(ctx, kgo.TryAbort); err != nil {
			return 0, 0, fmt.Errorf("ending a transaction: %w", err)
		}
		left = 0
		if err := s.consumeQuiet(ctx, topic, func(records []*kgo.Record) error { left += len(records); return nil }); err != nil {
			return 0, 0, err
		}
		if left <= most {
			ends, err := s.ends(ctx, producer, topic)
			return left, ends[0], err
		}
	}
}

// consumeQuiet is consume for a log at whose end nothing can be read.
func (s *stage) consumeQuiet(ctx context.Context, topic string, see func([]*kgo.Record) error) error {
	client, err := s.kafkaClient(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		bounded, cancel := context.WithTimeout(ctx, quietTime)
		fetches := client.PollFetches(bounded)
		cancel()
		if err := fetches.Err0(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				return nil
			}
			return fmt.Errorf("consuming %s: %w", topic, err)
		}
		if err := see(fetches.Records()); err != nil {
			return err
		}
	}
}

// compareQuiet is compare for such a log. Tombstones have no document.
func (s *stage) compareQuiet(ctx context.Context, name string) (compared, error) {
	return s.compareBy(ctx, name, func(see func([]*kgo.Record) error) error {
		return s.consumeQuiet(ctx, name, func(records []*kgo.Record) error {
			var documents []*kgo.Record
			for _, r := range records {
				if r.Value != nil {
					documents = append(documents, r)
				}
			}
			return see(documents)
		})
	})
}
