package kafkasource

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
)

// codecs are all that Kafka has, and snappy in both framings: producers in Java write blocks behind a header, most
// others one raw block.
func codecs(tb testing.TB) map[string]func([]byte) (compressed []byte, attributes int16) {
	tb.Helper()
	all := map[string]func([]byte) ([]byte, int16){
		"xerial": func(in []byte) ([]byte, int16) {
			out := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
			for len(in) > 0 {
				n := min(len(in), 32<<10)
				block := snappyBlock(in[:n])
				out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
				in = in[n:]
			}
			return out, 2
		},
		"snappy": func(in []byte) ([]byte, int16) { return snappyBlock(in), 2 },
	}
	for name, codec := range map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		compressor, err := kgo.DefaultCompressor(codec)
		if err != nil {
			tb.Fatal(err)
		}
		all[name] = func(in []byte) ([]byte, int16) {
			out, kind := compressor.Compress(&bytes.Buffer{}, in)
			return bytes.Clone(out), int16(kind)
		}
	}
	return all
}

// snappyBlock writes runs of one byte as copies and all else as literals: enough of the format for a bomb.
func snappyBlock(in []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(in)))
	for i := 0; i < len(in); {
		run := i + 1
		for run < len(in) && in[run] == in[i] {
			run++
		}
		literal := 1
		if run-i < 8 {
			for literal < min(60, len(in)-i) && (i+literal+8 > len(in) || !same(in[i+literal:i+literal+8])) {
				literal++
			}
			run = i + literal
		}
		out = append(append(out, byte(literal-1)<<2), in[i:i+literal]...)
		for i += literal; i < run; {
			n := min(run-i, 64)
			out = append(out, byte(n-1)<<2|2, 1, 0) // n bytes of one byte back
			i += n
		}
	}
	return out
}

func same(in []byte) bool { return len(bytes.Trim(in, string(in[:1]))) == 0 }

// compressedBatch makes a batch of records with these values.
func compressedBatch(compress func([]byte) ([]byte, int16), values ...[]byte) []byte {
	batch := kmsg.RecordBatch{
		FirstOffset: 7, Magic: 2, LastOffsetDelta: int32(len(values) - 1),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values)),
	}
	var records []byte
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: value}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	batch.Records, batch.Attributes = compress(records)
	return seal(batch.AppendTo(nil))
}

func limitedDecoder(tb testing.TB) *decoder {
	tb.Helper()
	client, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(mebibyte))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	d := testDecoder()
	d.decompressor, _ = client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return d
}

func TestDecode_EveryCodec(t *testing.T) {
	t.Parallel()
	var values [][]byte
	rnd := rand.NewChaCha8([32]byte{1})
	for i := range 60 {
		noise := make([]byte, 1000)
		_, _ = rnd.Read(noise)
		values = append(values, append(bytes.Repeat([]byte{byte(i)}, 1000), noise...))
	}
	for name, compress := range codecs(t) {
		good := compressedBatch(compress, values...)
		batch, err := limitedDecoder(t).decode(good, here, 7, 100, aborts{})
		if err != nil || len(batch.Records) != len(values) || batch.Next != 7+int64(len(values)) || batch.Bytes < 120_000 {
			t.Fatalf("%s: %d records, next %d, %d bytes, %v", name, len(batch.Records), batch.Next, batch.Bytes, err)
		}
		for i, r := range batch.Records {
			if !bytes.Equal(r.Value, values[i]) || r.Offset != 7+int64(i) {
				t.Fatalf("%s: record %d at %d differs", name, i, r.Offset)
			}
		}
		for what, raw := range map[string][]byte{
			"cut":       seal(bytes.Clone(good[:len(good)/2])),
			"no data":   seal(bytes.Clone(good[:batchHeaderSize])),
			"other":     seal(append(bytes.Clone(good[:batchHeaderSize]), bytes.Repeat([]byte{0xff}, 300)...)),
			"header":    seal(append(bytes.Clone(good[:batchHeaderSize+1]), bytes.Repeat([]byte{0xa5}, 300)...)),
			"bit flips": flipped(good),
		} {
			batch, err := limitedDecoder(t).decode(raw, here, 7, 100, aborts{})
			if fault.ClassOf(err) == classTooLarge && what == "bit flips" {
				continue // the size that it claims was hit
			}
			if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != classCorrupt || !strings.Contains(fmt.Sprint(err), "a/3") {
				t.Errorf("%s, %s: %d records, %v", name, what, len(batch.Records), err)
			}
		}
	}
	unknown := compressedBatch(func(in []byte) ([]byte, int16) { return in, 7 }, values...)
	if _, err := testDecoder().decode(unknown, here, 7, 100, aborts{}); fault.ClassOf(err) != classCorrupt {
		t.Errorf("unknown codec: %v", err)
	}
}

// flipped breaks the data behind the header and leaves the checksum right, as a producer with bad memory does.
func flipped(good []byte) []byte {
	raw := bytes.Clone(good)
	for i := batchHeaderSize + 8; i < len(raw); i += 7 {
		raw[i] ^= 0x55
	}
	return seal(raw)
}

func TestDecode_Bombs(t *testing.T) {
	t.Parallel()
	for name, compress := range codecs(t) {
		bomb := compressedBatch(compress, make([]byte, 8*mebibyte))
		if len(bomb) > mebibyte {
			t.Fatalf("%s: the bomb has %d bytes", name, len(bomb))
		}
		batch, err := limitedDecoder(t).decode(bomb, here, 7, 100, aborts{})
		if fault.ClassOf(err) != classTooLarge || !strings.Contains(fmt.Sprint(err), "run.limits.memory") {
			t.Errorf("%s: %d records, %v", name, len(batch.Records), err)
		}
	}
}

// oldMessage makes a message of before Kafka 0.11.
func oldMessage(magic int8, offset, ms int64, attributes int8, value []byte) []byte {
	var raw []byte
	if magic == 0 {
		m := kmsg.MessageV0{Offset: offset, Attributes: attributes, Key: []byte("k"), Value: value}
		raw = m.AppendTo(nil)
	} else {
		m := kmsg.MessageV1{Offset: offset, Magic: 1, Attributes: attributes, Timestamp: ms, Key: []byte("k"), Value: value}
		raw = m.AppendTo(nil)
	}
	kbin.AppendInt32(raw[:8], int32(len(raw)-12))
	kbin.AppendUint32(raw[:12], crc32.ChecksumIEEE(raw[16:]))
	return raw
}

// Brokers keep the messages of before Kafka 0.11 as they were written, and those before 4.0 serve them. A compressed
// message wraps others: with their offsets in 0.8 and 0.9, with offsets of its own in 0.10.
func TestDecode_OldWrappers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		magic                int8
		inner                []int64
		attributes           int8
		first, last, started int64
	}{
		{0, []int64{3, 4, 5}, 0, noTimestamp, noTimestamp, 0},
		{0, []int64{3, 5}, 0, noTimestamp, noTimestamp, 0}, // compacted
		{1, []int64{0, 1, 2}, 0, 1000, 1002, 0},
		{1, []int64{0, 2}, 0, 1000, 1002, 0},
		{1, []int64{0, 1, 2}, attributeAppendTime, 9999, 9999, 0},
		{1, []int64{0, 1, 2}, 0, 1001, 1002, 4},
	} {
		for name, compress := range codecs(t) {
			if name == "zstd" { // is younger
				continue
			}
			var inner []byte
			for _, offset := range test.inner {
				inner = append(inner, oldMessage(test.magic, offset, 1000+offset, 0, fmt.Appendf(nil, "value %d", offset))...)
			}
			compressed, codec := compress(inner)
			raw := oldMessage(test.magic, 5, 9999, int8(codec)|test.attributes, compressed)
			batch, err := limitedDecoder(t).decode(raw, here, test.started, 100, aborts{})
			if err != nil || len(batch.Records) == 0 || batch.Next != 6 || batch.LeaderEpoch != -1 {
				t.Fatalf("magic %d, %s: %+v, %v", test.magic, name, batch, err)
			}
			first, last := batch.Records[0], batch.Records[len(batch.Records)-1]
			if first.Offset != max(3, test.started) || last.Offset != 5 || first.Timestamp != test.first || last.Timestamp != test.last {
				t.Errorf("magic %d of %v, %s: from %+v to %+v", test.magic, test.inner, name, first, last)
			}
		}
	}
}

func TestDecode_BrokenOldWrappersAreFatal(t *testing.T) {
	t.Parallel()
	gzip := codecs(t)["gzip"]
	wrapped := func(magic int8, inner []byte) []byte {
		compressed, codec := gzip(inner)
		return oldMessage(magic, 5, 1, int8(codec), compressed)
	}
	for _, magic := range []int8{0, 1} {
		good := append(oldMessage(magic, 4, 1, 0, []byte("a")), oldMessage(magic, 5, 1, 0, []byte("b"))...)
		bad := bytes.Clone(good)
		bad[len(bad)-1]++ // its own checksum tells
		many := bytes.Repeat(oldMessage(magic, 5, 1, 0, nil), 20_000)
		for name, test := range map[string]struct {
			raw   []byte
			class string
		}{
			"cut":       {wrapped(magic, good[:len(good)-3]), classCorrupt},
			"empty":     {wrapped(magic, nil), classCorrupt},
			"checksum":  {wrapped(magic, bad), classCorrupt},
			"no codec":  {oldMessage(magic, 5, 1, 1, good), classCorrupt},
			"bomb":      {wrapped(magic, make([]byte, 8*mebibyte)), classTooLarge},
			"many":      {wrapped(magic, many), classTooLarge},
			"checksum2": {func() []byte { raw := wrapped(magic, good); raw[len(raw)-1]++; return raw }(), classCorrupt},
		} {
			batch, err := limitedDecoder(t).decode(test.raw, here, 0, 100, aborts{})
			if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != test.class {
				t.Errorf("magic %d, %s: %+v, %v", magic, name, batch, err)
			}
		}
	}
}
