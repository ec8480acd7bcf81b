package pulltest

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/record"
)

// put stores the document if nothing newer is known of its _id.
func (s *MemSink) put(w record.Write) (class string, stored bool) {
	doc := bson.Raw(w.Document)
	id := valueKey(doc.Lookup("_id"))
	own, old := w.Guard, s.docs[id]
	deleted, isDeleted := s.deleted[id]
	guard, isStored := readGuard(old.Lookup(s.options.GuardField))
	// Both lift before either is compared: a record that its partition's document lifts may pass another's deletion.
	if isDeleted {
		own = liftedGuard(own, deleted)
	}
	if isStored {
		own = liftedGuard(own, guard)
	}
	if (isDeleted && !newerGuard(own, deleted)) || (isStored && !newerGuard(own, guard)) {
		return "", false
	}
	var merged bson.D
	if s.options.Mode == record.Update {
		merged = setFields(merged, old)
	}
	merged = setFields(merged, doc)
	merged = setField(merged, bson.E{Key: s.options.GuardField, Value: guardDocument(own)})
	raw, err := bson.Marshal(merged)
	if err != nil {
		return "malformed-bson", false
	}
	return s.store(id, raw)
}

// delete notes the deletion and removes the document, where each is older.
func (s *MemSink) delete(w record.Write) (stored bool) {
	id := valueKey(bson.Raw(w.Document).Lookup("_id"))
	own := w.Guard
	deleted, isDeleted := s.deleted[id]
	guard, isStored := readGuard(s.docs[id].Lookup(s.options.GuardField))
	if isDeleted {
		own = liftedGuard(own, deleted)
	}
	if isStored {
		own = liftedGuard(own, guard)
		if !newerGuard(own, guard) {
			return false
		}
	}
	s.remove(id)
	if isDeleted && !newerGuard(own, deleted) {
		return false
	}
	s.deleted[id] = own
	return true
}

// setFields sets the top-level fields in place, and appends those that are new.
func setFields(dst bson.D, doc bson.Raw) bson.D {
	elements, err := doc.Elements()
	if err != nil {
		return dst
	}
	for _, e := range elements {
		dst = setField(dst, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return dst
}

func setField(dst bson.D, e bson.E) bson.D {
	for i := range dst {
		if dst[i].Key == e.Key {
			dst[i].Value = e.Value
			return dst
		}
	}
	return append(dst, e)
}

// newerGuard is the order of the records of one key: incarnation, rewrite, then the offset in one partition, else
// timestamp, topic and partition.
func newerGuard(own, stored record.Guard) bool {
	epoch := cmp.Or(cmp.Compare(own.Incarnation, stored.Incarnation), cmp.Compare(own.Rewrite, stored.Rewrite))
	within := cmp.Or(cmp.Compare(own.Timestamp, stored.Timestamp), cmp.Compare(own.Topic, stored.Topic),
		cmp.Compare(own.Partition, stored.Partition))
	if own.Topic == stored.Topic && own.Partition == stored.Partition {
		within = cmp.Compare(own.Offset, stored.Offset)
	}
	return cmp.Or(epoch, within) > 0
}

// liftedGuard gives own the highest timestamp of its partition.
func liftedGuard(own, stored record.Guard) record.Guard {
	same := stored
	same.Offset, same.Timestamp = own.Offset, own.Timestamp
	if same == own {
		own.Timestamp = max(own.Timestamp, stored.Timestamp)
	}
	return own
}

func readGuard(v bson.RawValue) (record.Guard, bool) {
	doc, ok := v.DocumentOK()
	if !ok {
		return record.Guard{}, false
	}
	var g record.Guard
	var read [6]bool
	var partition int64
	g.Topic, read[0] = doc.Lookup("topic").StringValueOK()
	g.Incarnation, read[1] = doc.Lookup("incarnation").AsInt64OK()
	g.Rewrite, read[2] = doc.Lookup("rewrite").AsInt64OK()
	partition, read[3] = doc.Lookup("partition").AsInt64OK()
	g.Offset, read[4] = doc.Lookup("offset").AsInt64OK()
	g.Timestamp, read[5] = doc.Lookup("timestamp").AsInt64OK()
	g.Partition = int32(partition)
	return g, read == [6]bool{true, true, true, true, true, true}
}

// guardDocument is a guard as it is stored.
func guardDocument(g record.Guard) bson.D {
	return bson.D{
		{Key: "topic", Value: g.Topic},
		{Key: "incarnation", Value: g.Incarnation},
		{Key: "rewrite", Value: g.Rewrite},
		{Key: "partition", Value: g.Partition},
		{Key: "offset", Value: g.Offset},
		{Key: "timestamp", Value: g.Timestamp},
	}
}

// valueKey is the same for all values that MongoDB takes for equal: numbers by value, a symbol as a string, also inside
// documents and arrays.
func valueKey(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return "n" + new(big.Rat).SetInt64(v.AsInt64()).RatString()
	case bson.TypeDouble:
		if f := v.Double(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return "n" + new(big.Rat).SetFloat64(f).RatString()
		}
		return fmt.Sprintf("n%v", v.Double())
	case bson.TypeDecimal128:
		if digits, exponent, err := v.Decimal128().BigInt(); err == nil {
			power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
			r := new(big.Rat).SetInt(digits)
			if exponent < 0 {
				return "n" + r.Quo(r, new(big.Rat).SetInt(power)).RatString()
			}
			return "n" + r.Mul(r, new(big.Rat).SetInt(power)).RatString()
		}
		return "n" + v.Decimal128().String()
	case bson.TypeSymbol:
		return fmt.Sprintf("%02x%s", byte(bson.TypeString), v.Value)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		var b strings.Builder
		elements, err := bson.Raw(v.Value).Elements()
		if err != nil {
			return fmt.Sprintf("%02x%s", byte(v.Type), v.Value)
		}
		for _, e := range elements {
			fmt.Fprintf(&b, "%q:%q,", e.Key(), valueKey(e.Value()))
		}
		return fmt.Sprintf("%02x{%s}", byte(v.Type), b.String())
	default:
		return fmt.Sprintf("%02x%s", byte(v.Type), v.Value)
	}
}

// badID says whether a MongoDB server refuses the _id.
func badID(v bson.RawValue) bool {
	doc, ok := v.DocumentOK()
	if !ok {
		return v.Type == bson.TypeArray || v.Type == bson.TypeRegex || v.Type == bson.TypeUndefined
	}
	elements, err := doc.Elements()
	return err != nil || slices.ContainsFunc(elements, func(e bson.RawElement) bool {
		return strings.HasPrefix(e.Key(), "$") || (e.Value().Type == bson.TypeEmbeddedDocument && badID(e.Value()))
	})
}
