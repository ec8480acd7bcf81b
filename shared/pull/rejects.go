package pull

import (
	"slices"
	"sync"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// rejects judges whether too many records become dead letters: of the last window records, counted across runs, or of
// this run's where it read more.
type rejects struct {
	stop    bool    // at the first one
	ratio   float64 // share that is still taken for an accident
	window  int64
	history []record.RejectCount

	mu   sync.Mutex
	seen record.RejectCount // this run, committed or not
}

func (r *Runner) newRejects(history []record.RejectCount) *rejects {
	return &rejects{stop: r.StopAtReject, ratio: r.MaxRejectRatio, window: r.RejectWindow, history: history}
}

// admit counts records of which some are rejected, before any of them is stored as a dead letter. Fatal where that
// would be too many: the checkpoint then stays before the first of these.
func (j *rejects) admit(records int64, letters []record.DeadLetter) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen.Records += records
	if len(letters) == 0 {
		return nil
	}
	first := letters[0]
	if j.stop {
		return fault.Fatalf("rejected", "%s: offset %d cannot be written (%s) and deadLetters.onReject is stop. "+
			"Correct what refuses it, or set onReject: deadLetter", first.Record.Partition, first.Record.Offset, first.Class)
	}
	j.seen.Rejected += int64(len(letters))
	of := max(j.window, j.seen.Records)
	if rejected := j.last(of); float64(rejected) > j.ratio*float64(of) {
		return fault.Fatalf("too-many-rejects", "%d of the last %d records cannot be written, more than deadLetters.maxRatio %g allows; "+
			"the latest is %s offset %d (%s). Look at record.format and at what the producers write, or raise maxRatio",
			rejected, of, j.ratio, first.Record.Partition, first.Record.Offset, first.Class)
	}
	return nil
}

// pass counts records that are neither written nor rejected.
func (j *rejects) pass(records int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen.Records += records
}

// last counts the rejected ones among the last records: this run's and, as far as it read less, those before it. A
// stretch that begins outside counts with its share.
func (j *rejects) last(records int64) int64 {
	rejected, left := j.seen.Rejected, records-j.seen.Records
	for _, stretch := range slices.Backward(j.history) {
		if left <= 0 {
			break
		}
		if stretch.Records <= left {
			rejected += stretch.Rejected
		} else {
			rejected += stretch.Rejected * left / stretch.Records
		}
		left -= stretch.Records
	}
	return rejected
}

// keptStretches bounds the history in the document.
const keptStretches = 64

// remember returns the history with this run's committed part, without what is older than the window.
func (j *rejects) remember(run record.RejectCount) []record.RejectCount {
	history := slices.Clone(j.history)
	if run.Records > 0 {
		history = append(history, run)
	}
	var total int64
	for _, stretch := range history {
		total += stretch.Records
	}
	for len(history) > 0 && total-history[0].Records >= j.window {
		total -= history[0].Records
		history = history[1:]
	}
	for len(history) > keptStretches {
		history[1].Records += history[0].Records
		history[1].Rejected += history[0].Rejected
		history = history[1:]
	}
	return history
}
