package kafkasource

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
)

const (
	// stallTime is how long a broker that says that there is more may have nothing for us. A record that cannot be had
	// must not look like the end of the log, nor keep a run busy until its deadline. Slow tiered storage answers nothing
	// for a while, and so may a broker that has just begun.
	stallTime = 10 * time.Second
	// quietPause is the least time between two requests that brought nothing. Brokers wait for data by themselves, but
	// not where they think that there is some.
	quietPause = 50 * time.Millisecond
)

// throttled says so if the broker answered nothing because of a quota. The client waits as long as it was told to.
func (f *fetcher) throttled(resp *kmsg.FetchResponse) error {
	if resp.ThrottleMillis <= 0 {
		return nil
	}
	return fmt.Errorf("broker %d throttles client %q for %d ms: raise its quota (consumer_byte_rate)", f.leader, f.source.opts.ClientID, resp.ThrottleMillis)
}

// grow asks for more where the first batch did not fit. Brokers since 0.10.1 send it whole, so this is for others.
func (f *fetcher) grow(p *part, need, got int64) error {
	if need <= got {
		return fault.Fatalf(classCorrupt, "%s: reading at offset %d: a batch claims to have %d bytes: look at the log on the brokers (kafka-dump-log)",
			p.Partition, p.next, need)
	}
	if need > f.decoder.limit {
		return tooLarge(p.Partition, p.next, need, f.decoder.limit)
	}
	if int64(p.maxBytes) >= need {
		return p.stalled("broker %d cut the batch of %d bytes at offset %d to %d bytes: look at the broker", f.leader, need, p.next, got)
	}
	p.maxBytes = max(p.maxBytes, int32(need))
	return nil
}

// nothing judges an answer that brought nothing. A broker that cannot be read up to the end of the range is waited for:
// it was elected a moment ago, or it lags. One that can, and had room in its answer, must have something: compaction
// keeps the last batch of a log. It is not believed to be at the end, because it looks the same when its tiered storage
// does not answer. In one case the log is really empty there: compacted up to its end, cut at it by an election, and
// nothing written since. The next record that is produced ends that.
func (f *fetcher) nothing(p *part, answer *kmsg.FetchResponseTopicPartition, empty bool) error {
	end := answer.LastStableOffset
	if f.source.opts.ReadUncommitted || end < 0 {
		end = answer.HighWatermark
	}
	switch {
	case end < p.To:
		p.idle = time.Time{}
		p.last = fmt.Errorf("broker %d can be read up to %d only: look at the replicas of the partition (kafka-topics --describe)", f.leader, end)
		return nil
	case !empty:
		p.idle = time.Time{}
		return nil
	}
	return p.stalled("broker %d says that the log goes to %d, but sends nothing at %d: look at the broker's log, and at its tiered storage if it has one",
		f.leader, end, p.next)
}

// stalled returns a stuckError once nothing has come for stallTime.
func (p *part) stalled(format string, args ...any) error {
	p.last = fmt.Errorf(format, args...)
	if p.idle.IsZero() {
		p.idle = time.Now()
	}
	idle := time.Since(p.idle)
	if idle < stallTime {
		return nil
	}
	return stuckError{fault.Transientf("%s: no progress for %s: %w", p.Range, idle.Round(time.Second), p.last)}
}

// stuckError ends the reading of one partition, and with the last one that of all.
type stuckError struct{ error }

// Unwrap returns the fault.
func (e stuckError) Unwrap() error { return e.error }
