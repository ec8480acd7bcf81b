package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Bounds tells which partitions the lane owns and between which offsets they can be read, in one Metadata request and
// at most two ListOffsets requests to each broker, or three where a timestamp is looked up. What has no answer after a
// few tries is left out.
func (s *Source) Bounds(ctx context.Context, query record.BoundsQuery) (record.Log, error) {
	if query.Lanes < 1 {
		return record.Log{}, fault.Fatalf(classConfig, "asking for the bounds of lane %d of %d: there must be at least one lane", query.Lane, query.Lanes)
	}
	s.connects.forgive()
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	v := &survey{source: s, query: query}
	for try := 0; ; try++ {
		again, err := v.run(asking)
		if err != nil && (fault.KindOf(err) == fault.Fatal || v.answered == 0) {
			return record.Log{}, s.explain(ctx, "asking for the bounds of the partitions", err)
		}
		if !again || try == surveyTries || !pause(asking, surveyPause<<try) {
			break
		}
	}
	if v.answered == 0 && v.lastErr != nil {
		return record.Log{}, s.explain(ctx, "asking for the bounds of the partitions", v.lastErr)
	}
	if v.unsettled != nil {
		return record.Log{}, v.unsettled
	}
	return v.log(), nil
}

// What got no answer is asked for surveyTries times more, after surveyPause and twice as long each time, 1.75 s in all:
// an election, or a metadata that lags, takes a second or two.
const (
	surveyTries = 3
	surveyPause = 250 * time.Millisecond
)

// survey collects the answers of one call of Bounds over its tries.
type survey struct {
	source *Source
	query  record.BoundsQuery

	view     view
	names    []string // of the topics that are read
	tries    int
	bounds   map[record.Partition]record.Bounds
	answered int
	lastErr  error // of a request that got no answer at all
	// unsettled is an answer in place of a topic's partitions that says neither that it is there nor that it is not.
	unsettled error
}

// run asks for everything that has no answer yet, and tells whether asking again may bring more.
func (v *survey) run(ctx context.Context) (again bool, err error) {
	if v.bounds == nil {
		v.bounds = map[record.Partition]record.Bounds{}
	}
	v.tries++
	latest, err := v.source.metadata(ctx, v.source.opts.topics())
	if err != nil {
		return false, err
	}
	v.source.keep(latest)
	v.names = v.subscribed(latest)
	for p := range v.bounds {
		if latest.topics[p.Topic].id != v.view.topics[p.Topic].id { // recreated between two tries
			delete(v.bounds, p)
		}
	}
	v.view = latest
	asks, again, err := v.asks()
	if err != nil {
		return false, err
	}
	found, err := v.ask(ctx, asks)
	if err != nil {
		return false, err
	}
	maps.Copy(v.bounds, found)
	v.answered = len(v.bounds)
	return again || len(found) < len(asks), nil
}

// subscribed returns the topics that are read, in order. Of a pattern they are those that metadata has, and those that
// the query knows and that metadata may have forgotten for a moment.
func (v *survey) subscribed(latest view) []string {
	o := v.source.opts
	if o.Pattern == nil {
		return o.topics()
	}
	var names []string
	for name, topic := range latest.topics {
		if !topic.internal && o.matches(name) {
			names = append(names, name)
		}
	}
	for p := range v.query.Positions {
		if _, there := latest.topics[p.Topic]; !there && o.matches(p.Topic) {
			names = append(names, p.Topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// asks lists the owned partitions without an answer that have a leader to ask, and whether another try is due for
// those that have none.
func (v *survey) asks() (asks []ask, again bool, err error) {
	v.unsettled = nil
	for _, name := range v.names {
		topic, ok := v.view.topics[name]
		switch {
		case !ok || errors.Is(topic.err, kerr.UnknownTopicOrPartition):
			again = again || v.tries == 1 // metadata of a new topic may lag a moment, but an unknown topic is an answer
			continue
		case errors.Is(topic.err, kerr.TopicAuthorizationFailed):
			return nil, false, v.source.refused("reading the metadata of topic "+name, topic.err)
		case errors.Is(topic.err, kerr.InvalidTopicException):
			return nil, false, fault.Fatalf(classConfig, "%s: topic %q: %w: correct source.subscribe, source.assign or source.subscribePattern", v.source.opts.where(), name, topic.err)
		case topic.err != nil: // a topic that was just created has no leaders yet
			again = true
			v.unsettled = fault.Transientf("%s: topic %s: Kafka does not tell its partitions: %w: look at the topic (kafka-topics --describe)",
				v.source.opts.where(), name, topic.err)
			continue
		}
		if err := v.checkAssigned(name, topic); err != nil {
			return nil, false, err
		}
		for _, id := range slices.Sorted(maps.Keys(topic.partitions)) {
			p, at := record.Partition{Topic: name, ID: id}, topic.partitions[id]
			if _, done := v.bounds[p]; done || !v.owns(p) {
				continue
			}
			if at.leader < 0 {
				again = true
				continue
			}
			asks = append(asks, ask{partition: p, home: at})
		}
	}
	return asks, again, nil
}

func (v *survey) owns(p record.Partition) bool {
	return p.Lane(v.query.Lanes) == v.query.Lane && v.source.assigned(p)
}

func (v *survey) checkAssigned(name string, topic topicView) error {
	for _, id := range v.source.opts.Assign[name] {
		if _, ok := topic.partitions[id]; !ok {
			return fault.Fatalf(classUnknownPartition, "%s: source.assign names partition %d of topic %s, which has %d partitions: correct source.assign",
				v.source.opts.where(), id, name, len(topic.partitions))
		}
	}
	return nil
}

// ask asks for the bounds of the partitions, in two or three rounds because a partition may stand only once in a
// request.
func (v *survey) ask(ctx context.Context, asks []ask) (map[record.Partition]record.Bounds, error) {
	isolation := v.source.isolation()
	ends, err := v.round(ctx, isolation, asks, func(record.Partition) int64 { return timestampLatest })
	if err != nil {
		return nil, err
	}
	// Nothing can be lost to retention where nothing is left to read, so the second request goes to the high watermark.
	settled := func(p record.Partition) bool { position, ok := v.query.Positions[p]; return ok && ends[p] <= position }
	second := slices.DeleteFunc(slices.Clone(asks), func(a ask) bool {
		_, ok := ends[a.partition]
		return !ok || settled(a.partition) && v.source.opts.ReadUncommitted
	})
	edges, err := v.round(ctx, isolationUncommitted, second, func(p record.Partition) int64 {
		if settled(p) {
			return timestampLatest
		}
		return timestampEarliest
	})
	if err != nil {
		return nil, err
	}
	third := slices.DeleteFunc(slices.Clone(asks), func(a ask) bool {
		_, ok := ends[a.partition]
		return !ok || !v.query.TimestampTopics[a.partition.Topic]
	})
	times, err := v.round(ctx, isolation, third, func(record.Partition) int64 { return v.query.Timestamp })
	if err != nil {
		return nil, err
	}
	found := make(map[record.Partition]record.Bounds, len(asks))
	for _, a := range asks {
		if b, ok := v.combine(a, ends, edges, times); ok {
			found[a.partition] = b
		}
	}
	return found, nil
}

// combine makes the bounds of one partition of the answers, and false where one is missing or they do not fit.
func (v *survey) combine(a ask, ends, edges, times offsets) (record.Bounds, bool) {
	p := a.partition
	end, ok := ends[p]
	if !ok || end < 0 {
		return record.Bounds{}, false
	}
	b := record.Bounds{Start: record.Unknown, End: end, HighWatermark: end, AtTimestamp: record.Unknown, LeaderEpoch: a.epoch}
	edge, edged := edges[p]
	position, started := v.query.Positions[p]
	switch {
	case started && end <= position && v.source.opts.ReadUncommitted:
	case !edged || edge < 0:
		return record.Bounds{}, false
	case started && end <= position:
		b.HighWatermark = max(edge, end)
	case edge > end: // retention passed the end that was taken: ask for a new one
		return record.Bounds{}, false
	default:
		b.Start = edge
	}
	if v.query.TimestampTopics[p.Topic] {
		at, ok := times[p]
		if !ok {
			return record.Bounds{}, false
		}
		b.AtTimestamp = at
		if at < 0 || at > end {
			b.AtTimestamp = end
		}
	}
	return b, true
}

// round asks for one offset of each partition. A partition that gets none is missing in the answer.
func (v *survey) round(ctx context.Context, isolation int8, asks []ask, timestamp func(record.Partition) int64) (offsets, error) {
	for i := range asks {
		asks[i].timestamp = timestamp(asks[i].partition)
	}
	found, err := v.source.listOffsets(ctx, isolation, asks)
	if err == nil {
		return found, nil
	}
	if fatal := v.source.refused("asking for offsets", err); fatal != nil {
		return nil, fatal
	}
	v.lastErr = fmt.Errorf("asking for offsets: %w", err)
	return found, nil
}

// log returns what is known, without what is not.
func (v *survey) log() record.Log {
	log := record.Log{ClusterID: v.view.cluster, Topics: map[string]record.TopicLog{}}
	for _, name := range v.names {
		topic, ok := v.view.topics[name]
		if !ok || topic.err != nil {
			continue
		}
		log.Topics[name] = record.TopicLog{ID: topic.idText(), Partitions: map[int32]record.Bounds{}, Count: int32(len(topic.partitions))}
	}
	for p, b := range v.bounds {
		if topic, ok := log.Topics[p.Topic]; ok {
			topic.Partitions[p.ID] = b
		}
	}
	return log
}

// pause waits, and returns false where ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
