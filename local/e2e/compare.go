package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// compareAtOnce is how many records are looked up in one question.
const compareAtOnce = 2000

// compared is what came of a comparison.
type compared struct{ records, documents, missing, different int64 }

func (c compared) String() string {
	return fmt.Sprintf("%d records, %d documents, missing %d, different %d", c.records, c.documents, c.missing, c.different)
}

// compare reads the topic as any consumer would, converts each record by itself, and wants exactly these documents in
// the collection, byte by byte. It holds one batch at a time.
func (s *stage) compare(ctx context.Context, name string) (compared, error) {
	return s.compareBy(ctx, name, func(see func([]*kgo.Record) error) error { return s.consume(ctx, name, see) })
}

func (s *stage) compareBy(ctx context.Context, name string, each func(func([]*kgo.Record) error) error) (c compared, err error) {
	err = each(func(records []*kgo.Record) error {
		for len(records) > 0 {
			n := min(compareAtOnce, len(records))
			if err := s.compareBatch(ctx, name, records[:n], &c); err != nil {
				return err
			}
			records = records[n:]
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	if c.documents, err = s.collection(name).CountDocuments(ctx, bson.D{}); err != nil {
		return c, fmt.Errorf("counting the documents of %s: %w", name, err)
	}
	if c.missing > 0 || c.different > 0 || c.documents != c.records {
		return c, fmt.Errorf("the collection is not the topic: %s", c)
	}
	return c, nil
}

func (s *stage) compareBatch(ctx context.Context, name string, records []*kgo.Record, c *compared) error {
	want := make(map[string]bson.Raw, len(records))
	ids := make(bson.A, 0, len(records))
	for _, r := range records {
		id := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
		doc, err := document(id, r.Value)
		if err != nil {
			return fmt.Errorf("converting %s: %w", id, err)
		}
		want[id], ids = doc, append(ids, id)
	}
	c.records += int64(len(records))
	cursor, err := s.collection(name).Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }() // it was read to its end
	for cursor.Next(ctx) {
		id, _ := cursor.Current.Lookup("_id").StringValueOK()
		if !bytes.Equal(cursor.Current, want[id]) {
			c.different++
		}
		delete(want, id)
	}
	c.missing += int64(len(want))
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// consume shows what a plain consumer reads of the topic, up to the ends as they are now.
func (s *stage) consume(ctx context.Context, topic string, see func([]*kgo.Record) error) error {
	client, err := s.kafkaClient(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(4<<20))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := s.ends(ctx, client, topic)
	if err != nil {
		return err
	}
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("consuming %s: %w", topic, err)
		}
		var records []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
		if err := see(records); err != nil {
			return err
		}
	}
	return nil
}

// ends returns, for each partition that a consumer yields something of, the position behind the last of it.
func (s *stage) ends(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	listed, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("asking for the ends of %s: %w", topic, err)
	}
	ends := map[int32]int64{}
	for partition, end := range listed[topic] {
		if end.Offset > 0 {
			ends[partition] = end.Offset
		}
	}
	return ends, nil
}
