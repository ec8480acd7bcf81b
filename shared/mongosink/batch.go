package mongosink

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// batch carries out the writes of a keyed mode, so that those of one key take effect in the order of the list.
type batch struct {
	*result

	keys  []*key // those with something left to do
	lease *lease // nil unless deletions are on

	inserted int // keys that updates found to be new
}

// key is an _id with what is left to do for it, in order. Ids are one key if MongoDB takes them for equal.
type key struct {
	pending []*entry
	leading int  // how many of pending are in the wave
	inWave  bool // one of them is in the unordered command
	blocked bool // a refused entry gave free what it held, which comes first
	// passed are those of the wave that are newer than what is stored, with deletions only; paused says that what comes
	// behind them waits for the next wave.
	passed []*entry
	paused bool
}

// entry is one write. It holds back earlier writes of its key that it makes void: they are sent if it is refused.
type entry struct {
	index int
	key   *key
	id    bson.RawValue
	own   record.Guard // as it is sent: the timestamp may have been lifted
	held  []*entry
	state state
}

type state uint8

const (
	waiting state = iota
	done
	refusedForGood
)

// keyed writes in waves. A wave takes of each key the leading writes that do the same: puts, or deletions.
func (r *result) keyed(ctx context.Context, pending []int) error {
	b := &batch{result: r}
	b.group(pending)
	if r.sink.options.Deletes && len(b.keys) > 0 {
		var err error
		if b.lease, err = r.sink.readLease(ctx); err != nil {
			return err
		}
	}
	for len(b.keys) > 0 {
		wave := b.front()
		if err := b.carryOut(ctx, wave); err != nil {
			return err
		}
		b.settleWave()
	}
	return nil
}

// group sorts the writes by key.
func (b *batch) group(pending []int) {
	byID := make(map[string]*key, len(pending))
	entries := make([]entry, len(pending))
	var canonical []byte
	for i, index := range pending {
		w := b.writes[index]
		id := bson.Raw(w.Document).Lookup(idField)
		if what := refusedID(id); what != "" {
			b.reject(index, classBadID, what)
			continue
		}
		canonical = appendCanonical(canonical[:0], id)
		k := byID[string(canonical)]
		if k == nil {
			k = &key{}
			byID[string(canonical)] = k
			b.keys = append(b.keys, k)
		}
		entries[i] = entry{index: index, key: k, id: id, own: w.Guard}
		b.enqueue(k, &entries[i])
	}
}

// enqueue appends an entry to those of its key, holding back what it makes void. That is exact only where the earlier
// write is of the same partition, so that nothing can be newer than it and older than this one, and where its timestamp
// is not the higher one, which would have to be handed on.
func (b *batch) enqueue(k *key, e *entry) {
	if b.replaces(e) {
		for n := len(k.pending); n > 0 && b.makesVoid(e, k.pending[n-1]); n-- {
			e.held = append(e.held, k.pending[n-1])
			k.pending = k.pending[:n-1]
		}
		slices.Reverse(e.held)
	}
	k.pending = append(k.pending, e)
}

// replaces says whether nothing of the document is left after the write.
func (b *batch) replaces(e *entry) bool {
	return b.writes[e.index].Op == record.Delete || b.sink.options.Mode == record.Upsert
}

func (b *batch) makesVoid(e, earlier *entry) bool {
	return samePartition(e.own, earlier.own) && e.own.Offset >= earlier.own.Offset && e.own.Timestamp >= earlier.own.Timestamp &&
		idKey(e.id) == idKey(earlier.id)
}

// front returns the entries of the next wave in the order of the list.
func (b *batch) front() []*entry {
	wave := make([]*entry, 0, len(b.keys))
	for _, k := range b.keys {
		op := b.writes[k.pending[0].index].Op
		k.leading, k.inWave, k.blocked, k.passed, k.paused = 0, false, false, nil, false
		for k.leading < len(k.pending) && b.writes[k.pending[k.leading].index].Op == op {
			k.leading++
		}
		wave = append(wave, k.pending[:k.leading]...)
	}
	slices.SortFunc(wave, func(x, y *entry) int { return cmp.Compare(x.index, y.index) })
	return wave
}

// settleWave takes out what is done, and puts what was held back in the place of what was refused.
func (b *batch) settleWave() {
	left := b.keys[:0]
	for _, k := range b.keys {
		var next []*entry
		for _, e := range k.pending[:k.leading] {
			switch e.state {
			case done:
				b.Written += e.heldBack()
			case refusedForGood:
				next = append(next, e.held...)
			case waiting:
				next = append(next, e)
			}
		}
		k.pending = append(next, k.pending[k.leading:]...)
		if len(k.pending) > 0 {
			left = append(left, k)
		}
	}
	b.keys = left
}

func (e *entry) heldBack() int64 {
	n := int64(len(e.held))
	for _, h := range e.held {
		n += h.heldBack()
	}
	return n
}

// deliver sends statements so that those of one key take effect in order: the first of each key in a command that goes
// on after a refusal, the others in one that does not. One command for all would need a round trip for each refusal, and
// one command for the first of each key again and again a round trip for each write of a hot key.
func (b *batch) deliver(ctx context.Context, all []statement, build func(list []statement, ordered bool) bulk) error {
	heads, rest := split(all)
	if err := b.deliverUnordered(ctx, heads, build); err != nil {
		return err
	}
	return b.deliverOrdered(ctx, rest, build)
}

// split parts the first statement of each key from the others.
func split(all []statement) (heads, rest []statement) {
	heads = make([]statement, 0, len(all))
	for _, x := range all {
		if x.entry.key.inWave {
			rest = append(rest, x)
			continue
		}
		x.entry.key.inWave = true
		heads = append(heads, x)
	}
	return heads, rest
}

func (b *batch) deliverUnordered(ctx context.Context, list []statement, build func([]statement, bool) bulk) error {
	for range maxRounds {
		t, err := b.sink.send(ctx, build(list, false))
		if err != nil {
			return err
		}
		b.count(t)
		for _, x := range list {
			x.entry.state = done
		}
		if list, err = b.refuse(list, t.refused); err != nil || len(list) == 0 {
			return err
		}
	}
	return b.racing(len(list))
}

func (b *batch) deliverOrdered(ctx context.Context, list []statement, build func([]statement, bool) bulk) error {
	for races := 0; ; {
		list = slices.DeleteFunc(list, func(x statement) bool { return x.entry.key.blocked })
		if len(list) == 0 {
			return nil
		}
		t, err := b.sink.send(ctx, build(list, true))
		if err != nil {
			return err
		}
		b.count(t)
		for _, x := range list[:t.done] {
			x.entry.state = done
		}
		again, err := b.refuse(list, t.refused)
		if err != nil {
			return err
		}
		list = list[t.done:]
		switch {
		case len(t.refused) == 0:
			return nil
		case len(again) == 0:
			list = list[1:]
		case races == maxRounds:
			return b.racing(len(list))
		default:
			races++
		}
	}
}

func (b *batch) racing(n int) error {
	return fault.Transientf("%s: %d upserts found their _id taken and nothing under it, %d times: is another program deleting in "+
		"the collection?", b.sink.doing(len(b.writes)), n, maxRounds)
}

func (b *batch) count(t tally) {
	b.inserted += t.inserted
	b.Written += int64(t.changed)
	b.Duplicates += int64(t.done - t.changed)
}

// refuse sorts what the server refused and returns what has to be sent again: an upsert whose _id another one inserted
// at the same time.
func (b *batch) refuse(list []statement, refused []refusal) (again []statement, err error) {
	for _, f := range refused {
		e := list[f.index].entry
		e.state = refusedForGood
		switch v := writeVerdict(f.code); {
		case f.code == codeDuplicateKey && f.byID:
			e.state = waiting
			again = append(again, list[f.index])
			continue
		case f.code == codeDuplicateKey && b.sink.options.IgnoreDuplicates:
			b.Ignored++
		case f.code == codeDuplicateKey:
			b.reject(e.index, v.class, "another document has the same key: "+f.message)
		case f.code == codeConversion && b.lease != nil:
			return nil, b.sink.leaseEnded(len(list))
		case v.kind != fault.Poison:
			return nil, b.sink.refusedWrite(b.sink.doing(len(list)), f.code, v)
		default:
			b.reject(e.index, v.class, fmt.Sprintf("MongoDB refused the document with code %d: %s", f.code, f.message))
		}
		e.key.blocked = len(e.held) > 0
	}
	return again, nil
}
