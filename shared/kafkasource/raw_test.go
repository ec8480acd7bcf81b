package kafkasource_test

import (
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceRaw produces one batch of records without key and value. The client's own producer keeps timestamps as
// nanoseconds and cannot send later ones than of 2262.
func produceRaw(t *testing.T, cluster *kfake.Cluster, topic string, stamps []int64) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, cluster.TopicInfo(topic).TopicID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = rawBatch(stamps)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), newClient(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func rawBatch(stamps []int64) []byte {
	batch := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, LastOffsetDelta: int32(len(stamps) - 1), FirstTimestamp: stamps[0],
		MaxTimestamp: stamps[0], ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(stamps)),
	}
	for i, ms := range stamps {
		batch.MaxTimestamp = max(batch.MaxTimestamp, ms)
		var body []byte
		body = append(body, 0)
		body = kbin.AppendVarlong(body, ms-stamps[0])
		body = kbin.AppendVarint(body, int32(i))
		body = kbin.AppendVarint(body, -1)
		body = kbin.AppendVarint(body, -1)
		body = kbin.AppendVarint(body, 0)
		batch.Records = append(kbin.AppendVarint(batch.Records, int32(len(body))), body...)
	}
	raw := batch.AppendTo(nil)
	raw = kbin.AppendInt32(raw[:8], int32(len(raw)-12))[:len(raw)]
	sum := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))
	kbin.AppendUint32(raw[:17], sum)
	return raw
}
