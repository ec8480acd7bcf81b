package window_test

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

// The same rule in rational numbers, word for word as it is written down, is the oracle.
func TestMake_SplitIsTheWrittenRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1<<62))
		sizes := rapid.SliceOfN(size, 1, 7).Draw(t, "sizes")
		minimum := rapid.Int64Range(1, 6).Draw(t, "minimum")
		in := first(record.StartEarliest, map[int32]record.Bounds{})
		in.MinPerPartition = minimum
		least, all := int64(0), new(big.Int)
		for id, n := range sizes {
			in.Log.Topics["orders"].Partitions[int32(id)] = bounds(0, n)
			least += min(minimum, n)
			all.Add(all, big.NewInt(n))
		}
		most := int64(1<<63 - 1)
		if all.IsInt64() {
			most = all.Int64()
		}
		in.MaxRecords = rapid.Int64Range(least, most).Draw(t, "limit")
		want := rationalSplit(sizes, minimum, in.MaxRecords)
		plan, err := window.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int64, len(sizes))
		for _, r := range plan.Ranges {
			got[r.Partition.ID] = r.To - r.From
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("shares (-want +got):\n%s", diff)
		}
	})
}

func rationalSplit(sizes []int64, minimum, limit int64) []int64 {
	fixed := map[int]bool{}
	out := make([]int64, len(sizes))
	share := func(i int) *big.Rat {
		left, size := new(big.Rat).SetInt64(limit), new(big.Rat)
		for j, n := range sizes {
			if fixed[j] {
				left.Sub(left, new(big.Rat).SetInt64(out[j]))
			} else {
				size.Add(size, new(big.Rat).SetInt64(n))
			}
		}
		return left.Mul(left, new(big.Rat).Quo(new(big.Rat).SetInt64(sizes[i]), size))
	}
	for {
		var under []int
		for i, n := range sizes {
			if !fixed[i] && share(i).Cmp(new(big.Rat).SetInt64(min(minimum, n))) < 0 {
				under = append(under, i)
			}
		}
		for _, i := range under {
			out[i] = min(minimum, sizes[i])
		}
		for _, i := range under {
			fixed[i] = true
		}
		if len(under) == 0 {
			break
		}
	}
	given := int64(0)
	remainders := make([]*big.Rat, len(sizes))
	for i := range sizes {
		remainders[i] = new(big.Rat).SetInt64(-1)
		if !fixed[i] {
			s := share(i)
			whole := new(big.Int).Quo(s.Num(), s.Denom())
			out[i] = whole.Int64()
			remainders[i] = s.Sub(s, new(big.Rat).SetInt(whole))
		}
	}
	for _, n := range out {
		given += n
	}
	for ; given < limit; given++ {
		best := 0
		for i := range remainders {
			if remainders[i].Cmp(remainders[best]) > 0 {
				best = i
			}
		}
		out[best]++
		remainders[best] = new(big.Rat).SetInt64(-1)
	}
	return out
}
