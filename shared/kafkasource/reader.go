package kafkasource

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

const (
	// decodersAtOnce bounds how many batches are held decoded before they are handed over, however many leaders there
	// are: one that is waited for and one behind it.
	decodersAtOnce = 2
	// firstBackoff and lastBackoff bound the wait before asking anew who leads a partition; it doubles in between.
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// Reader reads a window. One goroutine fetches from each leader, with one request under way; one more finds leaders for
// the partitions that have none.
type Reader struct {
	source *Source
	ctx    context.Context //nolint:containedctx // a reader lives as long as the call of Open says
	cancel context.CancelFunc

	out   chan record.Batch
	slots chan struct{} // decodersAtOnce
	moved chan struct{} // says that there is somebody homeless
	done  chan struct{} // closed at the end, when err is final
	wg    sync.WaitGroup

	parts []*part // all of them

	mu       sync.Mutex
	homeless []*part
	queues   map[int32][]*part // by leader; an entry says that its goroutine runs
	left     int               // not read to their end
	stuck    int               // of these, given up
	why      error             // of the first of them
	err      error
}

// part is the reading of one range. It belongs to one goroutine at a time.
type part struct {
	record.Range
	topicID string   // as planned; "" until it is known
	id      [16]byte // the same, as it stands in requests; zero for a broker that tells none
	home
	next   int64 // position: everything below is handed over or nothing
	handed int64 // Next of the last batch handed over
	// maxBytes grows where a batch does not fit into the share of a partition.
	maxBytes int32
	tries    int       // failures since the last progress
	idle     time.Time // when a broker first had nothing for us since then, although it should have; zero if never
	last     error     // why there is no progress
}

// Open starts to read the ranges, of topics with these ids where they are known. The reader works until ctx ends or it is
// closed, and must be closed.
func (s *Source) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) *Reader {
	s.connects.forgive()
	ctx, cancel := context.WithCancel(ctx)
	r := &Reader{
		source: s, ctx: ctx, cancel: cancel,
		out:    make(chan record.Batch),
		slots:  make(chan struct{}, decodersAtOnce),
		moved:  make(chan struct{}, 1),
		done:   make(chan struct{}),
		queues: map[int32][]*part{},
	}
	for _, rng := range ranges {
		if rng.From < rng.To {
			r.homeless = append(r.homeless, &part{
				Range: rng, topicID: topicIDs[rng.Partition.Topic], home: home{leader: -1, epoch: -1},
				next: rng.From, handed: rng.From, maxBytes: min(mebibyte, s.opts.FetchBytes),
			})
		}
	}
	r.parts = slices.Clone(r.homeless)
	r.left = len(r.homeless)
	go r.run(s.lastView()) //nolint:contextcheck // it uses the one that the reader keeps
	return r
}

// Next returns the next batch of any partition, io.EOF once every range has reached its end.
func (r *Reader) Next(ctx context.Context) (record.Batch, error) {
	select {
	case batch := <-r.out:
		return batch, nil
	case <-r.done:
		return record.Batch{}, r.err
	case <-ctx.Done():
		return record.Batch{}, fault.Transientf("waiting for records: %w", context.Cause(ctx))
	}
}

// Close stops the reading and waits for it.
func (r *Reader) Close() {
	r.cancel()
	<-r.done
}

// run finds leaders until everything is read or something failed.
func (r *Reader) run(known view) {
	defer close(r.done)
	defer r.cancel()
	if r.left > 0 {
		// The leaders that Bounds, of whatever call, saw last are good enough to begin with.
		r.begin(known)
	}
	for r.unfinished() {
		select {
		case <-r.moved:
			r.resettle()
		case <-r.ctx.Done():
		}
	}
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
	case r.left == 0:
		r.err = io.EOF
	default:
		r.err = r.stopped()
	}
}

func (r *Reader) unfinished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left > 0 && r.err == nil && r.ctx.Err() == nil
}

// stopped is the error of a reading that was ended from outside, with what kept a partition from being read.
func (r *Reader) stopped() error {
	where, cause := r.source.opts.where(), context.Cause(r.ctx)
	for _, p := range r.parts {
		if p.next < p.To && p.last != nil {
			return fault.Transientf("%s: reading stopped: %w: %s stayed at %d: %w", where, cause, p.Range, p.next, p.last)
		}
	}
	return fault.Transientf("%s: reading stopped: %w: %d ranges were not read to their end", where, cause, r.left)
}

// fail ends the reading with an error. The first one counts.
func (r *Reader) fail(err error) {
	r.mu.Lock()
	if r.err == nil && r.ctx.Err() == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.cancel()
}

// move gives partitions up: they need a leader, perhaps the same one again.
func (r *Reader) move(why error, parts ...*part) {
	if len(parts) == 0 {
		return
	}
	for _, p := range parts {
		p.tries++
		p.last = why
	}
	r.mu.Lock()
	r.homeless = append(r.homeless, parts...)
	r.mu.Unlock()
	r.knock()
}

func (r *Reader) knock() {
	select {
	case r.moved <- struct{}{}:
	default: // it is known already
	}
}

// finish says that a range is read to its end.
func (r *Reader) finish() {
	r.mu.Lock()
	r.left--
	read, stuck, why := r.left == 0, r.stuck == r.left, r.why
	r.mu.Unlock()
	switch {
	case read:
		r.cancel()
	case stuck:
		r.fail(why)
	}
}

// giveUp leaves a partition that brings nothing alone, so that the others are read to their end. The last one ends the
// reading, with its reason.
func (r *Reader) giveUp(why error) {
	r.mu.Lock()
	r.stuck++
	r.why = cmp.Or(r.why, why)
	last, first := r.stuck == r.left, r.why
	r.mu.Unlock()
	if last {
		r.fail(first)
	}
}

// resettle asks anew who leads, after a wait that grows while there is no progress.
func (r *Reader) resettle() {
	r.mu.Lock()
	tries, topics := 0, map[string]bool{}
	for _, p := range r.homeless {
		tries = max(tries, p.tries)
		topics[p.Partition.Topic] = true
	}
	r.mu.Unlock()
	if len(topics) == 0 { // somebody knocked twice
		return
	}
	if tries > 0 && !pause(r.ctx, min(firstBackoff<<min(tries-1, 10), lastBackoff)) {
		return
	}
	asking, cancel := context.WithTimeout(r.ctx, askTimeout)
	defer cancel()
	latest, err := r.source.metadata(asking, slices.Sorted(maps.Keys(topics)))
	if err == nil {
		r.settle(latest)
		return
	}
	if err = r.source.explain(r.ctx, "looking for the leaders of partitions", err); fault.KindOf(err) == fault.Fatal {
		r.fail(err)
		return
	}
	r.mu.Lock()
	for _, p := range r.homeless {
		p.tries++
		p.last = err
	}
	r.mu.Unlock()
	r.knock()
}

// begin settles with a view that may be of another call, and older or newer than the plan. Where it does not fit, that
// proves nothing: Kafka is asked.
func (r *Reader) begin(known view) {
	if slices.ContainsFunc(r.homeless, func(p *part) bool { return p.elsewhere(known.topics[p.Partition.Topic]) }) {
		r.knock()
		return
	}
	r.settle(known)
}

// settle hands the homeless partitions to the goroutines of their leaders.
func (r *Reader) settle(latest view) {
	r.mu.Lock()
	waiting := r.homeless
	r.homeless = nil
	r.mu.Unlock()
	var nowhere []*part
	for _, p := range waiting {
		topic := latest.topics[p.Partition.Topic]
		if err := r.sameTopic(p, topic); err != nil {
			r.fail(err)
			return
		}
		at, ok := topic.partitions[p.Partition.ID]
		if !ok || at.leader < 0 {
			nowhere = append(nowhere, p)
			continue
		}
		p.topicID, p.id, p.home = cmp.Or(p.topicID, topic.idText()), topic.id, at
		r.enqueue(p)
	}
	r.move(errNoLeader, nowhere...)
}

var errNoLeader = errors.New("the topic is unknown or the partition has no leader: look at the brokers and at the topic (kafka-topics --describe)")

// sameTopic makes sure that offsets of one incarnation are never used on another.
func (r *Reader) sameTopic(p *part, topic topicView) error {
	if topic.err != nil {
		if fatal := r.source.refused("reading topic "+p.Partition.Topic, topic.err); fatal != nil {
			return fatal
		}
	}
	if !p.elsewhere(topic) {
		return nil
	}
	return fault.Fatalf(classRecreated, "topic %s was recreated after the run was planned: its id was %s and is %s: offset %d belongs to the old one. See docs/playbooks/DataLoss.md, or set onDataLoss: resume",
		p.Partition.Topic, p.topicID, topic.idText(), p.next)
}

// elsewhere tells whether the topic is another one than the planned. It needs both ids.
func (p *part) elsewhere(topic topicView) bool {
	now := topic.idText()
	return p.topicID != "" && now != "" && p.topicID != now
}

// enqueue gives the partition to its leader's goroutine, which is started if need be.
func (r *Reader) enqueue(p *part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queue, runs := r.queues[p.leader]
	r.queues[p.leader] = append(queue, p)
	if !runs {
		leader := p.leader
		r.wg.Go(func() { r.readFrom(leader) })
	}
}

// take returns all partitions of a leader, nil where there are none and its goroutine must end. share is what it may
// fetch.
func (r *Reader) take(leader int32) (parts []*part, share int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	parts = r.queues[leader]
	if len(parts) == 0 || r.ctx.Err() != nil {
		delete(r.queues, leader)
		return nil, 0
	}
	r.queues[leader] = nil
	return parts, max(r.source.opts.FetchBytes/int32(len(r.queues)), 64<<10)
}
