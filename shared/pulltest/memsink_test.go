package pulltest_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/pulltest"
)

func TestConformance_SinkInMemory(t *testing.T) {
	t.Parallel()
	pulltest.TestSink(t, openMemSink)
}

func TestConformance_SinkInMemory_EndsEveryHistoryAsTheFoldDoes(t *testing.T) {
	t.Parallel()
	pulltest.TestSinkHistories(t, openMemSink, 6, true)
}

func openMemSink(_ *testing.T, setup pulltest.SinkSetup) pulltest.SinkHarness {
	s := pulltest.NewMemSink(pulltest.MemSinkOptions{
		Mode: setup.Mode, Deletes: setup.Deletes,
		UniqueField: pulltest.SinkUniqueField,
		Poison: func(doc bson.Raw) string {
			v := doc.Lookup(pulltest.SinkIntField)
			if v.IsZero() || slices.Contains([]bson.Type{bson.TypeInt32, bson.TypeInt64}, v.Type) {
				return ""
			}
			return "validation"
		},
	})
	return pulltest.SinkHarness{
		Sink:      s,
		Documents: func(*testing.T) []bson.Raw { return s.Documents() },
		Letters:   func(*testing.T) []pulltest.Buried { return s.Letters() },
		Store:     func(_ *testing.T, doc bson.Raw) { s.Store(doc) },
	}
}
