package mongosink

import (
	"hash/fnv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/record"
)

// Order implements pull.Sink. In insert an _id of coordinates has no other record to be ordered with.
func (s *Sink) Order(w record.Write) (uint64, bool) {
	if s.options.Mode == record.Insert && !w.OwnID {
		return 0, false
	}
	hash := fnv.New64a()
	var buf [64]byte
	_, _ = hash.Write(appendCanonical(buf[:0], bson.Raw(w.Document).Lookup(idField))) // a hash never fails to write
	return hash.Sum64(), true
}
