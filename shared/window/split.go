package window

import (
	"math/big"
	"slices"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// span is all that a partition has to read. It is never empty.
type span struct {
	record.Range
	movedAt time.Time
}

func (s span) size() int64 { return s.To - s.From }

// split returns how much each span may read: limit in total, or everything where the limit is 0 or not reached. The
// spans are sorted by partition.
func split(spans []span, limit, minimum int64) []int64 {
	sizes := make([]int64, len(spans))
	minimums := make([]int64, len(spans))
	for i, s := range spans {
		sizes[i] = s.size()
		minimums[i] = min(max(minimum, 1), sizes[i])
	}
	switch {
	case limit <= 0 || fits(sizes, limit):
		return sizes
	case fits(minimums, limit):
		return proportional(sizes, minimums, limit)
	default:
		return inTurn(spans, minimums, limit)
	}
}

// fits says whether the sum of the parts is at most limit, without making a sum that might not fit 64 bits.
func fits(parts []int64, limit int64) bool {
	for _, part := range parts {
		if part > limit {
			return false
		}
		limit -= part
	}
	return true
}

// proportional shares limit out by size. Who would get less than the minimum gets the minimum, and the rest is shared
// anew among the others until nobody is below. The products pass 64 bits and must not be rounded: a float would lose
// or invent records.
func proportional(sizes, minimums []int64, limit int64) []int64 {
	takes := make([]int64, len(sizes))
	active := make([]int, len(sizes))
	for i := range active {
		active[i] = i
	}
	for {
		total := sum(sizes, active)
		left := limit
		var above []int
		for _, i := range active {
			if product(limit, sizes[i]).Cmp(new(big.Int).Mul(big.NewInt(minimums[i]), total)) < 0 {
				takes[i] = minimums[i]
				left -= minimums[i]
			} else {
				above = append(above, i)
			}
		}
		if len(above) == len(active) {
			byRemainder(takes, sizes, active, limit)
			return takes
		}
		active, limit = above, left
	}
}

// byRemainder rounds the shares of the active down and gives what is left to the largest remainders; active is sorted,
// so that ties go to the lower partition.
func byRemainder(takes, sizes []int64, active []int, limit int64) {
	total := sum(sizes, active)
	remainders := make(map[int]*big.Int, len(active))
	left := limit
	for _, i := range active {
		share, remainder := new(big.Int).QuoRem(product(limit, sizes[i]), total, new(big.Int))
		takes[i] = share.Int64() // a share is below the size: limit is below the total
		remainders[i] = remainder
		left -= takes[i]
	}
	order := slices.Clone(active)
	slices.SortStableFunc(order, func(i, j int) int { return remainders[j].Cmp(remainders[i]) })
	for _, i := range order[:left] { // fewer are left than there are remainders
		takes[i]++
	}
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func sum(sizes []int64, of []int) *big.Int {
	total := new(big.Int)
	for _, i := range of {
		total.Add(total, big.NewInt(sizes[i]))
	}
	return total
}

// inTurn shares out a limit that is below the minimums: those that have not moved for longest go first. Everyone that
// moves goes to the end of the line, so among n partitions each is served within n runs.
func inTurn(spans []span, minimums []int64, limit int64) []int64 {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return spans[i].movedAt.Compare(spans[j].movedAt) })
	takes := make([]int64, len(spans))
	for _, i := range order {
		takes[i] = min(minimums[i], limit)
		limit -= takes[i]
	}
	return takes
}
