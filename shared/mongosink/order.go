package mongosink

import (
	"hash/fnv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/record"
)

// Order implements pull.Sink. An _id of coordinates has no other record to be ordered with.
func (s *Sink) Order(w record.Write) (uint64, bool) {
	if !w.OwnID {
		return 0, false
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(idKey(bson.Raw(w.Document).Lookup(idField)))) // a hash never fails to write
	return hash.Sum64(), true
}
