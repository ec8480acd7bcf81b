// Package orders makes the records that the demo and the benchmark move: a shop's orders, the same ones in every run, each
// as JSON for Kafka and as the document that MongoDB must hold.
//
// The document is made by the driver's own bson package, so that what is proved with it does not trust Tidemark's
// conversion.
package orders
