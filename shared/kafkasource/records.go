package kafkasource

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/shared/record"
)

// leastRecord is the size of the smallest record: seven numbers of one byte.
const leastRecord = 7

// largeError is a batch that would take so many bytes of memory.
type largeError int64

// Error is replaced by what tooLarge says.
func (e largeError) Error() string { return fmt.Sprintf("%d bytes of memory", int64(e)) }

// modern decodes a batch of Kafka 0.11 and later: https://kafka.apache.org/documentation/#recordbatch. It does so in
// place of the client, whose own record is twice as large as ours and takes another allocation for headers, and which
// neither tells timestamps after the year 2262 nor that bytes remain behind the last record.
func (d *decoder) modern(raw rawBatch, p record.Partition, position, to int64, aborted aborts) (out []record.Record, headers int64, err error) {
	count, attributes := raw.count(), raw.attributes()
	switch {
	case !raw.whole():
		return nil, 0, errors.New("its checksum is wrong")
	case count < 0:
		return nil, 0, fmt.Errorf("it claims %d records", count)
	case raw.last() < position:
		return nil, 0, nil
	case count*keptBytes > d.limit:
		return nil, 0, largeError(count * keptBytes)
	case attributes&attributeControl == 0 && attributes&attributeTransactional != 0 && d.committed && aborted.covers(raw.producer(), raw.first()):
		return nil, 0, nil
	}
	in := []byte(raw[batchHeaderSize:])
	if codec := attributes & attributeCodec; codec != 0 && len(in) > 0 {
		if in, err = d.Decompress(in, kgo.CompressionCodecType(codec)); err != nil {
			return nil, 0, err
		}
	}
	if count*leastRecord > int64(len(in)) {
		return nil, 0, fmt.Errorf("it claims %d records in %d bytes", count, len(in))
	}
	if attributes&attributeControl != 0 {
		if marker := (fields{in: in}); count > 0 && marker.skipToKey() && isAbortMarker(marker.bytes()) {
			aborted.ended(raw.producer(), raw.first())
		}
		return nil, 0, nil
	}
	return d.records(raw, in, p, position, to)
}

// records decodes what stands behind the header of a batch.
func (d *decoder) records(raw rawBatch, in []byte, p record.Partition, position, to int64) (out []record.Record, headers int64, err error) {
	first, count := raw.first(), raw.count()
	begun, newest := int64(binary.BigEndian.Uint64(raw[atFirstTimestamp:])), int64(binary.BigEndian.Uint64(raw[atMaxTimestamp:]))
	appendTime := raw.attributes()&attributeAppendTime != 0
	out = make([]record.Record, 0, max(0, min(count, to-max(position, first))))
	var slab []record.Header
	last := int64(-1)
	for n := range count {
		size, used := binary.Varint(in)
		if used <= 0 || size < 0 || size > int64(len(in)-used) {
			return nil, 0, fmt.Errorf("record %d of %d is cut off", n, count)
		}
		f := fields{in: in[used : used+int(size)]}
		in = in[used+int(size):]
		f.byte() // attributes, which nobody uses
		r := record.Record{Partition: p, Timestamp: begun + f.number()}
		delta := f.number()
		r.Offset, r.Key, r.Value = first+delta, f.bytes(), f.bytes()
		number := f.number()
		if f.broken || delta <= last || r.Offset > raw.last() || number < 0 || number > int64(len(f.in))/2 {
			return nil, 0, fmt.Errorf("record %d of %d cannot be read", n, count)
		}
		last = delta
		if r.Offset < position || r.Offset >= to {
			continue
		}
		if appendTime {
			r.Timestamp = newest
		}
		if number > 0 {
			if headers += number; headers*headerBytes > d.limit {
				return nil, 0, largeError(headers * headerBytes)
			}
			if slab == nil { // records of a batch mostly have the same headers
				slab = make([]record.Header, 0, min(number*(count-n), number+int64(len(in))/2/leastRecord))
			}
			from := len(slab)
			for range number {
				slab = append(slab, record.Header{Key: d.names.of(f.bytes()), Value: f.bytes()})
			}
			r.Headers = slab[from:len(slab):len(slab)]
		}
		if f.broken {
			return nil, 0, fmt.Errorf("the headers of record %d of %d cannot be read", n, count)
		}
		out = append(out, r)
	}
	if len(in) > 0 {
		return nil, 0, fmt.Errorf("%d bytes remain behind its %d records", len(in), count)
	}
	return out, headers, nil
}

// fields reads the fields of one record. What cannot be read is zero, and broken is set.
type fields struct {
	in     []byte
	broken bool
}

func (f *fields) byte() {
	if len(f.in) == 0 {
		f.broken = true
		return
	}
	f.in = f.in[1:]
}

func (f *fields) number() int64 {
	if len(f.in) > 0 && f.in[0] < 0x80 { // most are this small
		n := int64(f.in[0]>>1) ^ -int64(f.in[0]&1)
		f.in = f.in[1:]
		return n
	}
	n, used := binary.Varint(f.in)
	if used <= 0 {
		f.in, f.broken = nil, true
		return 0
	}
	f.in = f.in[used:]
	return n
}

// bytes returns nil for null.
func (f *fields) bytes() []byte {
	size := f.number()
	if size < 0 || size > int64(len(f.in)) {
		f.broken = f.broken || size != -1
		return nil
	}
	out := f.in[:size:size]
	f.in = f.in[size:]
	return out
}

// skipToKey reads up to the key of the first record.
func (f *fields) skipToKey() bool {
	f.number()
	f.byte()
	f.number()
	f.number()
	return !f.broken
}

// headerNames keeps the names of headers, which are few and stand in every record, as one string each.
type headerNames map[string]string

// maxHeaderNames bounds them, for producers that put values into names.
const maxHeaderNames = 256

func (h *headerNames) of(name []byte) string {
	if known, ok := (*h)[string(name)]; ok {
		return known
	}
	if *h == nil || len(*h) >= maxHeaderNames {
		*h = headerNames{}
	}
	made := string(name)
	(*h)[made] = made
	return made
}

// isAbortMarker reads the key of a control record: version and type as two 16-bit numbers, type 0 is an abort.
func isAbortMarker(key []byte) bool {
	return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 0
}
