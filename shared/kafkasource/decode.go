package kafkasource

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Where the fields of a record batch are: https://kafka.apache.org/documentation/#recordbatch. The first three hold for
// the messages of Kafka before 0.11 as well, whose magic is below 2.
const (
	atLength        = 8
	atLeaderEpoch   = 12
	atMagic         = 16
	atAttributes    = 21
	atLastDelta     = 23
	atMaxTimestamp  = 35
	atProducer      = 43
	atRecordCount   = 57
	batchHeaderSize = 61
	lengthOverhead  = 12 // of offset and length themselves, which the length does not count
)

const (
	attributeControl = 1 << 5
	// keptBytes is what one record costs beside its key and value for as long as its batch lives, headerBytes what one
	// header does. While it is decoded, the client's record (184 bytes) and pointers come on top: recordBytes.
	keptBytes   = 112
	headerBytes = 40
	recordBytes = 320
	// maxScratch is how many of the client's records are kept for the next batch: 3 MiB.
	maxScratch = 16 << 10
)

// rawBatch is one record batch, or one message of Kafka before 0.11, as it stands in a fetch response.
type rawBatch []byte

// nextBatch cuts the first batch off. Where it stands there in part only, or claims an impossible size, need is not 0: it
// is the size that it should have, which is at most that of in where it is impossible.
func nextBatch(in []byte) (batch rawBatch, rest []byte, need int64) {
	if len(in) < lengthOverhead {
		return nil, nil, int64(min(len(in), 1) * batchHeaderSize)
	}
	size := int64(int32(binary.BigEndian.Uint32(in[atLength:]))) + lengthOverhead
	if size <= atMagic+1 || size > int64(len(in)) {
		return nil, nil, max(size, 1)
	}
	return rawBatch(in[:size]), in[size:], 0
}

// modern tells whether the fields beyond the magic can be read.
func (b rawBatch) modern() bool { return b[atMagic] == 2 && len(b) >= batchHeaderSize }

func (b rawBatch) first() int64    { return int64(binary.BigEndian.Uint64(b)) }
func (b rawBatch) producer() int64 { return int64(binary.BigEndian.Uint64(b[atProducer:])) }

func (b rawBatch) last() int64 {
	return b.first() + int64(int32(binary.BigEndian.Uint32(b[atLastDelta:])))
}

func (b rawBatch) epoch() int32 {
	if !b.modern() {
		return -1
	}
	return int32(binary.BigEndian.Uint32(b[atLeaderEpoch:]))
}

func (b rawBatch) control() bool {
	return b.modern() && binary.BigEndian.Uint16(b[atAttributes:])&attributeControl != 0
}

// decoder decodes the batches of one leader, one at a time. The records it returns keep the decompressed bytes alive
// and nothing else of it.
type decoder struct {
	isolation    kgo.IsolationLevel
	decompressor kgo.Decompressor
	limit        int64
	scratch      []kgo.Record
	lent         int
	// decompressed is how many bytes the current batch became, 0 where it was not compressed.
	decompressed int64
}

// GetRecords lends the client the slice that it decodes into. One batch is decoded in each call of the client, so it
// asks once, and we are done with the records before the next call.
func (d *decoder) GetRecords(n int) []kgo.Record {
	if n > maxScratch {
		return make([]kgo.Record, n)
	}
	if len(d.scratch) < n {
		d.scratch = make([]kgo.Record, n)
	}
	d.lent = n
	return d.scratch[:n]
}

// PutRecords belongs to the client's pool interface; what was lent is never lost.
func (*decoder) PutRecords([]kgo.Record) {}

// Decompress counts what the client's decompressor makes.
func (d *decoder) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := d.decompressor.Decompress(src, codec)
	d.decompressed = int64(len(out))
	return out, err //nolint:wrapcheck // the client looks at it
}

// decode returns the records of the batch from position on and below to, and the position behind the batch. aborted
// is what the response said of aborted transactions; a marker that ends one is taken out of it.
func (d *decoder) decode(raw rawBatch, p record.Partition, position, to int64, aborted aborts) (record.Batch, error) {
	if err := d.checkSize(raw, p); err != nil {
		return record.Batch{}, err
	}
	one := kmsg.NewFetchResponseTopicPartition()
	one.Partition, one.RecordBatches = p.ID, raw
	opts := kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, // they tell which transaction ended
		Offset:             position,
		IsolationLevel:     d.isolation,
		Topic:              p.Topic,
		Partition:          p.ID,
	}
	if raw.modern() {
		opts.Pools = []kgo.Pool{d}
		one.AbortedTransactions = aborted.of(raw.producer())
	}
	d.decompressed, d.lent = 0, 0
	fetched, next := kgo.ProcessFetchPartition(opts, &one, d, nil)
	defer func() { clear(d.scratch[:d.lent]) }() // lest they keep the batch's bytes alive
	if fetched.Err != nil {
		return record.Batch{}, d.broken(raw, p, fetched.Err)
	}
	if raw.modern() && next <= raw.last() { // kgo stops in silence at a record that it cannot read
		return record.Batch{}, d.broken(raw, p, errors.New("a record in it cannot be read"))
	}
	if raw.control() && len(fetched.Records) > 0 && isAbortMarker(fetched.Records[0].Key) {
		aborted.ended(raw.producer(), raw.first())
	}
	records, headers := convert(fetched.Records, raw, p, to)
	return record.Batch{
		Partition:   p,
		Records:     records,
		Next:        min(max(next, position), to),
		LeaderEpoch: raw.epoch(),
		Bytes:       max(d.decompressed, int64(len(raw))) + int64(len(records))*keptBytes + headers*headerBytes,
	}, nil
}

// checkSize refuses a batch before memory is taken for it.
func (d *decoder) checkSize(raw rawBatch, p record.Partition) error {
	if int64(len(raw)) > d.limit {
		return tooLarge(p, raw.first(), int64(len(raw)), d.limit)
	}
	if !raw.modern() {
		return nil
	}
	count := int64(int32(binary.BigEndian.Uint32(raw[atRecordCount:])))
	if size := count * recordBytes; size > d.limit {
		return tooLarge(p, raw.first(), size, d.limit)
	}
	return nil
}

func (d *decoder) broken(raw rawBatch, p record.Partition, err error) error {
	if errors.Is(err, kgo.ErrMaxDecompress) {
		return fault.Fatalf(classTooLarge, "%s: the batch at offset %d has %d bytes and more than %d when it is decompressed, which is the limit: raise run.limits.memory",
			p, raw.first(), len(raw), d.limit)
	}
	if _, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		return fault.Fatalf(classTooLarge, "%s: the batch at offset %d has %d bytes and more than %d when it is decompressed, which is the limit: raise run.limits.memory",
			p, raw.first(), len(raw), d.limit)
	}
	return fault.Fatalf(classCorrupt, "%s: reading the batch at offset %d, %d bytes: %w: look at the log on the brokers (kafka-dump-log), and move the checkpoint past it if it is lost",
		p, raw.first(), len(raw), err)
}

func tooLarge(p record.Partition, offset, size, limit int64) error {
	return fault.Fatalf(classTooLarge, "%s: the batch at offset %d takes %d bytes of memory and the limit is %d: raise run.limits.memory",
		p, offset, size, limit)
}

// convert makes our records of the client's, without control records and without what stands at or above to.
func convert(in []*kgo.Record, raw rawBatch, p record.Partition, to int64) (out []record.Record, headers int64) {
	in = slices.DeleteFunc(in, func(r *kgo.Record) bool { return r.Attrs.IsControl() || r.Offset >= to })
	if len(in) == 0 {
		return nil, 0
	}
	for _, r := range in {
		headers += int64(len(r.Headers))
	}
	slab := make([]record.Header, 0, headers)
	out = make([]record.Record, len(in))
	newest := int64(math.MaxInt64)
	if raw.modern() {
		newest = int64(binary.BigEndian.Uint64(raw[atMaxTimestamp:]))
	}
	for i, r := range in {
		out[i] = record.Record{Partition: p, Offset: r.Offset, Timestamp: milliseconds(r, newest), Key: r.Key, Value: r.Value}
		if len(r.Headers) > 0 {
			from := len(slab)
			for _, h := range r.Headers {
				slab = append(slab, record.Header{Key: h.Key, Value: h.Value})
			}
			out[i].Headers = slab[from:len(slab):len(slab)]
		}
	}
	return out, headers
}

// nanosecondLimit is the last millisecond, in the year 2262, that fits into nanoseconds.
const nanosecondLimit = math.MaxInt64 / 1_000_000

// milliseconds returns the record's timestamp. The client keeps it as 64 bits of nanoseconds, which wrap after the year
// 2262; producers that give microseconds for milliseconds are common enough that it must come out as it was sent.
// Modulo 2^58 it can be had back (a million is 2^6 times an odd number, which has an inverse), and the batch's newest
// timestamp, which no record exceeds, gives the upper bits.
func milliseconds(r *kgo.Record, newest int64) int64 {
	if newest <= nanosecondLimit || newest == math.MaxInt64 {
		return r.Timestamp.UnixMilli()
	}
	const inverse, mask = 0x790f_b656_68c2_6139, 1<<58 - 1
	low := uint64(r.Timestamp.UnixNano()) >> 6 * inverse & mask
	return newest - int64((uint64(newest)-low)&mask)
}

// isAbortMarker reads the key of a control record: version and type as two 16-bit numbers, type 0 is an abort.
func isAbortMarker(key []byte) bool {
	return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 0
}

// aborts are the aborted transactions of one partition in one fetch response: for each producer the first offsets, the
// lowest first. The client works through them over a whole response; as we give it one batch at a time, the state is
// ours.
type aborts map[int64][]int64

func newAborts(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) aborts {
	a := make(aborts, len(list))
	for _, t := range list {
		a[t.ProducerID] = append(a[t.ProducerID], t.FirstOffset)
	}
	for _, firsts := range a {
		slices.Sort(firsts)
	}
	return a
}

// of returns what the client must know to judge a batch of the producer.
func (a aborts) of(producer int64) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	firsts := a[producer]
	if len(firsts) == 0 {
		return nil
	}
	t := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
	t.ProducerID, t.FirstOffset = producer, firsts[0]
	return []kmsg.FetchResponseTopicPartitionAbortedTransaction{t}
}

// ended takes out the transaction that an abort marker at the offset ended.
func (a aborts) ended(producer, offset int64) {
	if firsts := a[producer]; len(firsts) > 0 && firsts[0] <= offset {
		a[producer] = firsts[1:]
	}
}
