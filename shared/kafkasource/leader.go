package kafkasource

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// fetcher reads from one leader.
type fetcher struct {
	*Reader
	leader  int32
	decoder decoder
	// solo fetches one partition at a time: the way to find out which one has a batch above the limit.
	solo bool
}

// readFrom reads the partitions of one leader until none is left with it.
func (r *Reader) readFrom(leader int32) {
	f := &fetcher{Reader: r, leader: leader, decoder: decoder{
		committed: !r.source.opts.ReadUncommitted, decompressor: r.source.decompressor, limit: int64(r.source.opts.MaxBatchBytes),
	}}
	for {
		parts, share := r.take(leader)
		if parts == nil {
			return
		}
		f.round(parts, share)
	}
}

// round fetches once and hands over what came. Partitions that go on are queued again, those that got data at the end,
// because a broker fills its answer from the front.
func (f *fetcher) round(parts []*part, share int32) {
	asked := parts
	if f.solo {
		asked = parts[:1]
	}
	begun := time.Now()
	resp, err := f.fetch(asked, share)
	if err != nil {
		f.failed(parts, err)
		return
	}
	answers, empty := index(resp)
	var front, back []*part
	quiet := true
	for _, p := range parts {
		answer, ok := answers[partitionKey{p.Partition.Topic, p.Partition.ID}]
		if !ok {
			answer, ok = answers[partitionKey{string(p.id[:]), p.Partition.ID}]
		}
		if !ok { // the answer was full before it came to this one, it was not asked, or the client is throttled
			p.last = cmp.Or(f.throttled(resp), p.last)
			front = append(front, p)
			continue
		}
		before, size := p.next, p.maxBytes
		done, err := f.consume(p, answer, empty)
		quiet = quiet && err == nil && p.next == before && p.maxBytes == size
		switch {
		case err != nil:
			if !f.partFailed(p, err) {
				return
			}
		case done:
			f.finish()
		case p.next > before || f.solo:
			back = append(back, p)
		default:
			front = append(front, p)
		}
	}
	if quiet {
		pause(f.ctx, max(f.source.opts.FetchWait, quietPause)-time.Since(begun))
	}
	f.mu.Lock()
	f.queues[f.leader] = append(f.queues[f.leader], append(front, back...)...)
	f.mu.Unlock()
}

// failed judges a request that got no answer.
func (f *fetcher) failed(parts []*part, err error) {
	doing := fmt.Sprintf("fetching from broker %d", f.leader)
	switch {
	case f.ctx.Err() != nil:
	case isTooLarge(err) && len(parts) > 1 && !f.solo:
		f.solo = true
		f.mu.Lock()
		f.queues[f.leader] = append(f.queues[f.leader], parts...)
		f.mu.Unlock()
	case isTooLarge(err):
		f.fail(fault.Fatalf(classTooLarge, "%s: the batch at offset %d is above the limit of %d bytes: %w: raise run.limits.memory",
			parts[0].Partition, parts[0].next, f.decoder.limit, err))
	default:
		err = f.source.explain(f.ctx, doing, err)
		if fault.KindOf(err) == fault.Fatal {
			f.fail(err)
			return
		}
		f.move(err, parts...)
	}
}

// partFailed judges an error of one partition, and returns false where the reading ends.
func (f *fetcher) partFailed(p *part, err error) bool {
	if f.ctx.Err() != nil {
		return false
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		err = f.outOfRange(p)
	}
	if _, ok := errors.AsType[stuckError](err); ok {
		p.last = err
		f.giveUp(err)
		return true
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		f.fail(err)
		return false
	}
	if fatal := f.source.refused(fmt.Sprintf("reading %s at %d", p.Partition, p.next), err); fatal != nil {
		f.fail(fatal)
		return false
	}
	// Elections, a topic id that the broker does not know yet, a disk error, and what the broker cannot name either:
	// the next leader may do better.
	f.move(err, p)
	return true
}

// errTryAgain is an answer that the next one contradicts.
var errTryAgain = errors.New("the broker refused an offset that lies within the bounds that it gave")

// outOfRange finds out on which side the position is out of the log. Brokers do not say it in the refusal. The reader
// never jumps.
func (f *fetcher) outOfRange(p *part) error {
	question := []ask{{partition: p.Partition, home: p.home, timestamp: timestampEarliest}}
	starts, err := f.source.listOffsets(f.ctx, isolationUncommitted, question)
	if err != nil {
		return err
	}
	question[0].timestamp = timestampLatest
	ends, err := f.source.listOffsets(f.ctx, isolationUncommitted, question)
	if err != nil {
		return err
	}
	start, known := starts[p.Partition]
	end, alsoKnown := ends[p.Partition]
	switch {
	case !known || !alsoKnown:
		return errTryAgain
	case p.next < start:
		return fault.Fatalf(classBeforeStart, "%s: position %d is below the log start %d: %d records were deleted by retention before they were read. See docs/playbooks/DataLoss.md, or set onDataLoss: resume",
			p.Partition, p.next, start, start-p.next)
	case p.next > end:
		return fault.Fatalf(classBeyondEnd, "%s: position %d is beyond the log end %d: the log was truncated, or another cluster answers. See docs/playbooks/DataLoss.md",
			p.Partition, p.next, end)
	}
	return errTryAgain
}

// consume hands over the records of one partition's answer. empty says that no partition got data, so that there was room.
// It returns true when the range is read to its end.
func (f *fetcher) consume(p *part, answer *kmsg.FetchResponseTopicPartition, empty bool) (bool, error) {
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return false, err //nolint:wrapcheck // partFailed says where
	}
	before, epoch, aborted := p.next, int32(-1), newAborts(answer.AbortedTransactions)
	for in := answer.RecordBatches; len(in) > 0 && p.next < p.To; {
		raw, rest, need := nextBatch(in)
		if need > 0 {
			if p.next == before && len(rest) == 0 {
				return false, f.grow(p, need, int64(len(in)))
			}
			break // a broker cuts its answer at the size asked for
		}
		in = rest
		if raw.modern() && raw.first() >= p.To { // nothing is left below: compacted away
			p.next = p.To
			break
		}
		if err := f.hand(p, raw, aborted); err != nil {
			return false, err
		}
		epoch = raw.epoch()
	}
	if p.next > p.handed && !f.send(record.Batch{Partition: p.Partition, Next: p.next, LeaderEpoch: epoch}, p) {
		return false, f.ctx.Err() //nolint:wrapcheck // nobody sees it
	}
	if p.next == before {
		return false, f.nothing(p, answer, empty)
	}
	p.tries, p.idle, p.last = 0, time.Time{}, nil
	return p.next == p.To, nil
}

// hand decodes one batch and hands it over, unless it has no records: then only the position moves.
func (f *fetcher) hand(p *part, raw rawBatch, aborted aborts) error {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-f.ctx.Done():
		return f.ctx.Err() //nolint:wrapcheck // nobody sees it
	}
	batch, err := f.decoder.decode(raw, p.Partition, p.next, p.To, aborted)
	if err != nil {
		return err
	}
	p.next = batch.Next
	if len(batch.Records) == 0 && batch.Next < p.To {
		return nil
	}
	if !f.send(batch, p) {
		return f.ctx.Err() //nolint:wrapcheck // nobody sees it
	}
	return nil
}

func (f *fetcher) send(batch record.Batch, p *part) bool {
	select {
	case f.out <- batch:
		p.handed = batch.Next
		return true
	case <-f.ctx.Done():
		return false
	}
}

// fetch sends one request for the partitions.
func (f *fetcher) fetch(parts []*part, share int32) (*kmsg.FetchResponse, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(f.source.opts.FetchWait.Milliseconds())
	req.MinBytes = 1
	req.MaxBytes = max(share, parts[0].maxBytes) // a batch that is known to be large must fit
	req.IsolationLevel = f.source.isolation()
	req.SessionEpoch = -1 // no session
	nameless, index := false, map[string]int{}
	for _, p := range parts {
		nameless = nameless || p.id == [16]byte{}
		i, ok := index[p.Partition.Topic]
		if !ok {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = p.Partition.Topic, p.id
			i = len(req.Topics)
			index[t.Topic] = i
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.FetchOffset = p.Partition.ID, p.epoch, p.next
		rp.PartitionMaxBytes = max(p.maxBytes, 1)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	var sent kmsg.Request = req
	if nameless {
		sent = fetchByName{req}
	}
	kresp, err := f.source.client.Broker(int(f.leader)).Request(f.ctx, sent)
	if err != nil {
		return nil, err //nolint:wrapcheck // failed says what was asked for
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return nil, errors.New("the client answered Fetch with something else")
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode) //nolint:wrapcheck // as above
}

// fetchByName keeps a fetch at the last version that names topics. From the next one on there are only ids, and a
// cluster may serve that version before it gives any topic an id (inter.broker.protocol.version is behind).
type fetchByName struct{ *kmsg.FetchRequest }

// MaxVersion is asked by the client.
func (fetchByName) MaxVersion() int16 { return 12 }

// partitionKey names a partition by its topic's name or, since version 13, by the bytes of its id.
type partitionKey struct {
	topic string
	id    int32
}

// index finds the answer of a partition, and tells whether none has data.
func index(resp *kmsg.FetchResponse) (found map[partitionKey]*kmsg.FetchResponseTopicPartition, empty bool) {
	empty = true
	found = map[partitionKey]*kmsg.FetchResponseTopicPartition{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := t.Topic
		if name == "" {
			name = string(t.TopicID[:])
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			found[partitionKey{name, p.Partition}] = p
			empty = empty && len(p.RecordBatches) == 0
		}
	}
	return found, empty
}
