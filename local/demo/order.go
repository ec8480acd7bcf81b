package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// order is what a shop's producer writes. The same struct is encoded as JSON for Kafka by encoding/json and as the
// document that MongoDB must hold by the driver's bson package, so the proof does not trust Tidemark's own conversion.
type order struct {
	Order     string         `bson:"order"     json:"order"`
	Customer  int32          `bson:"customer"  json:"customer"`
	CreatedAt time.Time      `bson:"createdAt" json:"createdAt"`
	Status    string         `bson:"status"    json:"status"`
	Total     amount         `bson:"total"     json:"total"`
	Gift      bool           `bson:"gift"      json:"gift"`
	Note      *string        `bson:"note"      json:"note"`
	Address   address        `bson:"address"   json:"address"`
	Lines     []line         `bson:"lines"     json:"lines"`
}

type address struct {
	Street string `bson:"street" json:"street"`
	City   string `bson:"city"   json:"city"`
	Zip    string `bson:"zip"    json:"zip"`
}

type line struct {
	SKU   string `bson:"sku"   json:"sku"`
	Qty   int32  `bson:"qty"   json:"qty"`
	Price amount `bson:"price" json:"price"`
}

// amount always has a point in JSON, so that it is a double and not an integer there.
type amount float64

// MarshalJSON writes two decimals.
func (a amount) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.2f", float64(a)), nil }

var (
	cities   = []string{"Lisboa", "Zürich", "København", "Kraków", "Bordeaux", "Αθήνα"}      //nolint:gochecknoglobals // a table
	statuses = []string{"placed", "paid", "packed", "shipped", "delivered"}                    //nolint:gochecknoglobals // a table
	goods    = []string{"lamp", "chair", "kettle", "rug", "shelf", "clock", "mirror", "table"} //nolint:gochecknoglobals // a table
)

// poisonEvery is how often a producer writes something that is no document.
const poisonEvery = 25_000

// event is one record of the demo and what must become of it.
type event struct {
	key, value []byte
	poison     bool
	order      order
}

// newEvent makes the nth event of a generator.
func newEvent(random *rand.Rand, n int) (event, error) {
	cents := func(limit int) amount { return amount(float64(random.IntN(limit)) / 100) }
	o := order{
		Order: fmt.Sprintf("O-%08d", n), Customer: random.Int32N(50_000),
		CreatedAt: time.UnixMilli(1_790_000_000_000 + int64(n)*37).UTC(),
		Status:    statuses[random.IntN(len(statuses))], Total: cents(100_000), Gift: random.IntN(9) == 0,
		Address: address{
			Street: fmt.Sprintf("%d, Rua do Norte", 1+random.IntN(200)), City: cities[random.IntN(len(cities))],
			Zip: fmt.Sprintf("%05d", random.IntN(100_000)),
		},
	}
	if random.IntN(20) == 0 {
		note := "ring twice \u2013 \"please\""
		o.Note = &note
	}
	for range 1 + random.IntN(3) {
		o.Lines = append(o.Lines, line{
			SKU: goods[random.IntN(len(goods))] + fmt.Sprintf("-%03d", random.IntN(1000)), Qty: 1 + random.Int32N(5), Price: cents(20_000),
		})
	}
	e := event{key: fmt.Appendf(nil, "customer-%d", o.Customer), order: o, poison: n%poisonEvery == poisonEvery-1}
	var err error
	if e.value, err = json.Marshal(o); err != nil {
		return e, fmt.Errorf("encoding an order: %w", err)
	}
	if e.poison {
		e.value = e.value[:len(e.value)/2] // cut off in the middle, as a broken producer does
	}
	return e, nil
}

// fingerprint is a hash of an offset and the document that it must have become.
func fingerprint(offset int64, document []byte) uint64 {
	hash := sha256.New()
	_ = binary.Write(hash, binary.LittleEndian, offset) // a hash never fails to write
	hash.Write(document)
	return binary.LittleEndian.Uint64(hash.Sum(nil))
}

// expected returns the document that MongoDB must hold for the order at these coordinates.
func (o order) expected(id string) ([]byte, error) {
	body, err := bson.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding the document of %s: %w", id, err)
	}
	front, err := bson.Marshal(bson.D{{Key: "_id", Value: id}})
	if err != nil {
		return nil, fmt.Errorf("encoding the id %s: %w", id, err)
	}
	document := append(front[:len(front)-1], body[4:]...)
	binary.LittleEndian.PutUint32(document, uint32(len(document)))
	return document, nil
}
