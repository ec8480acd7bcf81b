package orders_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/local/orders"
)

func TestEach_SameOrdersInEveryRun(t *testing.T) {
	t.Parallel()
	topic := orders.Topic{Name: "orders", Partitions: 4}
	list := func() (values [][]byte) {
		if err := topic.Each(50, func(e *orders.Event) error { values = append(values, e.Value); return nil }); err != nil {
			t.Fatal(err)
		}
		return values
	}
	if diff := cmp.Diff(list(), list()); diff != "" {
		t.Error(diff)
	}
}

func TestEach_OffsetsOfAPartitionHaveNoHole(t *testing.T) {
	t.Parallel()
	topic := orders.Topic{Name: "orders", Partitions: 4}
	next := map[int32]int64{}
	if err := topic.Each(500, func(e *orders.Event) error {
		if e.Offset != next[e.Partition] || e.Partition != topic.PartitionOf(e.Key) {
			t.Errorf("got %d/%d, expected offset %d", e.Partition, e.Offset, next[e.Partition])
		}
		next[e.Partition]++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(next) != 4 {
		t.Errorf("orders are in %d of 4 partitions", len(next))
	}
}

func TestDocument_HoldsTheOrderUnderItsID(t *testing.T) {
	t.Parallel()
	topic := orders.Topic{Name: "orders", Partitions: 4}
	if err := topic.Each(20, func(e *orders.Event) error {
		document, err := e.Order.Document(topic.ID(e))
		if err != nil {
			return err
		}
		if err := bson.Raw(document).Validate(); err != nil {
			return err
		}
		var back orders.Order
		if err := bson.Unmarshal(document, &back); err != nil {
			return err
		}
		value, err := json.Marshal(back)
		if err != nil {
			return err
		}
		if got := bson.Raw(document).Lookup("_id").StringValue(); got != topic.ID(e) || !bytes.Equal(value, e.Value) {
			t.Errorf("%s holds %s, expected %s", got, value, e.Value)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
