package pulltest_test

import (
	"testing"

	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func TestConformance_SourceInMemory(t *testing.T) {
	t.Parallel()
	pulltest.TestSource(t, func(*testing.T) pulltest.SourceHarness {
		mem := pulltest.NewSource()
		mem.MaxRecords = 7
		return pulltest.SourceHarness{
			Open: func(_ *testing.T, c pulltest.SourceConfig) pull.Source {
				mem.Topics, mem.Assign, mem.Pattern, mem.ReadUncommitted = c.Topics, c.Assign, c.Pattern, c.ReadUncommitted
				return mem
			},
			CreateTopic: func(_ *testing.T, topic string, partitions int32) { mem.AddTopic(topic, partitions) },
			Produce: func(_ *testing.T, topic string, partition int32, recs ...record.Record) {
				mem.Produce(topic, partition, recs...)
			},
			Transact: func(_ *testing.T, topic string, partition int32, recs ...record.Record) func(bool) {
				return mem.Transact(topic, partition, recs...)
			},
			DeleteRecords: func(_ *testing.T, topic string, partition int32, before int64) {
				mem.DeleteRecords(topic, partition, before)
			},
			Recreate:        func(_ *testing.T, topic string, partitions int32) { mem.Recreate(topic, partitions) },
			CreateInternal:  func(_ *testing.T, topic string) { mem.AddInternal(topic) },
			CreateCompacted: func(_ *testing.T, topic string) { mem.AddTopic(topic, 1) },
			Compact:         func(_ *testing.T, topic string) { mem.CompactKeys(topic, 0) },
		}
	})
}
