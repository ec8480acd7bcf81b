package mongosink

import (
	"context"
)

// putAll stores documents where there are no deletions.
//
// A guarded upsert costs the server five times as much as an insert of a new key, and an insert of a key that is there
// costs more than both together. So the first of each key is inserted where most keys of the last call were new, and
// only what is there already is updated.
func (b *batch) putAll(ctx context.Context, all []statement) error {
	if !b.sink.mostlyNew.Load() {
		err := b.deliver(ctx, all, b.guardedPuts)
		b.sink.learn(b.inserted, len(b.writes))
		return err
	}
	heads, rest := split(all)
	taken, err := b.insertNew(ctx, heads)
	if err != nil {
		return err
	}
	if len(taken) > 0 {
		if err := b.deliverUnordered(ctx, taken, b.guardedPuts); err != nil {
			return err
		}
	}
	return b.deliverOrdered(ctx, rest, b.guardedPuts)
}

// insertNew inserts documents and returns those that must be updated. Any key that is taken counts: a document that is
// there already may violate another unique index too, and which one is named first is not promised.
func (b *batch) insertNew(ctx context.Context, list []statement) (taken []statement, err error) {
	refused, err := b.sink.insert(ctx, b.sink.options.Collection, len(list), func(i int) []byte { return list[i].doc })
	if err != nil {
		return nil, err
	}
	b.Written += int64(len(list) - len(refused))
	for _, x := range list {
		x.entry.state = done
	}
	others := refused[:0]
	for _, f := range refused {
		if f.code == codeDuplicateKey {
			list[f.index].entry.state = waiting
			taken = append(taken, list[f.index])
			continue
		}
		others = append(others, f)
	}
	b.sink.learn(len(list)-len(taken), len(list))
	_, err = b.refuse(list, others)
	return taken, err
}

// learn notes how many of the keys of a command were new.
func (s *Sink) learn(inserted, all int) { s.mostlyNew.Store(4*inserted > 3*all) }
