package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/shared/record"
)

// transaction produces n records in one transaction of a producer and leaves it open.
func transaction(ctx context.Context, client *kgo.Client, topic string, from, n int) error {
	if err := client.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	for i := from; i < from+n; i++ {
		client.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"n":%d}`, i)}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("producing in a transaction: %w", err)
	}
	return nil
}

func end(ctx context.Context, client *kgo.Client, commit kgo.TransactionEndTry) error {
	if err := client.EndTransaction(ctx, commit); err != nil {
		return fmt.Errorf("ending a transaction: %w", err)
	}
	return nil
}

func showTransactions(ctx context.Context, s *stage) (string, error) {
	const name = "transactions"
	if err := s.createTopic(ctx, name, 2, nil); err != nil {
		return "", err
	}
	var producers [2]*kgo.Client
	for i := range producers {
		client, err := s.kafkaClient(kgo.TransactionalID(fmt.Sprintf("e2e-%d", i)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return "", err
		}
		defer client.Close()
		producers[i] = client
	}
	// 200 committed and 50 aborted; then 30 of a producer that hangs, and behind them 40 that another one commits.
	n := 0
	for _, step := range []struct {
		producer, records int
		commit            kgo.TransactionEndTry
	}{{0, 100, kgo.TryCommit}, {0, 50, kgo.TryAbort}, {1, 100, kgo.TryCommit}} {
		if err := transaction(ctx, producers[step.producer], name, n, step.records); err != nil {
			return "", err
		}
		if err := end(ctx, producers[step.producer], step.commit); err != nil {
			return "", err
		}
		n += step.records
	}
	if err := transaction(ctx, producers[0], name, n, 30); err != nil {
		return "", err
	}
	if err := transaction(ctx, producers[1], name, n+30, 40); err != nil {
		return "", err
	}
	if err := end(ctx, producers[1], kgo.TryCommit); err != nil {
		return "", err
	}
	open, err := s.move(ctx, pipeline{name: name})
	if err != nil {
		return "", err
	}
	s.say("with a hanging transaction: %d written, %d offsets undecided, first run %s", open.written, open.undecided, open.first.Outcome)
	if open.written != 200 || open.undecided < 70 || open.first.Outcome != record.Done {
		return "", fmt.Errorf("want the 200 committed before it, at least 70 undecided, and runs that end: %d, %d, %s",
			open.written, open.undecided, open.first.Outcome)
	}
	if err := end(ctx, producers[0], kgo.TryAbort); err != nil {
		return "", err
	}
	after, err := s.move(ctx, pipeline{name: name})
	if err != nil {
		return "", err
	}
	if after.written != 40 || after.undecided != 0 || after.duplicates != 0 {
		return "", fmt.Errorf("after the abort %d were written, %d again, %d undecided, want 40, 0 and 0", after.written, after.duplicates, after.undecided)
	}
	c, err := s.compare(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d undecided while one hung, 40 more after its abort; %s", open.undecided, c), nil
}
