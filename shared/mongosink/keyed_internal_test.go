package mongosink

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/record"
)

func canonicalOf(t *testing.T, v any) string {
	t.Helper()
	kind, raw, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(appendCanonical(nil, bson.RawValue{Type: kind, Value: raw}))
}

func decimal(t *testing.T, text string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAppendCanonical_IsTheSameForEqualIDsOnly(t *testing.T) {
	t.Parallel()
	const big = int64(9007199254740993) // has no double
	negativeZero := math.Copysign(0, -1)
	groups := [][]any{
		{int32(1), int64(1), 1.0, decimal(t, "1.00"), decimal(t, "10E-1")},
		{int32(0), negativeZero, decimal(t, "-0"), decimal(t, "0E+9")},
		{big, decimal(t, "9007199254740993")},
		{float64(big), int64(9007199254740992), decimal(t, "9.007199254740992E15")},
		{0.5, decimal(t, "0.50")},
		{1e300, decimal(t, "1.000000000000000052504760255204420E300")},
		{0.1},
		{decimal(t, "0.1")},
		{-1.0, int32(-1)},
		{decimal(t, "NaN")},
		{decimal(t, "Infinity")},
		{decimal(t, "-Infinity")},
		{"1", bson.Symbol("1")},
		{"s"},
		{bson.Null{}},
		{true},
		{false},
		{bson.MinKey{}},
		{bson.MaxKey{}},
		{bson.DateTime(1)},
		{bson.D{{Key: "a", Value: int32(1)}, {Key: "b", Value: "x"}}, bson.D{{Key: "a", Value: 1.0}, {Key: "b", Value: bson.Symbol("x")}}},
		{bson.D{{Key: "b", Value: "x"}, {Key: "a", Value: int32(1)}}},
		{bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: int32(1)}}}}},
		{bson.D{{Key: "a", Value: bson.D{}}, {Key: "b", Value: int32(1)}}},
		{bson.D{}},
	}
	seen := map[string]string{}
	for i, group := range groups {
		for _, v := range group {
			key, name := canonicalOf(t, v), fmt.Sprintf("group %d", i)
			if other, ok := seen[key]; ok && other != name {
				t.Errorf("%v of %s has the form of %s", v, name, other)
			}
			if key != canonicalOf(t, group[0]) {
				t.Errorf("%v and %v have different forms", v, group[0])
			}
			seen[key] = name
		}
	}
}

func TestFitShardKey_IsTheIDAlone(t *testing.T) {
	t.Parallel()
	key := func(fields ...bson.E) bson.D {
		return bson.D{{Key: "_id", Value: "shop.orders"}, {Key: "key", Value: bson.D(fields)}}
	}
	for _, c := range []struct {
		doc bson.D
		fit bool
	}{
		{key(bson.E{Key: "_id", Value: 1}), true},
		{key(bson.E{Key: "_id", Value: "hashed"}), true},
		{key(bson.E{Key: "customer", Value: 1}), false},
		{key(bson.E{Key: "_id", Value: 1}, bson.E{Key: "customer", Value: 1}), false},
		{key(), false},
		{bson.D{{Key: "_id", Value: "shop.orders"}}, false},
		{append(key(bson.E{Key: "customer", Value: 1}), bson.E{Key: "dropped", Value: true}), true},
		{append(key(bson.E{Key: "customer", Value: 1}), bson.E{Key: "unsplittable", Value: true}), true},
	} {
		raw, err := bson.Marshal(c.doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, fit := fitShardKey(raw); fit != c.fit {
			t.Errorf("%v fits: %t, expected %t", c.doc, fit, c.fit)
		}
	}
}

func TestIsMongos_ReadsHello(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hello bson.D
		want  bool
	}{{bson.D{{Key: "msg", Value: "isdbgrid"}}, true}, {bson.D{{Key: "setName", Value: "rs"}}, false}} {
		raw, err := bson.Marshal(c.hello)
		if err != nil {
			t.Fatal(err)
		}
		if got := isMongos(raw); got != c.want {
			t.Errorf("%v is a mongos: %t", c.hello, got)
		}
	}
}

// A command that begins at the fence and takes all of its time ends no later than the lease, by mongod's clock, however
// far that is from ours.
func TestLease_FenceAndTimeoutTogether_EndWithTheLease(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, left := range []time.Duration{time.Second, 20 * time.Second, 10 * time.Minute} {
			now := time.Now()
			l := &lease{ends: now.Add(left), local: now, server: now.Add(skew)}
			timeout := l.bound(context.Background())
			ends := now.Add(skew + left)
			if last := time.UnixMilli(l.fence).Add(timeout); last.After(ends) || ends.Sub(last) > time.Second {
				t.Errorf("skew %v, lease of %v: a command may end at %v, the lease ends at %v", skew, left, last, ends)
			}
			if timeout > commandTimeout || timeout > left/2 {
				t.Errorf("lease of %v: a command may take %v", left, timeout)
			}
		}
	}
}

// The wall clock went on while the machine was suspended, and the monotonic clock did not.
func TestLease_AfterASuspension_TheClockThatIsFurtherDecides(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := &lease{ends: now.Add(time.Minute), local: now.Add(-time.Hour).Round(0), server: now.Add(-time.Hour)}
	l.ends = l.ends.Round(0).Add(-2 * time.Minute)
	if timeout := l.bound(context.Background()); timeout > 0 {
		t.Errorf("a command may take %v although the lease has ended", timeout)
	}
}

func TestNewer_IsATotalOrderOfWhatIsLifted(t *testing.T) {
	t.Parallel()
	base := record.Guard{Topic: "orders", Partition: 1, Offset: 5, Timestamp: 5}
	for _, c := range []struct {
		change func(*record.Guard)
		want   bool
	}{
		{func(*record.Guard) {}, false},
		{func(g *record.Guard) { g.Offset, g.Timestamp = 6, 1 }, true},
		{func(g *record.Guard) { g.Offset, g.Timestamp = 4, 9 }, false},
		{func(g *record.Guard) { g.Partition, g.Offset, g.Timestamp = 0, 9, 5 }, false},
		{func(g *record.Guard) { g.Partition, g.Offset = 2, 0 }, true},
		{func(g *record.Guard) { g.Partition, g.Offset, g.Timestamp = 0, 0, 6 }, true},
		{func(g *record.Guard) { g.Topic, g.Offset = "orders.eu", 0 }, true},
		{func(g *record.Guard) { g.Rewrite, g.Offset, g.Timestamp = 1, 0, 0 }, true},
		{func(g *record.Guard) { g.Incarnation, g.Rewrite, g.Offset, g.Timestamp = 1, 0, 0, 0 }, true},
	} {
		own := base
		c.change(&own)
		if got := newer(own, base); got != c.want {
			t.Errorf("%+v is newer than %+v: %t", own, base, got)
		}
		if own != base && newer(base, own) == c.want {
			t.Errorf("%+v and %+v are both newer, or neither", own, base)
		}
	}
}
