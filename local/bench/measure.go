package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/terminal"
)

// result is one phase, measured.
type result struct {
	what                string
	pair, writers, runs int // pair is 0 outside of pairs, runs is 0 for the ceiling
	records             int

	whole time.Duration // from the call to its answer
	first time.Duration // from the call until documents were seen
	// steady is records a second between the first documents seen and the last.
	steady float64
	// commands are the inserts that mongod took, 0 where it did not tell.
	commands int64
	// worker is the process that is measured, mongod and kafka are the ones beside it.
	worker, mongod, kafka usage
}

// usage is what a process has used. It is not known on every system, nor of a part that was not started here.
type usage struct {
	known bool
	cpu   time.Duration // user and system
	peak  int64         // bytes resident at most
}

// since is what was used after an earlier look. The peak is that of the whole life.
func (u usage) since(before usage) usage {
	return usage{known: u.known && before.known, cpu: u.cpu - before.cpu, peak: u.peak}
}

// usageOfPart is not known of a part that was running before.
func usageOfPart(p *realpart.Process) usage {
	if !p.Started {
		return usage{}
	}
	return usageOf(p.PID())
}

// measure does the work of a phase in the process, and watches the documents come in.
func (s *stage) measure(ctx context.Context, what string, process *realpart.Process, work func(context.Context) error) (result, error) {
	look := func() [3]usage {
		return [3]usage{usageOfPart(process), usageOfPart(s.mongod), s.kafka.usage()}
	}
	commands := s.inserts(ctx)
	before := look()
	w := s.watch(ctx, what)
	err := work(ctx)
	whole := time.Since(w.began)
	after := look()
	w.stop()
	if err != nil {
		return result{}, fmt.Errorf("measuring the %s: %w", what, err)
	}
	return result{
		what: what, records: s.options.records, whole: whole, first: w.first.at.Sub(w.began), steady: w.steady(),
		commands: s.inserts(ctx) - commands,
		worker:   after[0].since(before[0]), mongod: after[1].since(before[1]), kafka: after[2].since(before[2]),
	}, nil
}

// inserts is how many insert commands mongod has taken since it was started.
func (s *stage) inserts(ctx context.Context) int64 {
	answer, err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Raw()
	if err != nil {
		return 0
	}
	total, _ := answer.Lookup("metrics", "commands", "insert", "total").AsInt64OK()
	return total
}

const (
	// looks is how often documents are counted: the error of a time. The count is the collection's own number, which
	// costs mongod next to nothing.
	looks = 20 * time.Millisecond
	// tells is how often progress is told.
	tells = 2 * time.Second
)

// watch sees how many documents there are, and tells it.
type watch struct {
	stage       *stage
	what        string
	began       time.Time
	first, last seen
	end         context.CancelFunc
	ended       sync.WaitGroup
}

// seen is a number of documents at a moment.
type seen struct {
	at        time.Time
	documents int64
}

func (s *stage) watch(ctx context.Context, what string) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{stage: s, what: what, began: time.Now(), end: cancel}
	w.ended.Go(func() { w.look(ctx) })
	return w
}

// stop looks a last time, because the last documents may have come after the last look.
func (w *watch) stop() {
	w.end()
	w.ended.Wait()
	w.tell()
}

func (w *watch) look(ctx context.Context) {
	ticker := time.NewTicker(looks)
	defer ticker.Stop()
	told := w.began
	for {
		now := time.Now()
		w.count(context.WithoutCancel(ctx), now)
		if now.Sub(told) >= tells {
			w.tell()
			told = now
		}
		select {
		case <-ctx.Done():
			w.count(context.WithoutCancel(ctx), time.Now())
			return
		case <-ticker.C:
		}
	}
}

func (w *watch) count(ctx context.Context, now time.Time) {
	documents, err := w.stage.client.Database(databaseName).Collection(collection).EstimatedDocumentCount(ctx)
	if err != nil || documents <= w.last.documents {
		return
	}
	w.last = seen{now, documents}
	if w.first.documents == 0 {
		w.first = w.last
	}
}

// steady is the rate between two looks: all came in one where so few documents are moved that none is between them.
func (w *watch) steady() float64 {
	return float64(w.last.documents-w.first.documents) / max(looks, w.last.at.Sub(w.first.at)).Seconds()
}

func (w *watch) tell() {
	const width = 24
	total := int64(w.stage.options.records)
	full := int(min(width, width*w.last.documents/total))
	fmt.Fprintf(w.stage.out, "%-9s [%s%s] %3d %%  %s/s\n", w.what, strings.Repeat("█", full), strings.Repeat("·", width-full),
		100*w.last.documents/total, terminal.Thousands(int(float64(w.last.documents)/time.Since(w.began).Seconds())))
}
