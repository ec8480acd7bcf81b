package mongosink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tidemark/tidemark/shared/fault"
)

// inspectSharding refuses collections whose shard key is not _id. A keyed write has no other field of its document to
// name the shard with, and an _id is unique in each shard only. It costs one command where the server is no mongos.
func (s *Sink) inspectSharding(ctx context.Context, client *mongo.Client) error {
	hello, err := client.Database(s.options.Database).RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return s.failed(ctx, "asking MongoDB what it is", err)
	}
	if !isMongos(hello) {
		return nil
	}
	names := bson.A{s.options.String()}
	if s.options.Deletes {
		names = append(names, s.options.Database+"."+s.options.deleted())
	}
	doing := "reading the shard key of " + s.options.String() + " in config.collections"
	cursor, err := client.Database("config").Collection("collections").Find(ctx,
		bson.D{{Key: idField, Value: bson.D{{Key: "$in", Value: names}}}})
	if err != nil {
		return s.failed(ctx, doing, err)
	}
	var found []bson.Raw
	if err := cursor.All(ctx, &found); err != nil {
		return s.failed(ctx, doing, err)
	}
	for _, c := range found {
		if key, fit := fitShardKey(c); !fit {
			name, _ := c.Lookup(idField).StringValueOK()
			return fault.Fatalf(classShardKey, "%s is sharded on %s, and mode %s finds documents by _id alone: shard it on {_id: 1} or "+
				"{_id: \"hashed\"}, or name another collection in sink.collection", name, key, s.options.Mode)
		}
	}
	return nil
}

// isMongos reads the answer to hello.
func isMongos(hello bson.Raw) bool {
	kind, _ := hello.Lookup("msg").StringValueOK()
	return kind == "isdbgrid"
}

// fitShardKey judges a document of config.collections: the key must be _id alone, ranged or hashed. Before MongoDB 5.0 a
// collection that was dropped leaves its document behind.
func fitShardKey(c bson.Raw) (key string, fit bool) {
	if dropped, _ := c.Lookup("dropped").BooleanOK(); dropped {
		return "", true
	}
	if unsplittable, _ := c.Lookup("unsplittable").BooleanOK(); unsplittable { // unsharded, tracked since 8.0
		return "", true
	}
	doc, ok := c.Lookup("key").DocumentOK()
	if !ok {
		return "a key that cannot be read", false
	}
	elements, err := doc.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != idField {
		return doc.String(), false
	}
	return doc.String(), true
}
