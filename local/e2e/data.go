package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/local/realpart"
)

// dataset is a file whose rows become records.
type dataset struct {
	file, topic string
	rows        func([]byte) ([]json.RawMessage, error)
	codec       kgo.CompressionCodec
}

func datasets() []dataset {
	return []dataset{
		{realpart.Flights, "flights", list, kgo.ZstdCompression()},
		{realpart.Movies, "movies", list, kgo.GzipCompression()},
		{realpart.Earthquakes, "earthquakes", features, kgo.SnappyCompression()},
		{realpart.Movies, "movies-lz4", list, kgo.Lz4Compression()},
	}
}

func list(text []byte) (rows []json.RawMessage, err error) {
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("reading a dataset: %w", err)
	}
	return rows, nil
}

func features(text []byte) ([]json.RawMessage, error) {
	var collection struct {
		Features []json.RawMessage `json:"features"`
	}
	if err := json.Unmarshal(text, &collection); err != nil {
		return nil, fmt.Errorf("reading a dataset: %w", err)
	}
	return collection.Features, nil
}

// fill creates the dataset's topic and produces its rows, in turn to each partition.
func (s *stage) fill(ctx context.Context, d dataset) (int, error) {
	path, err := realpart.Dataset(ctx, d.file)
	if err != nil {
		return 0, fmt.Errorf("fetching %s: %w", d.file, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", d.file, err)
	}
	rows, err := d.rows(text)
	if err != nil {
		return 0, err
	}
	if err := s.createTopic(ctx, d.topic, partitions, nil); err != nil {
		return 0, err
	}
	records := make([]*kgo.Record, len(rows))
	for i, row := range rows {
		records[i] = &kgo.Record{Topic: d.topic, Partition: int32(i % partitions), Value: row}
	}
	return len(rows), s.produce(ctx, records, kgo.ProducerBatchCompression(d.codec))
}

func showData(ctx context.Context, s *stage) (string, error) {
	var figures []string
	for _, d := range datasets() {
		rows, err := s.fill(ctx, d)
		if err != nil {
			return "", err
		}
		t, err := s.move(ctx, pipeline{name: d.topic})
		if err != nil {
			return "", err
		}
		if t.written+t.duplicates < int64(rows) || t.deadLettered != 0 {
			return "", fmt.Errorf("%s: %d rows, %d written, %d dead letters", d.topic, rows, t.written, t.deadLettered)
		}
		c, err := s.compare(ctx, d.topic)
		if err != nil {
			return "", fmt.Errorf("%s: %w", d.topic, err)
		}
		s.say("%-12s %s", d.topic, c)
		figures = append(figures, fmt.Sprintf("%s %d", d.topic, c.documents))
	}
	return strings.Join(figures, ", ") + "; each the same byte by byte", nil
}
