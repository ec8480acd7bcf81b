package window

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// Input is all that a plan is made of.
type Input struct {
	// Now is the store's clock.
	Now time.Time
	// Checkpoint gives Topics, Offsets and Missing; they are empty on a first run.
	Checkpoint record.Checkpoint
	Log        record.Log
	// Topics are the configured ones. Positions of other topics are kept as they are.
	Topics []string
	// Owns says which partitions are this lane's; nil means all.
	Owns     func(record.Partition) bool
	Starting record.StartingOffsets
	// Resume is onDataLoss: resume.
	Resume bool
	// MaxRecords limits the offsets of all ranges together; 0 is no limit.
	MaxRecords int64
	// MinPerPartition is what the limit leaves to a small partition; 0 is 1.
	MinPerPartition int64
}

// Plan is what a run is to read, and the checkpoint it begins with.
type Plan struct {
	// Ranges are sorted by partition, and none is empty.
	Ranges []record.Range
	Gaps   []record.Gap
	Resets []Reset
	// Topics, Offsets and Missing are whole: they take the place of the stored ones before anything is read. Offsets
	// are behind the gaps and hold the bounds that were seen. MovedAt is left to those who read: a gap is no progress,
	// and a partition that lost records must not wait longer for that under a record limit.
	Topics  map[string]record.Topic
	Offsets map[record.Partition]record.Position
	Missing map[record.Partition]record.Missing
	// Undecided is the high watermark minus the last stable offset, where that is above 0.
	Undecided map[record.Partition]int64
	// Available counts the offsets that could be read without a limit.
	Available int64
	// FirstRun are the topics that startingOffsets started.
	FirstRun []string
	// Limited says that the record limit cut the window.
	Limited bool
	// Changed says that the checkpoint has to be written even if nothing is read: a position, a topic or a missing
	// partition is not as stored. Other bounds of a log are no change.
	Changed bool
	// Notices are lines for the operator that are no errors.
	Notices []string
}

// Reset is a topic that was recreated and goes on with its next incarnation.
type Reset struct {
	Topic       string
	From, To    string // topic ids
	Incarnation int64  // the new one
}

// Idle says that there is nothing to read and nothing to store.
func (p Plan) Idle() bool {
	return len(p.Ranges) == 0 && len(p.Gaps) == 0 && len(p.Resets) == 0 && !p.Changed
}

// Make plans a window. Its errors are Fatal and wrap a *LossError, or are Transient where an answer that is needed is
// missing. With an error the plan is empty: the checkpoint stays as it is.
func Make(in Input) (Plan, error) {
	p := newPlanner(in)
	for _, topic := range p.topics {
		if err := p.planTopic(topic); err != nil {
			return Plan{}, err
		}
	}
	p.cut()
	p.plan.Changed = p.changed()
	return p.plan, nil
}

// Stale returns the topics whose id in the log is another than in the checkpoint, sorted. Their positions say nothing
// of the new log, and a Source that was asked with them may have spared the log start: the caller asks for the bounds
// again without them before it calls Make.
func Stale(checkpoint record.Checkpoint, log record.Log) []string {
	var stale []string
	for topic, stored := range checkpoint.Topics {
		if recreated(stored, log.Topics[topic]) {
			stale = append(stale, topic)
		}
	}
	slices.Sort(stale)
	return stale
}

// recreated needs both ids: an imported checkpoint has none, and neither has a broker before Kafka 2.8.
func recreated(stored record.Topic, log record.TopicLog) bool {
	return stored.ID != "" && log.ID != "" && stored.ID != log.ID
}

// planner holds a plan while it is made.
type planner struct {
	in     Input
	topics []string // sorted, each once
	known  map[string]bool
	plan   Plan
	// spans are the ranges before the limit, sorted by partition.
	spans []span
}

func newPlanner(in Input) *planner {
	p := &planner{
		in:     in,
		topics: slices.Compact(slices.Sorted(slices.Values(in.Topics))),
		known:  map[string]bool{},
		plan: Plan{
			Topics:    map[string]record.Topic{},
			Offsets:   map[record.Partition]record.Position{},
			Missing:   map[record.Partition]record.Missing{},
			Undecided: map[record.Partition]int64{},
		},
	}
	maps.Copy(p.plan.Topics, in.Checkpoint.Topics)
	maps.Copy(p.plan.Offsets, in.Checkpoint.Offsets)
	for topic := range in.Checkpoint.Topics {
		p.known[topic] = true
	}
	for part := range in.Checkpoint.Offsets { // an imported checkpoint may have offsets only
		p.known[part.Topic] = true
	}
	return p
}

// planTopic decides which of the four stories a topic is in: unknown, new, recreated, or going on.
func (p *planner) planTopic(topic string) error {
	log, answered := p.in.Log.Topics[topic]
	stored := p.in.Checkpoint.Topics[topic]
	switch {
	case !answered && !p.known[topic]:
		return loss(LossError{Class: ClassUnknownTopic, Partition: wholeTopic(topic)})
	case !answered:
		return p.skipMissing(topic, nil)
	case !p.known[topic]:
		return p.start(topic, log)
	case recreated(stored, log):
		return p.restart(topic, stored, log)
	default:
		return p.goOn(topic, stored, log)
	}
}

// owned returns the lane's partitions that the log answered for, sorted.
func (p *planner) owned(topic string, log record.TopicLog) []record.Partition {
	parts := make([]record.Partition, 0, len(log.Partitions))
	for id := range log.Partitions {
		if part := (record.Partition{Topic: topic, ID: id}); p.owns(part) {
			parts = append(parts, part)
		}
	}
	slices.SortFunc(parts, record.Partition.Compare)
	return parts
}

func (p *planner) owns(part record.Partition) bool { return p.in.Owns == nil || p.in.Owns(part) }

// place makes pos the position of a partition and what is behind it readable.
func (p *planner) place(part record.Partition, pos record.Position, b record.Bounds) {
	if b.Start != record.Unknown {
		pos.LogStart = b.Start
	}
	pos.LogEnd = b.End
	pos.SeenAt = p.in.Now
	p.plan.Offsets[part] = pos
	if b.HighWatermark > b.End {
		p.plan.Undecided[part] = b.HighWatermark - b.End
	}
	if b.End > pos.Offset {
		p.spans = append(p.spans, span{
			Range:   record.Range{Partition: part, From: pos.Offset, To: b.End},
			movedAt: pos.MovedAt,
		})
	}
}

// gap records [from, to) as lost to retention.
func (p *planner) gap(part record.Partition, from, to int64) {
	p.plan.Gaps = append(p.plan.Gaps, record.Gap{
		Range:       record.Range{Partition: part, From: from, To: to},
		Incarnation: p.plan.Topics[part.Topic].Incarnation,
		Reason:      ReasonRetention,
		SeenAt:      p.in.Now,
	})
}

// cut shares the record limit out and keeps the ranges that got some of it.
func (p *planner) cut() {
	takes := split(p.spans, p.in.MaxRecords, p.in.MinPerPartition)
	for i, s := range p.spans {
		p.plan.Available = addCapped(p.plan.Available, s.size())
		if takes[i] < s.size() {
			p.plan.Limited = true
		}
		if takes[i] > 0 {
			s.To = s.From + takes[i]
			p.plan.Ranges = append(p.plan.Ranges, s.Range)
		}
	}
}

// addCapped adds two numbers that are not negative; a sum above 64 bits is as good as the highest number.
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (p *planner) changed() bool {
	stored := p.in.Checkpoint
	sameOffset := func(a, b record.Position) bool { return a.Offset == b.Offset }
	sameMissing := func(a, b record.Missing) bool { return a.Runs == b.Runs && a.Since.Equal(b.Since) }
	return len(p.plan.Gaps) > 0 || len(p.plan.Resets) > 0 ||
		!maps.Equal(p.plan.Topics, stored.Topics) ||
		!maps.EqualFunc(p.plan.Offsets, stored.Offsets, sameOffset) ||
		!maps.EqualFunc(p.plan.Missing, stored.Missing, sameMissing)
}
