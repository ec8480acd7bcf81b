package pulltest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// MemSource is a pull.Source that holds its topics in memory, as one Kafka cluster read by one pipeline. It is
// deterministic: readers take their partitions in turn and start no goroutine. It blocks on channels only, so that it
// can be used inside a synctest bubble.
type MemSource struct {
	// Topics are what the pipeline reads, nil for all there are; Assign restricts a topic to some partitions. Pattern
	// are the topics whose whole name it matches, without internal ones.
	Topics  []string
	Assign  map[string][]int32
	Pattern *regexp.Regexp
	// ReadUncommitted reads up to the high watermark and yields aborted records too.
	ReadUncommitted bool
	// MaxRecords is the size of a batch. Default 100.
	MaxRecords int

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	topics  map[string]*memTopic
	created int
}

type memTopic struct {
	id         string
	internal   bool
	partitions map[int32]*memPartition
}

type memPartition struct {
	start  int64
	slots  []memSlot // by offset
	limit  int64     // of the last stable offset, record.Unknown for none
	epoch  int32
	hidden bool
}

type memSlot struct {
	record record.Record
	txn    *memTxn
	// none says that there is no record: a control record, or one that was compacted away.
	none bool
}

type memTxn struct{ open, aborted bool }

// NewSource returns a source without topics.
func NewSource() *MemSource {
	return &MemSource{changed: make(chan struct{}), topics: map[string]*memTopic{}}
}

// AddTopic creates a topic, or more partitions of one that is there.
func (s *MemSource) AddTopic(name string, partitions int32) {
	defer s.change()()
	s.topic(name)
	for id := range partitions {
		s.partition(name, id)
	}
}

// AddInternal creates a topic of one partition that Kafka calls internal.
func (s *MemSource) AddInternal(name string) {
	s.AddTopic(name, 1)
	defer s.change()()
	s.topic(name).internal = true
}

// Recreate deletes the topic and creates it anew, under another id.
func (s *MemSource) Recreate(name string, partitions int32) {
	s.RemoveTopic(name)
	s.AddTopic(name, partitions)
}

// RemoveTopic deletes the topic.
func (s *MemSource) RemoveTopic(name string) {
	defer s.change()()
	delete(s.topics, name)
}

// Produce appends records, of which key, value, headers and timestamp are taken, and returns the first one's offset.
// It creates what is not there.
func (s *MemSource) Produce(topic string, partition int32, recs ...record.Record) int64 {
	return s.append(topic, partition, nil, recs)
}

// Transact appends records of an open transaction. end appends its control record.
func (s *MemSource) Transact(topic string, partition int32, recs ...record.Record) (end func(commit bool)) {
	txn := &memTxn{open: true}
	s.append(topic, partition, txn, recs)
	return func(commit bool) {
		defer s.change()()
		txn.open, txn.aborted = false, !commit
		p := s.partition(topic, partition)
		p.slots = append(p.slots, memSlot{none: true})
	}
}

// DeleteRecords moves the log start, as retention does.
func (s *MemSource) DeleteRecords(topic string, partition int32, before int64) {
	defer s.change()()
	p := s.partition(topic, partition)
	p.start = max(p.start, min(before, p.end()))
}

// Compact removes the records at the offsets; the offsets stay.
func (s *MemSource) Compact(topic string, partition int32, offsets ...int64) {
	defer s.change()()
	p := s.partition(topic, partition)
	for _, o := range offsets {
		if o >= 0 && o < p.end() {
			p.slots[o] = memSlot{none: true, txn: p.slots[o].txn}
		}
	}
}

// CompactKeys removes the records that have a newer one of their key, as the log cleaner does.
func (s *MemSource) CompactKeys(topic string, partition int32) {
	defer s.change()()
	p, newest := s.partition(topic, partition), map[string]int{}
	for o, slot := range p.slots {
		newest[string(slot.record.Key)] = o
	}
	for o, slot := range p.slots {
		if newest[string(slot.record.Key)] != o {
			p.slots[o] = memSlot{none: true, txn: slot.txn}
		}
	}
}

// Truncate removes everything from the offset on under the same topic id, as an unclean election does.
func (s *MemSource) Truncate(topic string, partition int32, end int64) {
	defer s.change()()
	p := s.partition(topic, partition)
	p.slots = p.slots[:min(max(end, 0), p.end())]
	p.start = min(p.start, p.end())
	p.epoch++
}

// SetLSO holds the last stable offset at the offset, as a hanging transaction does; record.Unknown lets it go.
func (s *MemSource) SetLSO(topic string, partition int32, offset int64) {
	defer s.change()()
	s.partition(topic, partition).limit = offset
}

// Hide makes the partition answer nothing, as one without a leader, until it is shown again.
func (s *MemSource) Hide(topic string, partition int32, hidden bool) {
	defer s.change()()
	s.partition(topic, partition).hidden = hidden
}

// Bounds implements pull.Source.
func (s *MemSource) Bounds(ctx context.Context, query record.BoundsQuery) (record.Log, error) {
	if err := ctx.Err(); err != nil {
		return record.Log{}, fault.Transientf("asking for bounds: %w", err)
	}
	if query.Lanes < 1 {
		return record.Log{}, fault.Fatalf("kafka-config", "asking for bounds: lane %d of %d", query.Lane, query.Lanes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	log := record.Log{ClusterID: "memory", Topics: map[string]record.TopicLog{}}
	for _, name := range s.subscribed() {
		topic, ok := s.topics[name]
		if !ok {
			continue
		}
		for _, id := range s.Assign[name] {
			if _, ok := topic.partitions[id]; !ok {
				return record.Log{}, fault.Fatalf("unknown-partition", "topic %s has no partition %d", name, id)
			}
		}
		log.Topics[name] = record.TopicLog{ID: topic.id, Partitions: s.bounds(name, topic, query), Count: int32(len(topic.partitions))}
	}
	return log, nil
}

// TopicIDs implements pull.Source.
func (s *MemSource) TopicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.Transientf("asking for topic ids: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]string{}
	for _, name := range topics {
		if topic, ok := s.topics[name]; ok {
			ids[name] = topic.id
		}
	}
	return ids, nil
}

// Open implements pull.Source.
func (s *MemSource) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) pull.Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &memReader{source: s, ctx: ctx, closed: make(chan struct{})}
	for _, rng := range ranges {
		if rng.From < rng.To {
			r.parts = append(r.parts, &memPart{Range: rng, id: topicIDs[rng.Partition.Topic], next: rng.From})
		}
	}
	return r
}

// change locks the source; what it returns unlocks it and wakes the readers.
func (s *MemSource) change() func() {
	s.mu.Lock()
	return func() {
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
}

func (s *MemSource) topic(name string) *memTopic {
	topic, ok := s.topics[name]
	if !ok {
		s.created++
		topic = &memTopic{id: fmt.Sprintf("%022d", s.created), partitions: map[int32]*memPartition{}}
		s.topics[name] = topic
	}
	return topic
}

func (s *MemSource) partition(name string, id int32) *memPartition {
	topic := s.topic(name)
	p, ok := topic.partitions[id]
	if !ok {
		p = &memPartition{limit: record.Unknown}
		topic.partitions[id] = p
	}
	return p
}

func (s *MemSource) append(topic string, partition int32, txn *memTxn, recs []record.Record) int64 {
	defer s.change()()
	p := s.partition(topic, partition)
	first := p.end()
	for _, r := range recs {
		r.Partition, r.Offset = record.Partition{Topic: topic, ID: partition}, p.end()
		p.slots = append(p.slots, memSlot{record: r, txn: txn})
	}
	return first
}

func (s *MemSource) subscribed() []string {
	if s.Topics != nil {
		return s.Topics
	}
	if s.Assign != nil {
		return slices.Sorted(maps.Keys(s.Assign))
	}
	names := slices.Sorted(maps.Keys(s.topics))
	if s.Pattern == nil {
		return names
	}
	whole := regexp.MustCompile(`\A(?:` + s.Pattern.String() + `)\z`)
	return slices.DeleteFunc(names, func(name string) bool {
		return s.topics[name].internal || strings.HasPrefix(name, "__") || !whole.MatchString(name)
	})
}

func (s *MemSource) bounds(name string, topic *memTopic, query record.BoundsQuery) map[int32]record.Bounds {
	found := map[int32]record.Bounds{}
	for id, p := range topic.partitions {
		tp := record.Partition{Topic: name, ID: id}
		if p.hidden || tp.Lane(query.Lanes) != query.Lane || s.Assign[name] != nil && !slices.Contains(s.Assign[name], id) {
			continue
		}
		end := p.stable(s.ReadUncommitted)
		b := record.Bounds{Start: p.start, End: end, HighWatermark: end, AtTimestamp: record.Unknown, LeaderEpoch: p.epoch}
		if position, ok := query.Positions[tp]; ok && end <= position {
			b.Start, b.HighWatermark = record.Unknown, p.end()
		}
		if query.TimestampTopics[name] {
			b.AtTimestamp = end
			for o := p.start; o < end; o++ {
				if slot := p.slots[o]; !slot.none && slot.record.Timestamp >= query.Timestamp {
					b.AtTimestamp = o
					break
				}
			}
		}
		found[id] = b
	}
	return found
}

// end is the high watermark.
func (p *memPartition) end() int64 { return int64(len(p.slots)) }

// stable is where reading ends.
func (p *memPartition) stable(uncommitted bool) int64 {
	if uncommitted {
		return p.end()
	}
	open := slices.IndexFunc(p.slots, func(s memSlot) bool { return s.txn != nil && s.txn.open })
	stable := p.end()
	if open >= 0 {
		stable = int64(open)
	}
	if p.limit >= 0 {
		stable = min(stable, p.limit)
	}
	return stable
}

// memReader reads from a MemSource.
type memReader struct {
	source *MemSource
	ctx    context.Context
	parts  []*memPart
	turn   int
	err    error

	once   sync.Once
	closed chan struct{}
}

type memPart struct {
	record.Range
	id   string // as planned; "" until it is known
	next int64
}

// Next implements pull.Reader.
func (r *memReader) Next(ctx context.Context) (record.Batch, error) {
	for {
		r.source.mu.Lock()
		batch, wait, err := r.step()
		r.source.mu.Unlock()
		if err != nil || wait == nil {
			return batch, err
		}
		select {
		case <-wait:
		case <-r.closed:
		case <-r.ctx.Done():
		case <-ctx.Done():
			return record.Batch{}, fault.Transientf("waiting for records: %w", context.Cause(ctx))
		}
	}
}

// Close implements pull.Reader.
func (r *memReader) Close() { r.once.Do(func() { close(r.closed) }) }

// step returns a batch, or what to wait for. The source is locked.
func (r *memReader) step() (record.Batch, <-chan struct{}, error) {
	if r.err == nil {
		r.err = r.ended()
	}
	for range r.parts {
		if r.err != nil {
			break
		}
		p := r.parts[r.turn%len(r.parts)]
		r.turn++
		batch, err := r.read(p)
		if err != nil {
			r.err = err
			break
		}
		if batch.Next > p.next {
			p.next = batch.Next
			return batch, nil, nil
		}
	}
	if r.err != nil {
		return record.Batch{}, nil, r.err
	}
	return record.Batch{}, r.source.changed, nil
}

// ended returns why nothing more is to come, nil where something is.
func (r *memReader) ended() error {
	if !slices.ContainsFunc(r.parts, func(p *memPart) bool { return p.next < p.To }) {
		return io.EOF
	}
	select {
	case <-r.closed:
		return fault.Transientf("reading: %w", context.Canceled)
	case <-r.ctx.Done():
		return fault.Transientf("reading: %w", context.Cause(r.ctx))
	default:
		return nil
	}
}

// read returns the next batch of the range; its Next is the position where there is nothing yet.
func (r *memReader) read(part *memPart) (record.Batch, error) {
	batch := record.Batch{Partition: part.Partition, Next: part.next}
	topic, ok := r.source.topics[part.Partition.Topic]
	if !ok || part.next == part.To {
		return batch, nil
	}
	if part.id = cmp.Or(part.id, topic.id); topic.id != part.id {
		return batch, fault.Fatalf("topic-recreated", "topic %s was recreated: its id was %s and is %s", part.Partition.Topic, part.id, topic.id)
	}
	p, ok := topic.partitions[part.Partition.ID]
	if !ok || p.hidden {
		return batch, nil
	}
	if part.next < p.start {
		return batch, fault.Fatalf("offset-before-log-start", "%s: position %d is below the log start %d", part.Partition, part.next, p.start)
	}
	if part.next > p.end() {
		return batch, fault.Fatalf("checkpoint-beyond-log-end", "%s: position %d is beyond the log end %d", part.Partition, part.next, p.end())
	}
	batch.LeaderEpoch = p.epoch
	end := min(part.To, p.stable(r.source.ReadUncommitted))
	for batch.Next < end && len(batch.Records) < cmp.Or(r.source.MaxRecords, 100) {
		slot := p.slots[batch.Next]
		batch.Next++
		if slot.none || slot.txn != nil && slot.txn.aborted && !r.source.ReadUncommitted {
			continue
		}
		batch.Records = append(batch.Records, slot.record)
		batch.Bytes += int64(len(slot.record.Key) + len(slot.record.Value))
	}
	return batch, nil
}
