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

// proof holds what MongoDB has against what was produced, offset by offset.
type proof struct {
	made produced
	of   []verdict
	seen [][]uint8
}

func newProof(made produced) *proof {
	p := &proof{made: made, of: make([]verdict, len(made)), seen: make([][]uint8, len(made))}
	for partition, offsets := range made {
		p.of[partition].records = len(offsets)
		p.seen[partition] = make([]uint8, len(offsets))
	}
	return p
}

// prove reads everything that MongoDB has.
func prove(ctx context.Context, database *mongo.Database, made produced) ([]verdict, error) {
	p := newProof(made)
	if err := scan(ctx, database.Collection(collection), func(doc bson.Raw) {
		p.look(doc.Lookup("_id").StringValue(), doc, false)
	}); err != nil {
		return nil, err
	}
	if err := scan(ctx, database.Collection(deadLetters), func(doc bson.Raw) {
		_, raw, _ := doc.Lookup("value").BinaryOK()
		p.look(fmt.Sprintf("%s/%d/%d", doc.Lookup("topic").StringValue(), doc.Lookup("partition").AsInt64(), doc.Lookup("offset").AsInt64()), raw, true)
	}); err != nil {
		return nil, err
	}
	return p.verdicts(), nil
}

// look takes one document, or the raw value of one dead letter.
func (p *proof) look(id string, content []byte, letter bool) {
	partition, offset, ok := coordinates(id)
	if !ok || partition >= len(p.made) || offset >= len(p.made[partition]) {
		p.of[0].different++ // of no record at all
		return
	}
	v := &p.of[partition]
	p.seen[partition][offset]++
	if letter {
		v.letters++
	} else {
		v.documents++
	}
	if p.made[partition][offset] != (outcome{fingerprint(int64(offset), content), letter}) {
		v.different++
	}
}

// verdicts counts what was not seen once.
func (p *proof) verdicts() []verdict {
	for partition := range p.seen {
		for _, times := range p.seen[partition] {
			switch {
			case times == 0:
				p.of[partition].missing++
			case times > 1:
				p.of[partition].doubled++
			}
		}
	}
	return p.of
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
