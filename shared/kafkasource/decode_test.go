package kafkasource

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

var here = record.Partition{Topic: "a", ID: 3}

func testDecoder() *decoder {
	return &decoder{committed: true, decompressor: kgo.DefaultDecompressor(), limit: mebibyte}
}

// goodBatch makes a batch of n records from the offset on.
func goodBatch(first int64, n int) []byte {
	batch := kmsg.RecordBatch{
		FirstOffset: first, Magic: 2, PartitionLeaderEpoch: 5, LastOffsetDelta: int32(n - 1),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n),
	}
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte("value")}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		batch.Records = r.AppendTo(batch.Records)
	}
	return seal(batch.AppendTo(nil))
}

// seal writes length and checksum.
func seal(raw []byte) []byte {
	kbin.AppendInt32(raw[:8], int32(len(raw)-12))
	kbin.AppendUint32(raw[:17], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func TestDecode_BrokenBatchesAreFatal(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string][]byte{
		"checksum":         func() []byte { raw := goodBatch(7, 3); raw[len(raw)-1]++; return raw }(),
		"record cut":       seal(goodBatch(7, 3)[:batchHeaderSize+15]),
		"unknown magic":    func() []byte { raw := goodBatch(7, 3); raw[atMagic] = 9; return raw }(),
		"shorter header":   seal(goodBatch(7, 3)[:batchHeaderSize-4]),
		"negative count":   func() []byte { raw := goodBatch(7, 3); kbin.AppendInt32(raw[:atRecordCount], -1); return seal(raw) }(),
		"fewer claimed":    func() []byte { raw := goodBatch(7, 3); kbin.AppendInt32(raw[:atRecordCount], 2); return seal(raw) }(),
		"more claimed":     func() []byte { raw := goodBatch(7, 3); kbin.AppendInt32(raw[:atRecordCount], 4); return seal(raw) }(),
		"beyond its last":  func() []byte { raw := goodBatch(7, 3); kbin.AppendInt32(raw[:atLastDelta], 1); return seal(raw) }(),
		"offset twice":     func() []byte { raw := goodBatch(7, 3); raw[len(raw)-9] = 2; return seal(raw) }(),
		"headers claimed":  func() []byte { raw := goodBatch(7, 3); raw[len(raw)-1] = 8; return seal(raw) }(),
		"count, no record": seal(goodBatch(7, 3)[:batchHeaderSize]),
	} {
		raw, rest, need := nextBatch(broken)
		if raw == nil || len(rest) != 0 || need != 0 {
			t.Fatalf("%s: it is not cut as one batch", name)
		}
		batch, err := testDecoder().decode(raw, here, 7, 100, aborts{})
		if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != classCorrupt {
			t.Errorf("%s: decoding yields %+v, %v", name, batch, err)
		}
	}
}

func TestDecode_CutsToTheWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ position, to, first, n, next int64 }{
		{7, 100, 7, 10, 17}, {9, 100, 9, 8, 17}, {7, 12, 7, 5, 12}, {9, 10, 9, 1, 10}, {7, 17, 7, 10, 17}, {17, 20, 0, 0, 17}, {0, 5, 0, 0, 5},
	} {
		batch, err := testDecoder().decode(goodBatch(7, 10), here, test.position, test.to, aborts{})
		if err != nil || int64(len(batch.Records)) != test.n || batch.Next != test.next || batch.LeaderEpoch != 5 {
			t.Fatalf("[%d, %d): %d records, %+v, %v", test.position, test.to, len(batch.Records), batch, err)
		}
		for i, r := range batch.Records {
			if r.Offset != test.first+int64(i) || r.Partition != here || string(r.Value) != "value" || r.Key != nil {
				t.Errorf("[%d, %d): record %d is %+v", test.position, test.to, i, r)
			}
		}
	}
}

func TestDecode_RecordsOutliveTheNextBatch(t *testing.T) {
	t.Parallel()
	d := testDecoder()
	first, err := d.decode(goodBatch(0, 50), here, 0, 100, aborts{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.decode(goodBatch(50, 50), here, 50, 100, aborts{}); err != nil {
		t.Fatal(err)
	}
	for i, r := range first.Records {
		if r.Offset != int64(i) || string(r.Value) != "value" {
			t.Fatalf("record %d has become %+v", i, r)
		}
	}
}

func TestDecode_AbortedOnlyWhereItIsAsked(t *testing.T) {
	t.Parallel()
	raw := rawBatch(goodBatch(7, 3))
	kbin.AppendInt16(raw[:atAttributes], attributeTransactional)
	kbin.AppendInt64(raw[:atProducer], 5)
	raw = seal(raw)
	for name, test := range map[string]struct {
		committed bool
		aborted   aborts
		want      int
	}{
		"aborted": {true, aborts{5: {3}}, 0}, "aborted from here": {true, aborts{5: {7}}, 0}, "later one": {true, aborts{5: {8}}, 3},
		"another producer": {true, aborts{6: {3}}, 3}, "committed": {true, aborts{}, 3}, "uncommitted": {false, aborts{5: {3}}, 3},
	} {
		d := testDecoder()
		d.committed = test.committed
		batch, err := d.decode(raw, here, 0, 100, test.aborted)
		if err != nil || len(batch.Records) != test.want || batch.Next != 10 {
			t.Errorf("%s: %+v, %v", name, batch, err)
		}
	}
}

// Brokers keep the messages of before Kafka 0.11 as they were written.
func TestDecode_OldMessages(t *testing.T) {
	t.Parallel()
	m := kmsg.MessageV1{Offset: 7, Magic: 1, Timestamp: 1234, Key: []byte("k"), Value: []byte("v")}
	raw := m.AppendTo(nil)
	kbin.AppendInt32(raw[:8], int32(len(raw)-12))
	kbin.AppendUint32(raw[:12], crc32.ChecksumIEEE(raw[16:]))
	batch, err := testDecoder().decode(raw, here, 3, 100, aborts{})
	if err != nil || len(batch.Records) != 1 || batch.Next != 8 || batch.LeaderEpoch != -1 {
		t.Fatalf("%+v, %v", batch, err)
	}
	if r := batch.Records[0]; r.Offset != 7 || r.Timestamp != 1234 || string(r.Key) != "k" || string(r.Value) != "v" {
		t.Errorf("record is %+v", r)
	}
}

func TestNextBatch_TellsPartialOnes(t *testing.T) {
	t.Parallel()
	whole := goodBatch(0, 3)
	for n := 1; n < len(whole); n++ {
		raw, rest, need := nextBatch(whole[:n])
		if raw != nil || rest != nil || need <= int64(n) && n >= lengthOverhead {
			t.Errorf("%d of %d bytes: %d, %d, %d", n, len(whole), len(raw), len(rest), need)
		}
	}
	raw, rest, need := nextBatch(append(whole, 1, 2, 3))
	if len(raw) != len(whole) || len(rest) != 3 || need != 0 {
		t.Errorf("whole: %d, %d, %d", len(raw), len(rest), need)
	}
}

// FuzzDecode gives what a broken broker may send: no panic, no endless loop, no position that goes back.
func FuzzDecode(f *testing.F) {
	f.Add(goodBatch(3, 3), true)
	f.Add(append(goodBatch(0, 1), goodBatch(1, 2)...), true)
	f.Add(goodBatch(0, 9)[:40], false)
	f.Fuzz(func(t *testing.T, in []byte, fix bool) {
		position := int64(0)
		for len(in) > 0 && position < 50 {
			raw, rest, need := nextBatch(in)
			if need > 0 {
				return
			}
			if len(rest) >= len(in) {
				t.Fatal("no progress")
			}
			in = rest
			if fix && raw.modern() {
				raw = seal(raw)
			}
			batch, err := testDecoder().decode(raw, here, position, 50, aborts{})
			if err != nil {
				return
			}
			if batch.Next < position || batch.Next > 50 {
				t.Fatalf("position went from %d to %d", position, batch.Next)
			}
			for _, r := range batch.Records {
				if r.Offset < position || r.Offset >= 50 {
					t.Fatalf("record at %d for [%d, 50)", r.Offset, position)
				}
			}
			position = batch.Next
		}
	})
}

// TestDecode_AsTheClientDoes compares with the client's decoder, which is not ours but for old messages.
func TestDecode_AsTheClientDoes(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		if rnd.IntN(5) == 0 {
			return nil
		}
		return make([]byte, rnd.IntN(200))
	}
	for range 500 {
		n := 1 + rnd.IntN(20)
		batch := kmsg.RecordBatch{
			FirstOffset: 100, Magic: 2, PartitionLeaderEpoch: rnd.Int32N(9), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
			FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_500_000, Attributes: int16(rnd.IntN(2)) * attributeAppendTime,
		}
		offset := int32(-1)
		for range n {
			offset += 1 + rnd.Int32N(2)
			r := kmsg.Record{OffsetDelta: offset, TimestampDelta64: int64(rnd.IntN(300_000)) - 100, Key: text(), Value: text()}
			for range rnd.IntN(3) {
				r.Headers = append(r.Headers, kmsg.Header{Key: fmt.Sprint("h", rnd.IntN(3)), Value: text()})
			}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			batch.Records = r.AppendTo(batch.Records)
		}
		batch.NumRecords, batch.LastOffsetDelta = int32(n), offset+rnd.Int32N(2)
		raw := seal(batch.AppendTo(nil))
		position := 100 + rnd.Int64N(int64(offset)+3)
		to := position + 1 + rnd.Int64N(60)
		want, next := clientDecode(t, raw, position, to)
		got, err := testDecoder().decode(raw, here, position, to, aborts{})
		if err != nil || got.Next != next || got.LeaderEpoch != batch.PartitionLeaderEpoch {
			t.Fatalf("[%d, %d) of %+v: %+v, %v, want next %d", position, to, batch, got, err, next)
		}
		if diff := gocmp.Diff(want, slices.Concat(got.Records), gocmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) })); diff != "" {
			t.Fatalf("[%d, %d) (-client +ours):\n%s", position, to, diff)
		}
	}
}

// clientDecode returns what the client makes of a batch.
func clientDecode(tb testing.TB, raw []byte, position, to int64) (out []record.Record, next int64) {
	tb.Helper()
	one := kmsg.NewFetchResponseTopicPartition()
	one.RecordBatches = raw
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: position}, &one, kgo.DefaultDecompressor(), nil)
	if fetched.Err != nil {
		tb.Fatal(fetched.Err)
	}
	for _, r := range fetched.Records {
		if r.Offset >= to {
			continue
		}
		rec := record.Record{Partition: here, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, record.Header{Key: h.Key, Value: h.Value})
		}
		out = append(out, rec)
	}
	return out, min(next, to)
}

func BenchmarkDecode(b *testing.B) {
	const n = 40 // batches of 380 bytes a record are as large as this where a producer fills 16 KiB
	batch := kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: n - 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: n,
		FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_000,
	}
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte("key"), Value: make([]byte, 370), Headers: []kmsg.Header{{Key: "h", Value: []byte("v")}}}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		batch.Records = r.AppendTo(batch.Records)
	}
	raw, d := rawBatch(seal(batch.AppendTo(nil))), testDecoder()
	perRecord := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got, err := d.decode(raw, here, 0, n, aborts{}); err != nil || len(got.Records) != n {
				b.Fatal(len(got.Records), err)
			}
		}
		perRecord(b)
	})
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got, _ := clientDecode(b, raw, 0, n); len(got) != n {
				b.Fatal(len(got))
			}
		}
		perRecord(b)
	})
}
