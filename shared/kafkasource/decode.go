package kafkasource

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Where the fields of a record batch are: https://kafka.apache.org/documentation/#recordbatch. The first three hold for
// the messages of Kafka before 0.11 as well, whose magic is below 2.
const (
	atLength         = 8
	atLeaderEpoch    = 12
	atMagic          = 16
	atChecksum       = 17
	atAttributes     = 21 // and what the checksum covers
	atLastDelta      = 23
	atFirstTimestamp = 27
	atMaxTimestamp   = 35
	atProducer       = 43
	atRecordCount    = 57
	batchHeaderSize  = 61
	lengthOverhead   = 12 // of offset and length themselves, which the length does not count
	atOldAttributes  = 17 // of a message of Kafka before 0.11
	atOldTimestamp   = 18 // of one of 0.10
)

const (
	attributeCodec         = 1<<3 - 1
	attributeAppendTime    = 1 << 3 // the broker's one timestamp holds for all records
	attributeTransactional = 1 << 4
	attributeControl       = 1 << 5
)

const (
	// keptBytes is what one record costs beside its key and value for as long as its batch lives, headerBytes what one
	// header does.
	keptBytes   = 112
	headerBytes = 40
	// oldRecordBytes is what a record of before Kafka 0.11 costs while it is decoded: the client's message and record.
	oldRecordBytes = 400
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

// last is the offset of the last record. It is all that a message of before Kafka 0.11 tells, also where it wraps others.
func (b rawBatch) last() int64 {
	if !b.modern() {
		return b.first()
	}
	return b.first() + int64(int32(binary.BigEndian.Uint32(b[atLastDelta:])))
}

func (b rawBatch) epoch() int32 {
	if !b.modern() {
		return -1
	}
	return int32(binary.BigEndian.Uint32(b[atLeaderEpoch:]))
}

// attributes may be asked of modern batches only, and so may what follows.
func (b rawBatch) attributes() uint16 { return binary.BigEndian.Uint16(b[atAttributes:]) }

func (b rawBatch) count() int64 { return int64(int32(binary.BigEndian.Uint32(b[atRecordCount:]))) }

func (b rawBatch) whole() bool {
	return crc32.Checksum(b[atAttributes:], castagnoli) == binary.BigEndian.Uint32(b[atChecksum:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a table that never changes

// decoder decodes the batches of one leader, one at a time. The records it returns keep the decompressed bytes alive
// and nothing else of it.
type decoder struct {
	committed    bool // the isolation level
	decompressor kgo.Decompressor
	limit        int64
	names        headerNames
	// decompressed is how many bytes the current batch became, 0 where it was not compressed.
	decompressed int64
	// wrapped says that what is decompressed are messages of before Kafka 0.11.
	wrapped bool
}

// Decompress counts what the client's decompressor makes.
func (d *decoder) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := d.decompressor.Decompress(src, codec)
	d.decompressed = int64(len(out))
	if err == nil && d.wrapped {
		err = d.checkWrapped(out)
	}
	return out, err
}

// checkWrapped looks at the messages that one message wraps. The client leaves out in silence what follows one that is
// cut off, and takes memory for all of them at once; unlike a batch, a message does not tell their number.
func (d *decoder) checkWrapped(in []byte) error {
	count := int64(0)
	for ; len(in) > 0; count++ {
		_, rest, need := nextBatch(in)
		if need > 0 {
			return fmt.Errorf("message %d of those that it wraps has %d bytes of %d", count, len(in), need)
		}
		in = rest
	}
	switch {
	case count == 0:
		return errors.New("it wraps nothing")
	case count*oldRecordBytes > d.limit:
		return kgo.ErrMaxDecompress
	}
	return nil
}

// decode returns the records of the batch from position on and below to, and the position behind the batch. aborted
// is what the response said of aborted transactions; a marker that ends one is taken out of it.
func (d *decoder) decode(raw rawBatch, p record.Partition, position, to int64, aborted aborts) (record.Batch, error) {
	if int64(len(raw)) > d.limit {
		return record.Batch{}, tooLarge(p, raw.first(), int64(len(raw)), d.limit)
	}
	d.decompressed, d.wrapped = 0, !raw.modern()
	read := d.modern
	if d.wrapped {
		read = d.old
	}
	records, headers, err := read(raw, p, max(position, 0), to, aborted)
	if err != nil {
		return record.Batch{}, d.broken(raw, p, err)
	}
	next := max(raw.last()+1, position)
	if n := len(records); n > 0 {
		next = max(next, records[n-1].Offset+1) // certain old producers wrote wrappers with offset 0
	}
	return record.Batch{
		Partition:   p,
		Records:     records,
		Next:        min(next, to),
		LeaderEpoch: raw.epoch(),
		Bytes:       max(d.decompressed, int64(len(raw))) + int64(len(records))*keptBytes + headers*headerBytes,
	}, nil
}

func (d *decoder) broken(raw rawBatch, p record.Partition, err error) error {
	if large, ok := errors.AsType[largeError](err); ok {
		return tooLarge(p, raw.first(), int64(large), d.limit)
	}
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

// covers tells whether a transactional batch of the producer, which begins at the offset, was aborted.
func (a aborts) covers(producer, offset int64) bool {
	firsts := a[producer]
	return len(firsts) > 0 && firsts[0] <= offset
}

// ended takes out the transaction that an abort marker at the offset ended.
func (a aborts) ended(producer, offset int64) {
	if firsts := a[producer]; len(firsts) > 0 && firsts[0] <= offset {
		a[producer] = firsts[1:]
	}
}
