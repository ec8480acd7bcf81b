package mongosink

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/fault"
)

// insert carries out mode insert: the first document of an _id stays. Of several with an equal _id of their own only
// the first is sent, and the others once the _id is taken, so that the order of the list decides and not the server.
func (r *result) insert(ctx context.Context, pending []int) error {
	turn, later := r.inTurn(pending)
	for len(turn) > 0 {
		if err := r.insertAll(ctx, turn); err != nil {
			return err
		}
		next, waiting := []int(nil), map[int][]int{}
		for first, repeats := range later {
			if !r.vacant[first] {
				next = append(next, repeats...)
				continue
			}
			next = append(next, repeats[0])
			if len(repeats) > 1 {
				waiting[repeats[0]] = repeats[1:]
			}
		}
		slices.Sort(next)
		turn, later = next, waiting
	}
	return nil
}

// inTurn returns the first write of each own _id with all of the ids from coordinates, and the later ones by the first.
func (r *result) inTurn(pending []int) (turn []int, later map[int][]int) {
	if !slices.ContainsFunc(pending, func(i int) bool { return r.writes[i].OwnID }) {
		return pending, nil
	}
	later = map[int][]int{}
	firsts := map[string]int{}
	var canonical []byte
	for _, i := range pending {
		if !r.writes[i].OwnID {
			turn = append(turn, i)
			continue
		}
		canonical = appendCanonical(canonical[:0], bson.Raw(r.writes[i].Document).Lookup(idField))
		if first, ok := firsts[string(canonical)]; ok {
			later[first] = append(later[first], i)
			continue
		}
		firsts[string(canonical)] = i
		turn = append(turn, i)
	}
	return turn, later
}

// insertAll inserts documents whose order does not matter to one another.
func (r *result) insertAll(ctx context.Context, pending []int) error {
	for range maxRounds {
		refused, err := r.sink.insert(ctx, r.sink.options.Collection, len(pending), func(i int) []byte { return r.writes[pending[i]].Document })
		if err != nil {
			return err
		}
		r.Written += int64(len(pending) - len(refused))
		if pending, err = r.settle(ctx, pending, refused); err != nil || len(pending) == 0 {
			return err
		}
	}
	return fault.Transientf("%s: %d documents found their _id taken and nothing under it, %d times: is another program deleting in the "+
		"collection?", r.sink.doing(len(r.writes)), len(pending), maxRounds)
}

// settle sorts what the server refused and returns what has to be sent again.
func (r *result) settle(ctx context.Context, pending []int, refused []refusal) ([]int, error) {
	var taken []taken
	for _, f := range refused {
		index := pending[f.index]
		if f.code == codeDuplicateKey {
			taken = append(taken, newTaken(index, f, r.writes[index].Document))
			continue
		}
		v := writeVerdict(f.code)
		if v.kind != fault.Poison {
			return nil, r.sink.refusedWrite(r.sink.doing(len(pending)), f.code, v)
		}
		r.leave(index)
		r.reject(index, v.class, fmt.Sprintf("MongoDB refused the document with code %d: %s", f.code, f.message))
	}
	if len(taken) == 0 {
		return nil, nil
	}
	if err := r.sink.lookUp(ctx, r.sink.options.Collection, taken); err != nil {
		return nil, err
	}
	return r.settleTaken(taken), nil
}

func (r *result) settleTaken(all []taken) (again []int) {
	for _, t := range all {
		if !t.found {
			r.leave(t.index)
		}
		switch {
		case t.found && t.sameRecord(r.writes[t.index]):
			r.Duplicates++
		case !t.found && t.byID:
			delete(r.vacant, t.index)
			again = append(again, t.index)
		case r.sink.options.IgnoreDuplicates:
			r.Ignored++
		default:
			r.reject(t.index, classDuplicateKey, "another document has the same key: "+t.message)
		}
	}
	return again
}

// leave notes that the write left its _id to the next one that wants it.
func (r *result) leave(index int) {
	if r.vacant == nil {
		r.vacant = map[int]bool{}
	}
	r.vacant[index] = true
}
