package mapping

import (
	"testing"

	"github.com/tidemark/tidemark/shared/record"
)

// order is a usual value: 394 bytes of nested JSON.
const order = `{"id":"ord-000000123456","customer":9007199254740993,"createdAt":"2031-03-04T05:06:07.890Z","status":"confirmed",` +
	`"lines":[{"sku":"SKU-10293","qty":2,"price":19.90},{"sku":"SKU-55871","qty":1,"price":249.00},{"sku":"SKU-00317","qty":12,"price":0.75}],` +
	`"address":{"street":"Hauptstraße 12","city":"Zürich","zip":"8001","country":"CH"},"total":297.80,"currency":"CHF","express":false,"note":null}`

func BenchmarkValue(b *testing.B) {
	asBSON, err := mustNew(b, Options{}).Value(nil, []byte(order))
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name    string
		options Options
		value   []byte
	}{
		{"plain", Options{}, []byte(order)},
		{"declared", Options{Dates: []string{"createdAt"}, Decimals: []string{"lines.price", "total"}}, []byte(order)},
		{"extjson", Options{Format: ExtJSON}, []byte(order)},
		{"bson", Options{Format: BSON}, asBSON},
		{"bson-declared", Options{Format: BSON, Dates: []string{"createdAt"}}, asBSON},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m, value := mustNew(b, bench.options), bench.value
			var dst []byte
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = m.Value(dst[:0], value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, bench := range []struct {
		name, value string
		options     Options
	}{
		{"coordinates", order, Options{}},
		{"own-id-first", `{"_id":"ord-000000123456",` + order[1:], Options{}},
		{"own-id-last", order[:len(order)-1] + `,"_id":"ord-000000123456"}`, Options{}},
		{"metadata", order, Options{Metadata: "kafka"}},
		{"upsert-key", order, Options{Mode: record.Upsert}},
		{"upsert-fields", order, Options{Mode: record.Upsert, ID: ID{From: FromFields, Fields: []string{"id", "address.zip"}}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := mustNew(b, bench.options)
			rec := record.Record{
				Partition: record.Partition{Topic: "orders", ID: 3}, Offset: 123456789, Key: []byte("ord-000000123456"), Value: []byte(bench.value),
			}
			b.SetBytes(int64(len(rec.Value)))
			b.ReportAllocs()
			var arena record.Arena
			for b.Loop() {
				if arena.Full() {
					arena.Reset()
				}
				if _, err := m.Convert(&arena, rec, record.Topic{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
