package mongosink

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// deletedSuffix ends the name of the collection that keeps the guards of deleted keys.
	deletedSuffix = "_deleted"
	// expireField is the time from which on such a guard may go.
	expireField = "expireAt"
	// defaultRetention is how long it stays where Options say nothing.
	defaultRetention = 30 * 24 * time.Hour
)

// deleted is the collection of the guards of deleted keys.
func (o Options) deleted() string { return o.Collection + deletedSuffix }

func (o Options) retention() time.Duration {
	if o.TombstoneRetention == 0 {
		return defaultRetention
	}
	return o.TombstoneRetention
}

// carryOut brings one wave to the server.
//
// With deletions each key is a register that holds the newer of two guards: that of its document, and that of its last
// deletion. A deletion stores its guard before it deletes the document, and a put looks for deletions before it stores
// the document and again afterwards. So of a put and an older or newer deletion that run at the same time at least one
// sees the other, whichever way their steps mix, and the older one of them has no effect in the end. The steps are
// repeated by the call that is made again where one dies in between.
func (b *batch) carryOut(ctx context.Context, wave []*entry) error {
	if b.lease == nil {
		return b.putAll(ctx, statements(wave, b.writes))
	}
	wave, err := b.passDeletions(ctx, wave)
	if err != nil {
		return err
	}
	var puts, deletions []*entry
	for _, e := range wave {
		if b.deletes(e) {
			deletions = append(deletions, e)
		} else {
			puts = append(puts, e)
		}
	}
	if err := b.deleteAll(ctx, deletions); err != nil {
		return err
	}
	if len(puts) == 0 {
		return nil
	}
	if err := b.deliver(ctx, statements(puts, b.writes), b.guardedPuts); err != nil {
		return err
	}
	return b.undo(ctx, puts)
}

func statements(wave []*entry, writes []record.Write) []statement {
	list := make([]statement, len(wave))
	for i, e := range wave {
		list[i] = statement{id: e.id, own: e.own, doc: writes[e.index].Document, entry: e}
	}
	return list
}

func (b *batch) guardedPuts(list []statement, ordered bool) bulk {
	return b.sink.puts(list, ordered, b.lease)
}

// passDeletions takes out what is older than the last deletion of its key, and deletions that are older than the
// document. What follows a guard of its own partition takes the higher timestamp along, and that is done before it is
// compared: a put that is older than the deletion of another partition by its own timestamp passes it with that of the
// document which it replaces.
func (b *batch) passDeletions(ctx context.Context, wave []*entry) ([]*entry, error) {
	deletions, err := b.guards(ctx, b.sink.options.deleted(), wave)
	if err != nil {
		return nil, err
	}
	var looking []*entry // those whose document decides
	for _, e := range wave {
		deletion, isDeleted := deletions[e.key]
		if isDeleted {
			e.own = lifted(e.own, deletion)
		}
		if b.deletes(e) || (isDeleted && !newer(e.own, deletion)) {
			looking = append(looking, e)
		}
	}
	stored, err := b.guards(ctx, b.sink.options.Collection, looking)
	if err != nil {
		return nil, err
	}
	if err := b.sweep(ctx, looking, deletions, stored); err != nil {
		return nil, err
	}
	passed := wave[:0]
	for _, e := range wave {
		deletion, isDeleted := deletions[e.key]
		document, isStored := stored[e.key]
		if isStored {
			e.own = lifted(e.own, document)
		}
		// A deletion that is stored already goes on: a call may have died between its two steps.
		older := (isDeleted && !b.deletes(e) && !newer(e.own, deletion)) || (isStored && !newer(e.own, document))
		switch {
		case e.key.paused:
		case !older:
			e.key.passed = append(e.key.passed, e)
			passed = append(passed, e)
		case slices.ContainsFunc(e.key.passed, func(p *entry) bool { return samePartition(p.own, e.own) }):
			// What the earlier one leaves may lift it: the next wave looks again.
			e.key.paused = true
		default:
			e.state = done
			b.Duplicates++
		}
	}
	return passed, nil
}

// sweep deletes the documents that are older than the last deletion of their key: a call stored them again, and died before
// it looked a second time.
func (b *batch) sweep(ctx context.Context, looking []*entry, deletions, stored map[*key]record.Guard) error {
	var back []statement
	for _, e := range looking {
		deletion, isDeleted := deletions[e.key]
		if document, isStored := stored[e.key]; isDeleted && isStored && newer(deletion, document) {
			back = append(back, statement{id: e.id, own: deletion})
		}
	}
	return b.remove(ctx, back)
}

func (b *batch) deletes(e *entry) bool { return b.writes[e.index].Op == record.Delete }

// guards reads the guards that a collection holds for the keys of the entries. One that cannot be read is left out.
func (b *batch) guards(ctx context.Context, collection string, list []*entry) (map[*key]record.Guard, error) {
	if len(list) == 0 {
		return nil, nil
	}
	keys := make(map[string]*key, len(list))
	ids := make([]bson.RawValue, 0, len(list))
	for _, e := range list {
		canonical := string(appendCanonical(nil, e.id))
		if keys[canonical] == nil {
			keys[canonical] = e.key
			ids = append(ids, e.id)
		}
	}
	found := map[*key]record.Guard{}
	err := b.sink.findAll(ctx, collection, ids, func(id, guard bson.RawValue) {
		g, ok := readOrder(guard)
		if k := keys[string(appendCanonical(nil, id))]; ok && k != nil {
			found[k] = g
		}
	})
	return found, err
}

// deleteAll stores the guards of deletions and, once a majority holds them, deletes the documents that are older. It
// needs no fence: both steps lead to the same end whenever they are done, as a guard only ever becomes newer.
func (b *batch) deleteAll(ctx context.Context, list []*entry) error {
	if len(list) == 0 {
		return nil
	}
	if err := b.sink.indexDeleted(ctx); err != nil {
		return err
	}
	err := b.deliver(ctx, statements(list, b.writes), func(list []statement, ordered bool) bulk {
		return b.sink.upserts(b.sink.options.deleted(), b.sink.programs.deletion, list, ordered, nil)
	})
	if err != nil {
		return err
	}
	var stored []statement
	for _, e := range list {
		if e.state == done {
			stored = append(stored, statement{id: e.id, own: e.own})
		}
	}
	return b.remove(ctx, stored)
}

// remove deletes the documents that are older than the guards of the statements.
func (b *batch) remove(ctx context.Context, list []statement) error {
	t, err := b.sink.send(ctx, b.sink.removals(list))
	if err != nil || len(t.refused) == 0 {
		return err
	}
	// No document is sent, so none can be to blame.
	code := t.refused[0].code
	return fault.Transientf("deleting %d documents from %s: MongoDB answered with code %d", len(list), b.sink.options, code)
}

// undo deletes the documents of puts for which a newer deletion was stored while they were on their way.
func (b *batch) undo(ctx context.Context, puts []*entry) error {
	deletions, err := b.guards(ctx, b.sink.options.deleted(), puts)
	if err != nil {
		return err
	}
	var late []statement
	for _, e := range puts {
		if deletion, ok := deletions[e.key]; ok && e.state == done && newer(deletion, e.own) {
			late = append(late, statement{id: e.id, own: deletion})
		}
	}
	return b.remove(ctx, late)
}

// indexDeleted makes the index that lets guards of deletions go, once for each client. MongoDB takes it for a success
// if it is there already.
func (s *Sink) indexDeleted(ctx context.Context) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	indexed := s.indexed == client
	s.mu.Unlock()
	if indexed {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	err = client.Database(s.options.Database).RunCommand(bounded, bson.D{
		{Key: "createIndexes", Value: s.options.deleted()},
		{Key: "indexes", Value: bson.A{bson.D{
			{Key: "key", Value: bson.D{{Key: expireField, Value: int32(1)}}},
			{Key: "name", Value: expireField + "_1"},
			{Key: "expireAfterSeconds", Value: int32(0)},
		}}},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}},
	}).Err()
	if err != nil {
		return s.failed(ctx, "creating the index on "+expireField+" in "+s.options.Database+"."+s.options.deleted(), err)
	}
	s.mu.Lock()
	s.indexed = client
	s.mu.Unlock()
	return nil
}
