package mongosink

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tidemark/tidemark/shared/fault"
)

func TestWriteVerdict_IsPoisonUnlessTheServerIsTheReason(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]verdict{
		121: {fault.Poison, classValidation}, 11000: {fault.Poison, classDuplicateKey}, 53: {fault.Poison, classBadID},
		16755: {fault.Poison, classGeo}, 17262: {fault.Poison, classTextLanguage}, 16766: {fault.Poison, classHashedArray},
		66: {fault.Poison, classBadID}, 52: {fault.Poison, classBadFieldName}, 57: {fault.Poison, classBadFieldName},
		14: {fault.Poison, classRejected}, 16756: {fault.Poison, classGeo}, 10334: {fault.Poison, classTooLarge},
		17419: {fault.Poison, classTooLarge}, 17420: {fault.Poison, classTooLarge}, 262: {fault.Transient, ""},
		2: {fault.Poison, classRejected}, 424242: {fault.Poison, classRejected}, 0: {fault.Poison, classRejected},
		14031: {fault.Transient, ""}, 112: {fault.Transient, ""}, 10107: {fault.Transient, ""}, 189: {fault.Transient, ""},
		50: {fault.Transient, ""}, 24: {fault.Transient, ""}, 11601: {fault.Transient, ""}, 91: {fault.Transient, ""},
		12501: {fault.Transient, ""}, 8000: {fault.Transient, ""}, 371: {fault.Transient, ""},
		13: {fault.Fatal, classAuth}, 166: {fault.Fatal, classNamespace},
	} {
		if got := writeVerdict(code); got != want {
			t.Errorf("code %d is %v, expected %v", code, got, want)
		}
	}
}

func TestCommandVerdict_IsTransientUnlessSomeoneMustAct(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code    int
		message string
		want    verdict
	}{
		{18, "", verdict{fault.Fatal, classAuth}},
		{13, "", verdict{fault.Fatal, classAuth}},
		{73, "", verdict{fault.Fatal, classNamespace}},
		{8000, "bad auth : authentication failed", verdict{fault.Fatal, classAuth}},
		{8000, "you are over your space quota", verdict{fault.Transient, ""}},
		{10334, "", verdict{fault.Poison, ""}},
		{15, "", verdict{fault.Poison, ""}},
		{10107, "", verdict{fault.Transient, ""}},
		{424242, "", verdict{fault.Transient, ""}},
	} {
		if got := commandVerdict(c.code, c.message); got != c.want {
			t.Errorf("code %d %q is %v, expected %v", c.code, c.message, got, c.want)
		}
	}
}

func answer(t *testing.T, stored any) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(bson.D{{Key: "n", Value: stored}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestReadAnswer_OnlyWhatTheServerAcknowledgedCounts(t *testing.T) {
	t.Parallel()
	s := &Sink{options: Options{Database: "shop", Collection: "orders"}, hosts: "a:1"}
	refused := mongo.WriteErrors{{Index: 1, Code: 121, Message: "secret"}}
	for _, c := range []struct {
		name    string
		answer  bson.Raw
		err     error
		refused int // -1: an error
	}{
		{"all three", answer(t, 3), nil, 0},
		{"as int64", answer(t, int64(3)), nil, 0},
		{"one refused", nil, mongo.WriteException{WriteErrors: refused, Raw: answer(t, 2)}, 1},
		{"two of three without a reason", answer(t, 2), nil, -1},
		{"no number", answer(t, "three"), nil, -1},
		{"one refused and none stored", nil, mongo.WriteException{WriteErrors: refused, Raw: answer(t, 0)}, -1},
		{"an index out of range", nil, mongo.WriteException{WriteErrors: mongo.WriteErrors{{Index: 3}}, Raw: answer(t, 2)}, -1},
		{"no majority", nil, mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}, Raw: answer(t, 3)}, -1},
		{"no majority and one refused", nil, mongo.WriteException{WriteErrors: refused, WriteConcernError: &mongo.WriteConcernError{Code: 64}}, -1},
		{"an unknown error", nil, errors.New("secret"), -1},
		{"a code", nil, mongo.CommandError{Code: 424242, Message: "secret"}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := s.readAnswer(t.Context(), "writing", bulk{verb: "insert"}, 10, 13, c.answer, c.err)
			if c.refused < 0 {
				if err == nil || fault.KindOf(err) != fault.Transient || strings.Contains(err.Error(), "secret") {
					t.Fatalf("error = %v, expected a transient one without values", err)
				}
				return
			}
			if err != nil || len(got.refused) != c.refused {
				t.Fatalf("%d refused, error %v, expected %d", len(got.refused), err, c.refused)
			}
			if c.refused == 1 && got.refused[0].index != 11 {
				t.Errorf("index %d, expected 11", got.refused[0].index)
			}
		})
	}
}

func TestReadAnswer_OfUpdatesAndDeletes_AccountsForEachStatement(t *testing.T) {
	t.Parallel()
	s := &Sink{options: Options{Database: "shop", Collection: "orders"}, hosts: "a:1"}
	raw := func(fields ...bson.E) bson.Raw {
		d, err := bson.Marshal(bson.D(fields))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	n := func(v int) bson.E { return bson.E{Key: "n", Value: v} }
	modified := bson.E{Key: "nModified", Value: 1}
	inserted := bson.E{Key: "upserted", Value: bson.A{bson.D{{Key: "index", Value: 2}, {Key: "_id", Value: 1}}}}
	second := mongo.WriteErrors{{Index: 1, Code: 121}}
	for _, c := range []struct {
		name   string
		b      bulk
		answer bson.Raw
		err    error
		want   tally // without refused; done -1: an error
	}{
		{"one changed, one inserted, one refused by its guard", bulk{verb: verbUpdate}, raw(n(3), modified, inserted), nil, tally{done: 3, changed: 2, inserted: 1}},
		{"one without an answer", bulk{verb: verbUpdate}, raw(n(2), modified), nil, tally{done: -1}},
		{"unordered", bulk{verb: verbUpdate}, nil, mongo.WriteException{WriteErrors: second, Raw: raw(n(2), modified)}, tally{done: 2, changed: 1}},
		{"ordered stops", bulk{verb: verbUpdate, ordered: true}, nil, mongo.WriteException{WriteErrors: second, Raw: raw(n(1), modified)}, tally{done: 1, changed: 1}},
		{"ordered that went on", bulk{verb: verbUpdate, ordered: true}, nil, mongo.WriteException{WriteErrors: second, Raw: raw(n(2))}, tally{done: -1}},
		{"nothing to delete", bulk{verb: verbDelete}, raw(n(0)), nil, tally{done: 3}},
		{"more deleted than asked", bulk{verb: verbDelete}, raw(n(4)), nil, tally{done: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := s.readAnswer(t.Context(), "writing", c.b, 0, 3, c.answer, c.err)
			if c.want.done < 0 {
				if fault.KindOf(err) != fault.Transient || err == nil {
					t.Fatalf("error = %v, expected a transient one", err)
				}
				return
			}
			if err != nil || got.done != c.want.done || got.changed != c.want.changed || got.inserted != c.want.inserted {
				t.Errorf("%+v, error %v, expected %+v", got, err, c.want)
			}
		})
	}
}

func TestFailed_AContextThatEnded_IsTheReason(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := (&Sink{}).failed(ctx, "writing", mongo.CommandError{Code: 18})
	if !errors.Is(err, context.Canceled) || fault.KindOf(err) != fault.Transient {
		t.Errorf("error = %v of kind %v, expected a transient context.Canceled", err, fault.KindOf(err))
	}
}

func TestFailed_RefusedRights_NameWhatTheUserNeeds(t *testing.T) {
	t.Parallel()
	s := &Sink{options: Options{Database: "shop"}, hosts: "a:1"}
	err := s.failed(t.Context(), "listing the collections", mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "payload"})
	if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != classAuth {
		t.Errorf("error = %v, expected a fatal one of class %s", err, classAuth)
	}
	for _, word := range []string{"a:1", "readWrite on database shop", "listCollections"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "payload") {
		t.Errorf("%q holds the server's text", err)
	}
}

// A command that is not an insert holds no document that could be to blame.
func TestFailed_OnlyAnInsertIsRefusedForADocument(t *testing.T) {
	t.Parallel()
	s := &Sink{options: Options{Database: "shop"}, hosts: "a:1"}
	refused := mongo.CommandError{Code: 10334}
	var whole *commandRefusedError
	if err := s.failedWrite(t.Context(), "writing", refused); !errors.As(err, &whole) {
		t.Errorf("error = %v, expected a refused command", err)
	}
	if err := s.failed(t.Context(), "listing", refused); errors.As(err, &whole) || fault.KindOf(err) != fault.Transient {
		t.Errorf("error = %v, expected a transient one", err)
	}
}
