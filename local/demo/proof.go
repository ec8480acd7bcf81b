package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

// verdict is the proof of one partition.
type verdict struct {
	records, documents, letters int
	missing, doubled, different int
}

func (v verdict) good() bool { return v.missing+v.doubled+v.different == 0 }

// prove compares what MongoDB holds with what was produced, offset by offset.
func prove(ctx context.Context, database *mongo.Database, made produced) ([]verdict, error) {
	verdicts := make([]verdict, len(made))
	seen := make([][]uint8, len(made))
	for partition, offsets := range made {
		verdicts[partition].records = len(offsets)
		seen[partition] = make([]uint8, len(offsets))
	}
	look := func(id string, content []byte, letter bool) {
		partition, offset, ok := coordinates(id)
		if !ok || partition >= len(made) || offset >= len(made[partition]) {
			verdicts[0].different++ // of no record at all
			return
		}
		v := &verdicts[partition]
		seen[partition][offset]++
		if letter {
			v.letters++
		} else {
			v.documents++
		}
		if made[partition][offset] != (outcome{fingerprint(int64(offset), content), letter}) {
			v.different++
		}
	}
	if err := scan(ctx, database.Collection(collection), func(doc bson.Raw) {
		look(doc.Lookup("_id").StringValue(), doc, false)
	}); err != nil {
		return nil, err
	}
	if err := scan(ctx, database.Collection(deadLetters), func(doc bson.Raw) {
		_, raw, _ := doc.Lookup("value").BinaryOK()
		look(fmt.Sprintf("%s/%d/%d", doc.Lookup("topic").StringValue(), doc.Lookup("partition").AsInt64(), doc.Lookup("offset").AsInt64()), raw, true)
	}); err != nil {
		return nil, err
	}
	for partition := range seen {
		for _, times := range seen[partition] {
			switch {
			case times == 0:
				verdicts[partition].missing++
			case times > 1:
				verdicts[partition].doubled++
			}
		}
	}
	return verdicts, nil
}

// scan shows each document of a collection, as a majority holds it.
func scan(ctx context.Context, c *mongo.Collection, look func(bson.Raw)) error {
	majority := c.Database().Collection(c.Name(), options.Collection().SetReadConcern(readconcern.Majority()))
	cursor, err := majority.Find(ctx, bson.D{}, options.Find().SetBatchSize(10_000))
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Name(), err)
	}
	defer func() { _ = cursor.Close(ctx) }() // it was read to its end, or the error is told
	for cursor.Next(ctx) {
		look(cursor.Current)
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", c.Name(), err)
	}
	return nil
}

// coordinates reads an _id such as orders/3/1200.
func coordinates(id string) (partition, offset int, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] != topic {
		return 0, 0, false
	}
	partition, err := strconv.Atoi(parts[1])
	if err != nil || partition < 0 {
		return 0, 0, false
	}
	offset, err = strconv.Atoi(parts[2])
	return partition, offset, err == nil && offset >= 0
}
