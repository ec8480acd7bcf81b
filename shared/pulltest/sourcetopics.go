package pulltest

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// The tests of TestSource about which topics are read and which ids they have.

// awaitTopics waits until exactly these topics have bounds.
func (k sourceTest) awaitTopics(t *testing.T, src pull.Source, q record.BoundsQuery, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("topics are %v, want %v", got, want)
		}
	}()
	await(t, "the topics", func() bool {
		got = slices.Sorted(maps.Keys(mustBounds(t, src, q).Topics))
		return slices.Equal(got, want)
	})
}

func (k sourceTest) pattern(t *testing.T, expression string) pull.Source {
	t.Helper()
	return k.Open(t, SourceConfig{Pattern: regexp.MustCompile(expression)})
}

func patternMatches(t *testing.T, k sourceTest) {
	for _, name := range []string{k.topic + "-a", k.topic + "-ab", k.topic + "-b", "x-" + k.topic + "-a", k.topic} {
		k.CreateTopic(t, name, 2)
	}
	name := regexp.QuoteMeta(k.topic)
	for expression, want := range map[string][]string{
		name + "-[ab]":                      {k.topic + "-a", k.topic + "-b"},
		name + "-a|" + name + "-ab":         {k.topic + "-a", k.topic + "-ab"}, // each alternative for the whole name
		"(?i)" + name + "-A":                {k.topic + "-a"},
		".*" + name:                         {k.topic},
		name + ".*":                         {k.topic, k.topic + "-a", k.topic + "-ab", k.topic + "-b"},
		"^" + name + "$":                    {k.topic},
		name + "-nothing":                   nil,
		name + "-(a|ab)b?|.-" + name + ".*": {k.topic + "-a", k.topic + "-ab", "x-" + k.topic + "-a"},
	} {
		src := k.pattern(t, expression)
		k.awaitTopics(t, src, record.BoundsQuery{}, want...)
		for topic, log := range mustBounds(t, src, record.BoundsQuery{}).Topics {
			if log.Count != 2 || len(log.Partitions) != 2 || (log.ID == "") != k.WithoutTopicIDs {
				t.Errorf("%s has %+v", topic, log)
			}
		}
	}
}

func patternUnderscored(t *testing.T, k sourceTest) {
	k.CreateTopic(t, "__"+k.topic, 1)
	k.CreateTopic(t, "_"+k.topic, 1)
	k.awaitTopics(t, k.Open(t, SourceConfig{Topics: []string{"__" + k.topic}}), record.BoundsQuery{}, "__"+k.topic)
	positions := map[record.Partition]int64{{Topic: "__" + k.topic}: 0, {Topic: "__" + k.topic + "-gone"}: 0}
	k.awaitTopics(t, k.pattern(t, ".*"+regexp.QuoteMeta(k.topic)+".*"), record.BoundsQuery{Positions: positions}, "_"+k.topic)
}

func patternInternal(t *testing.T, k sourceTest) {
	k.CreateInternal(t, k.topic+"-internal")
	k.CreateTopic(t, k.topic, 1)
	positions := map[record.Partition]int64{{Topic: k.topic + "-internal"}: 0}
	k.awaitTopics(t, k.pattern(t, regexp.QuoteMeta(k.topic)+".*"), record.BoundsQuery{Positions: positions}, k.topic)
}

func patternChanges(t *testing.T, k sourceTest) {
	src := k.pattern(t, regexp.QuoteMeta(k.topic)+".*")
	positions := map[record.Partition]int64{{Topic: k.topic + "-gone"}: 5, {Topic: "another-" + k.topic}: 5, {Topic: k.topic}: 0}
	k.awaitTopics(t, src, record.BoundsQuery{Positions: positions})
	k.CreateTopic(t, k.topic, 1)
	k.awaitTopics(t, src, record.BoundsQuery{Positions: positions}, k.topic)
	k.CreateTopic(t, k.topic+"-more", 1)
	k.awaitTopics(t, src, record.BoundsQuery{Positions: positions}, k.topic, k.topic+"-more")
}

func patternReads(t *testing.T, k sourceTest) {
	src := k.pattern(t, regexp.QuoteMeta(k.topic)+"-.")
	topics := []string{k.topic + "-a", k.topic + "-b"}
	want := map[record.Partition][]record.Record{}
	var ranges []record.Range
	for n, topic := range topics {
		k.CreateTopic(t, topic, 1)
		p, recs := record.Partition{Topic: topic}, numbered(20+n)
		k.Produce(t, topic, 0, recs...)
		want[p] = placed(p, 0, recs...)
		ranges = append(ranges, record.Range{Partition: p, To: int64(len(recs))})
	}
	planned := map[string]string{}
	await(t, "the records", func() bool {
		log := mustBounds(t, src, record.BoundsQuery{})
		for _, topic := range topics {
			planned[topic] = log.Topics[topic].ID
		}
		return log.Topics[topics[0]].Partitions[0].End == 20 && log.Topics[topics[1]].Partitions[0].End == 21
	})
	got, err := readAs(t, src, planned, ranges...)
	if err != nil {
		t.Fatal(err)
	}
	for p := range want {
		wantRecords(t, want[p], got[p])
	}
}

func mustTopicIDs(t *testing.T, src pull.Source, topics ...string) map[string]string {
	t.Helper()
	ids, err := src.TopicIDs(t.Context(), topics)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func topicIDsAsBounds(t *testing.T, k sourceTest) {
	topics := []string{k.topic + "-a", k.topic + "-b"}
	want := map[string]string{}
	for _, topic := range topics {
		k.CreateTopic(t, topic, 2)
	}
	src := k.Open(t, SourceConfig{Topics: topics})
	k.awaitTopics(t, src, record.BoundsQuery{}, topics...)
	for topic, log := range mustBounds(t, src, record.BoundsQuery{}).Topics {
		want[topic] = log.ID
	}
	got := mustTopicIDs(t, src, append(topics, k.topic+"-absent")...)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if (got[topics[0]] == "") != k.WithoutTopicIDs || (got[topics[0]] == got[topics[1]]) != k.WithoutTopicIDs {
		t.Errorf("ids are %v", got)
	}
	if none := mustTopicIDs(t, src); len(none) > 0 {
		t.Errorf("nothing was asked for, and the ids are %v", none)
	}
}

func topicIDsRecreated(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	k.awaitTopics(t, src, record.BoundsQuery{}, k.topic)
	before := mustTopicIDs(t, src, k.topic)[k.topic]
	k.Recreate(t, k.topic, 1)
	await(t, "another topic id", func() bool {
		after, known := mustTopicIDs(t, src, k.topic)[k.topic]
		return known && after != before
	})
}

func cancelledTopicIDs(t *testing.T, k sourceTest) {
	k.CreateTopic(t, k.topic, 1)
	src := k.Open(t, SourceConfig{Topics: []string{k.topic}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := src.TopicIDs(ctx, []string{k.topic})
	wantKind(t, err, fault.Transient, "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v does not tell of the cancel", err)
	}
}
