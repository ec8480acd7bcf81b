package kafkasource

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/record"
)

// noTimestamp is what Kafka's own consumers make of a message of before 0.10, which has none.
const noTimestamp = -1

// old lets the client decode a message of before Kafka 0.11, and what it wraps. Brokers before 4.0 serve them as they
// were written.
func (d *decoder) old(raw rawBatch, p record.Partition, position, to int64, _ aborts) ([]record.Record, int64, error) {
	one := kmsg.NewFetchResponseTopicPartition()
	one.Partition, one.RecordBatches = p.ID, raw
	opts := kgo.ProcessFetchPartitionOpts{Offset: position, Topic: p.Topic, Partition: p.ID}
	fetched, next := kgo.ProcessFetchPartition(opts, &one, d, nil)
	if fetched.Err != nil {
		return nil, 0, fetched.Err
	}
	if next <= raw.last() { // the client stops in silence at a record that it cannot read
		return nil, 0, errors.New("a record in it cannot be read")
	}
	var out []record.Record
	for _, r := range fetched.Records {
		if r.Offset < to {
			out = append(out, record.Record{Partition: p, Offset: r.Offset, Timestamp: raw.oldTimestamp(r), Key: r.Key, Value: r.Value})
		}
	}
	return out, 0, nil
}

// oldTimestamp is the record's own one, or in 0.10 the broker's, which only the message that wraps it has.
func (b rawBatch) oldTimestamp(r *kgo.Record) int64 {
	switch {
	case b[atMagic] == 0:
		return noTimestamp
	case b[atOldAttributes]&attributeAppendTime != 0:
		return int64(binary.BigEndian.Uint64(b[atOldTimestamp:]))
	default:
		return r.Timestamp.UnixMilli()
	}
}
