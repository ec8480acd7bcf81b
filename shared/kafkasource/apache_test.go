package kafkasource_test

import (
	"testing"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/pulltest"
)

func TestMain(m *testing.M) { realtest.Main(m) }

func TestConformance_SourceOnApacheKafka(t *testing.T) {
	t.Parallel()
	pulltest.TestSource(t, sourceHarness([]string{realtest.Kafka(t)}, kafkaTraits{compacted: map[string]string{
		"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0",
	}}))
}
