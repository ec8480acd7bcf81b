package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	zstdRecords = 100_000
	zstdSize    = 3000
	// memoryLimit is the default of run.limits.memory.
	memoryLimit = 128 << 20
)

// showZstd moves a topic that is a hundred times as large as its log, and looks at the memory of the function process.
func showZstd(ctx context.Context, s *stage) (string, error) {
	const name = "zstd"
	if err := s.createTopic(ctx, name, partitions, nil); err != nil {
		return "", err
	}
	text := strings.Repeat("the same words again and ", zstdSize/25)
	client, err := s.kafkaClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.MaxBufferedRecords(20_000), kgo.DefaultProduceTopic(name))
	if err != nil {
		return "", err
	}
	defer client.Close()
	var raw int64
	for i := range zstdRecords {
		value := fmt.Appendf(nil, `{"n":%d,"text":%q}`, i, text)
		raw += int64(len(value))
		client.Produce(ctx, &kgo.Record{Partition: int32(i % partitions), Value: value}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		return "", fmt.Errorf("producing: %w", err)
	}
	stored, err := logSize(ctx, client, name)
	if err != nil {
		return "", err
	}
	s.say("%d records of %d MiB are %.1f MiB in the log", zstdRecords, raw>>20, float64(stored)/(1<<20))
	t, err := s.move(ctx, pipeline{name: name})
	if err != nil {
		return "", err
	}
	c, err := s.compare(ctx, name)
	if err != nil {
		return "", err
	}
	figures := fmt.Sprintf("%d MiB raw, %.1f MiB in the log (%d:1), %d MiB resident at most of %d; %s",
		raw>>20, float64(stored)/(1<<20), raw/stored, t.peak>>20, memoryLimit>>20, c)
	if raw/stored < 100 || t.peak == 0 || t.peak > memoryLimit {
		return "", fmt.Errorf("want a hundredfold and less memory: %s", figures)
	}
	return figures, nil
}

func logSize(ctx context.Context, client *kgo.Client, topic string) (size int64, err error) {
	dirs, err := kadm.NewClient(client).DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("asking for the size of the log: %w", err)
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic {
				size += p.Size
			}
		})
	})
	return size, nil
}
