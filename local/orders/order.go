package orders

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Order is what a shop's producer writes. Its createdAt is a string in JSON and a date in MongoDB, so a pipeline declares
// it under record.dates.
type Order struct {
	Order     string    `bson:"order"     json:"order"`
	Customer  int32     `bson:"customer"  json:"customer"`
	Email     string    `bson:"email"     json:"email"`
	CreatedAt time.Time `bson:"createdAt" json:"createdAt"`
	Status    string    `bson:"status"    json:"status"`
	Currency  string    `bson:"currency"  json:"currency"`
	Total     Amount    `bson:"total"     json:"total"`
	Gift      bool      `bson:"gift"      json:"gift"`
	Note      *string   `bson:"note"      json:"note"`
	Address   Address   `bson:"address"   json:"address"`
	Lines     []Line    `bson:"lines"     json:"lines"`
}

// Address is where an order goes.
type Address struct {
	Street string `bson:"street" json:"street"`
	City   string `bson:"city"   json:"city"`
	Zip    string `bson:"zip"    json:"zip"`
}

// Line is one line of an order.
type Line struct {
	SKU   string `bson:"sku"   json:"sku"`
	Qty   int32  `bson:"qty"   json:"qty"`
	Price Amount `bson:"price" json:"price"`
}

// Amount always has a point in JSON, so that it is a double and not an integer there.
type Amount float64

// MarshalJSON writes two decimals.
func (a Amount) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.2f", float64(a)), nil }

var (
	cities   = []string{"Lisboa", "Zürich", "København", "Kraków", "Bordeaux", "Αθήνα"}        //nolint:gochecknoglobals // a table
	statuses = []string{"placed", "paid", "packed", "shipped", "delivered"}                    //nolint:gochecknoglobals // a table
	goods    = []string{"lamp", "chair", "kettle", "rug", "shelf", "clock", "mirror", "table"} //nolint:gochecknoglobals // a table
)

// newOrder makes the nth order of a generator: 380 bytes of JSON on average.
func newOrder(random *rand.Rand, n int) Order {
	cents := func(limit int) Amount { return Amount(float64(random.IntN(limit)) / 100) }
	customer := random.Int32N(50_000)
	o := Order{
		Order: fmt.Sprintf("O-%08d", n), Customer: customer, Email: fmt.Sprintf("customer-%d@example.com", customer),
		CreatedAt: time.UnixMilli(1_790_000_000_000 + int64(n)*37).UTC(),
		Status:    statuses[random.IntN(len(statuses))], Currency: "EUR", Total: cents(100_000), Gift: random.IntN(9) == 0,
		Address: Address{
			Street: fmt.Sprintf("%d, Rua do Norte", 1+random.IntN(200)), City: cities[random.IntN(len(cities))],
			Zip: fmt.Sprintf("%05d", random.IntN(100_000)),
		},
	}
	if random.IntN(20) == 0 {
		note := "ring twice \u2013 \"please\""
		o.Note = &note
	}
	for range 1 + random.IntN(4) {
		o.Lines = append(o.Lines, Line{
			SKU: goods[random.IntN(len(goods))] + fmt.Sprintf("-%03d", random.IntN(1000)), Qty: 1 + random.Int32N(5), Price: cents(20_000),
		})
	}
	return o
}

func (o Order) value() ([]byte, error) {
	value, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding order %s: %w", o.Order, err)
	}
	return value, nil
}

// Document returns the document that MongoDB must hold for the order under an _id.
func (o Order) Document(id string) ([]byte, error) {
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
