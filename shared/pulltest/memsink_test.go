package pulltest_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/shared/pulltest"
)

func TestConformance_SinkInMemory(t *testing.T) {
	t.Parallel()
	pulltest.TestSink(t, func(*testing.T) pulltest.SinkHarness {
		s := pulltest.NewMemSink(pulltest.MemSinkOptions{
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
		}
	})
}
