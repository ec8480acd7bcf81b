package record_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/record"
)

// The formula is a promise, so its numbers are written down. fnv32a of "" is 2166136261, of "a" 3826002220 (both in the
// FNV reference's test vectors), of "orders" 845059820; the lane is (hash + partition) mod lanes.
func TestPartition_LaneIsWhatItAlwaysWas(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		topic     string
		partition int32
		lanes     int
		want      int
	}{
		{"", 0, 7, 2},
		{"a", 0, 10, 0},
		{"a", 3, 10, 3},
		{"orders", 0, 1, 0},
		{"orders", 7, 1, 0},
		{"orders", 0, 2, 0},
		{"orders", 1, 2, 1},
		{"orders", 0, 3, 2},
		{"orders", 1, 3, 0},
		{"orders", 2, 3, 1},
		{"orders", 5, 16, 1},
		{"orders", 2147483647, 7, 4},
		{"orders-eu", 0, 16, 5},
		{"Ω", 4, 5, 3},
	} {
		if got := (record.Partition{Topic: test.topic, ID: test.partition}).Lane(test.lanes); got != test.want {
			t.Errorf("%s/%d of %d lanes is lane %d, want %d", test.topic, test.partition, test.lanes, got, test.want)
		}
	}
}

func TestPartition_NeighboursGoToNeighbouringLanes(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 2, 5, 64} {
		for id := range int32(200) {
			p := record.Partition{Topic: "orders", ID: id}
			next := record.Partition{Topic: "orders", ID: id + 1}
			if got, want := next.Lane(lanes), (p.Lane(lanes)+1)%lanes; got != want {
				t.Fatalf("%s of %d lanes is lane %d, want %d", next, lanes, got, want)
			}
		}
	}
}

func TestPartition_String(t *testing.T) {
	t.Parallel()
	p := record.Partition{Topic: "orders.eu-1", ID: 12}
	if got, want := p.String(), "orders.eu-1/12"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (record.Range{Partition: p, From: 3, To: 9}).String(), "orders.eu-1/12 [3, 9)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPartition_CompareSortsByTopicThenNumber(t *testing.T) {
	t.Parallel()
	sorted := []record.Partition{{"a", 2}, {"a", 10}, {"a-b", 0}, {"b", 0}, {"b", 1}}
	for i, p := range sorted {
		for j, q := range sorted {
			if got, want := p.Compare(q), sign(i-j); got != want {
				t.Errorf("%s against %s: %d, want %d", p, q, got, want)
			}
		}
	}
	shuffled := []record.Partition{sorted[3], sorted[1], sorted[4], sorted[0], sorted[2]}
	slices.SortFunc(shuffled, record.Partition.Compare)
	if diff := cmp.Diff(sorted, shuffled); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func sign(n int) int {
	return int(math.Copysign(math.Min(1, math.Abs(float64(n))), float64(n)))
}

// full is a checkpoint in which every field is set.
func full() record.Checkpoint {
	p := record.Partition{Topic: "orders", ID: 1}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return record.Checkpoint{
		Schema: record.Schema, Lane: 1, Lanes: 2, Layout: 3, Paused: true, Seq: 4,
		Draining: record.Draining{By: "run", Lanes: 3, Layout: 4, Since: at, Until: at},
		Lease:    record.Lease{Holder: "run", Epoch: 5, ExpiresAt: at},
		Identity: map[string]string{"sink": "shop.orders"},
		Topics:   map[string]record.Topic{"orders": {ID: "id", Incarnation: 1, Rewrite: 2}},
		Offsets:  map[record.Partition]record.Position{p: {Offset: 6, LeaderEpoch: 7, LogStart: 1, LogEnd: 9, SeenAt: at, MovedAt: at}},
		Missing:  map[record.Partition]record.Missing{p: {Runs: 1, Since: at}},
		Rejects:  []record.RejectCount{{Records: 10, Rejected: 1}},
		Gaps:     []record.Gap{{Range: record.Range{Partition: p, From: 1, To: 2}, Incarnation: 1, Reason: "retention", SeenAt: at}},

		GapRecords: 1, StartingOffsets: "earliest", LastRun: "run", UpdatedBy: "operator",
	}
}

// A field that is added must be set above, or this test says so: then the clone below is checked with it.
func TestCheckpoint_CloneIsDeep(t *testing.T) {
	t.Parallel()
	original := full()
	fields := reflect.ValueOf(original)
	for i := range fields.NumField() {
		if fields.Field(i).IsZero() {
			t.Errorf("full leaves %s out", fields.Type().Field(i).Name)
		}
	}
	clone := original.Clone()
	if diff := cmp.Diff(original, clone); diff != "" {
		t.Fatalf("(-original +clone):\n%s", diff)
	}
	scramble(reflect.ValueOf(&clone).Elem())
	if diff := cmp.Diff(full(), original); diff != "" {
		t.Errorf("a change of the clone reached the original (-want +got):\n%s", diff)
	}
}

// scramble empties every map and every element of every slice of the struct.
func scramble(of reflect.Value) {
	for i := range of.NumField() {
		switch field := of.Field(i); field.Kind() {
		case reflect.Map:
			field.Clear()
		case reflect.Slice:
			for j := range field.Len() {
				field.Index(j).SetZero()
			}
		default: // an assignment copies it
		}
	}
}

func TestCheckpoint_CloneOfNothingIsNothing(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(record.Checkpoint{}, record.Checkpoint{}.Clone()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckpoint_SiblingTakesOverWhatHoldsForThePipelineOnly(t *testing.T) {
	t.Parallel()
	original := full()
	sibling := original.Sibling(0)
	want := record.Checkpoint{
		Schema: record.Schema, Lane: 0, Lanes: 2, Layout: 3, Seq: 4, UpdatedBy: "operator",
		Identity: map[string]string{"sink": "shop.orders"},
	}
	if diff := cmp.Diff(want, sibling); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	clear(sibling.Identity)
	if diff := cmp.Diff(full(), original); diff != "" {
		t.Errorf("a change of the sibling reached the original (-want +got):\n%s", diff)
	}
}
