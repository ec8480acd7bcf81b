package pulltest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// LanesTest changes the lanes of a pipeline at random moments, from 1 to 4, 2, 3 and back to 1, while instances with the
// config before, the one after and the one before that run all lanes, and some of them die or lose an answer. In the end
// every record is in the collection once, no position ever went back, and no two leases covered a partition at once.
type LanesTest struct {
	// Open returns the store of an empty pipeline, once for each instance.
	Open      func() lease.Store
	Converter pull.Converter
	Seed      uint64
	// Between is how long a config lasts on average.
	Between time.Duration
}

// lanesWorld is one test while it lasts.
type lanesWorld struct {
	LanesTest
	t      *testing.T
	source *MemSource
	sink   *MemSink

	mu      sync.Mutex
	random  *rand.Rand
	configs []int // lanes of the layouts 1, 2, ... that were deployed
	runs    int
	written []noted
}

// noted is a lane document as it was stored, with the moment by the store's clock.
type noted struct {
	doc record.Checkpoint
	at  time.Time
}

// lanesLease is the shortest lease there is.
const lanesLease = 2 * time.Second

// Run does it. It works in fake time and in real time.
func (test LanesTest) Run(t *testing.T) {
	t.Helper()
	w := &lanesWorld{
		LanesTest: test, t: t, source: NewSource(), sink: NewMemSink(MemSinkOptions{}),
		random: rand.New(rand.NewPCG(test.Seed, 1)), configs: []int{1},
	}
	w.source.MaxRecords = 3
	w.source.AddTopic("orders", 7)
	w.source.AddTopic("payments", 3)
	w.produce(20)
	stop := make(chan struct{})
	var instances sync.WaitGroup
	instances.Go(func() { w.producer(stop) })
	for range 6 {
		instances.Go(func() { w.instance(stop) })
	}
	for _, lanes := range []int{4, 2, 3, 1} {
		w.wait(test.Between/2 + time.Duration(w.draw(int(test.Between))))
		w.mu.Lock()
		w.configs = append(w.configs, lanes)
		w.mu.Unlock()
	}
	w.wait(test.Between)
	close(stop)
	instances.Wait()
	w.settle()
	w.judge()
}

func (w *lanesWorld) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
	}
}

func (w *lanesWorld) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// producer keeps the runs busy, so that many of them are under way when the lanes change.
func (w *lanesWorld) producer(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(40+w.draw(80)) * time.Millisecond):
			w.produce(w.draw(5))
		}
	}
}

func (w *lanesWorld) produce(records int) {
	for i := range records {
		topic, partition := "orders", int32(w.draw(7))
		if i%3 == 0 {
			topic, partition = "payments", int32(w.draw(3))
		}
		w.source.Produce(topic, partition, record.Record{Value: fmt.Appendf(nil, `{"n":%d}`, w.draw(1<<30))})
	}
}

// instance is called as Scheduler calls, with the newest config or one that is rolled out or back.
func (w *lanesWorld) instance(stop <-chan struct{}) {
	store := w.Open()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(20+w.draw(600)) * time.Millisecond):
		}
		w.mu.Lock()
		deployed := len(w.configs)
		w.mu.Unlock()
		layout := deployed - min(w.draw(4)/2*w.draw(3), deployed-1) // the newest in most calls
		step, what := Step{}, NoFault
		if w.draw(2) == 0 {
			effects := []Effect{EffectLoad, EffectBounds, EffectCreate, EffectNext, EffectWrite, EffectUpdate, EffectUpdate, EffectEdit, EffectEdit}
			faults := []Fault{FailsBefore, FailsAfter, Hangs, HangsAfter, DiesBefore, DiesAfter}
			step = Step{effects[w.draw(len(effects))], 1 + w.draw(3)}
			what = faults[w.draw(len(faults))]
		}
		w.mu.Lock()
		lanes := w.configs[layout-1]
		w.mu.Unlock()
		report, err := w.run(store, lanes, layout, w.draw(lanes), NewInjector(step, what))
		if fault.KindOf(err) == fault.Fatal && fault.ClassOf(err) != "layout-behind" {
			w.t.Errorf("lane %d of %d under layout %d: %v", report.Lane, lanes, layout, err)
		}
	}
}

func (w *lanesWorld) run(store lease.Store, lanes, layout, lane int, inject *Injector) (record.Report, error) {
	w.mu.Lock()
	w.runs++
	name := fmt.Sprintf("run-%04d", w.runs)
	w.mu.Unlock()
	ctx, die := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer die()
	inject.Die = die
	runner := &pull.Runner{
		Settings: pull.Settings{
			Pipeline: "orders", Topics: []string{"orders", "payments"}, Lanes: lanes, Layout: layout,
			Identity: map[string]string{"sink": "shop.orders"},
			Starting: record.StartingOffsets{Mode: record.StartEarliest}, StartingText: "earliest",
			InFlight: 1 << 20, ChunkRecords: 2, ChunkBytes: 1 << 20, Writers: 2,
			LeaseLength: lanesLease, Heartbeat: lanesLease / 3, CommitEvery: 50 * time.Millisecond,
			Reserve: 4 * time.Second, Patience: 2 * time.Second, MaxRejectRatio: 1, RejectWindow: 100,
		},
		Source: inject.Source(w.source), Sink: inject.Sink(w.sink), Converter: w.Converter,
		Checkpoints: inject.Store(&notedStore{store, w}, func(record.Checkpoint) {}), NewRunID: func() string { return name },
		Logger: slog.New(slog.DiscardHandler),
	}
	return runner.Run(ctx, lane, nil)
}

// settle runs the last config until nothing is left. What died before keeps its lease until it runs out.
func (w *lanesWorld) settle() {
	store := w.Open()
	for range 20 {
		w.wait(lanesLease + 100*time.Millisecond)
		report, err := w.run(store, 1, 5, 0, NewInjector(Step{}, NoFault))
		if err != nil && fault.KindOf(err) == fault.Fatal {
			w.t.Fatalf("a run without a fault ended with: %v", err)
		}
		if report.Outcome == record.Idle {
			return
		}
	}
	w.t.Error("not quiet after 20 runs")
}

func (w *lanesWorld) judge() {
	snapshot := mustLoad(w.t, w.Open(), 0)
	doc := *snapshot.Doc
	if doc.Layout != 5 || doc.Lanes != 1 || doc.Draining.By != "" {
		w.t.Errorf("in the end there are %d lanes under layout %d, draining by %q", doc.Lanes, doc.Layout, doc.Draining.By)
	}
	problems, err := Fsck(w.t.Context(), w.source, w.Converter, w.sink, doc)
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := w.source.Bounds(w.t.Context(), record.BoundsQuery{Lanes: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	for name, topic := range log.Topics {
		for id, bounds := range topic.Partitions {
			p := record.Partition{Topic: name, ID: id}
			if at := doc.Offsets[p].Offset; at != bounds.End {
				problems = append(problems, fmt.Sprintf("%s ended at %d, not at %d", p, at, bounds.End))
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	problems = append(problems, w.chains()...)
	problems = append(problems, overlaps(leases(w.written))...)
	layouts, drained := map[int]bool{}, 0
	for _, s := range w.written {
		layouts[s.doc.Layout] = true
		if s.doc.Draining.By != "" {
			drained++
		}
	}
	w.t.Logf("%d runs, %d writes under %d layouts, %d of them while it drained", w.runs, len(w.written), len(layouts), drained)
	for _, problem := range problems {
		w.t.Error(problem)
	}
}

// chains follows every partition through the documents that held it. Seq grows with each of them, also from one lane to
// another, so it tells their order whenever an answer came.
func (w *lanesWorld) chains() []string {
	slices.SortFunc(w.written, func(a, b noted) int { return int(a.doc.Seq - b.doc.Seq) })
	var problems []string
	at := map[record.Partition]int64{}
	for _, s := range w.written {
		for p, position := range s.doc.Offsets {
			if p.Lane(s.doc.Lanes) != s.doc.Lane {
				problems = append(problems, fmt.Sprintf("%s stores %s in lane %d of %d", s.doc.UpdatedBy, p, s.doc.Lane, s.doc.Lanes))
			}
			if position.Offset < at[p] {
				problems = append(problems, fmt.Sprintf("%s moves %s back from %d to %d (layout %d)", s.doc.UpdatedBy, p, at[p], position.Offset, s.doc.Layout))
			}
			at[p] = position.Offset
		}
	}
	return problems
}

// held is the lease of one run: nobody else may have one of its partitions between from and to.
type held struct {
	holder         string
	lane, lanes    int
	layout         int
	from, to, ends time.Time // ends is what the lease itself says
}

func leases(written []noted) []held {
	byHolder := map[string]*held{}
	for _, s := range written {
		holder := s.doc.Lease.Holder
		if holder == "" {
			holder = s.doc.UpdatedBy // it gave it back
		}
		h, ok := byHolder[holder]
		if !ok {
			if s.doc.Lease.Holder == "" {
				continue
			}
			h = &held{holder: holder, lane: s.doc.Lane, lanes: s.doc.Lanes, layout: s.doc.Layout, from: s.at}
			byHolder[holder] = h
		}
		if s.at.Before(h.from) {
			h.from = s.at
		}
		if s.doc.Lease.Holder == "" {
			h.to = s.at
		} else if s.doc.Lease.ExpiresAt.After(h.ends) {
			h.ends = s.doc.Lease.ExpiresAt
		}
	}
	var all []held
	for _, h := range byHolder {
		if h.to.IsZero() || h.ends.Before(h.to) {
			h.to = h.ends
		}
		all = append(all, *h)
	}
	return all
}

func overlaps(all []held) []string {
	var problems []string
	for i, a := range all {
		for _, b := range all[:i] {
			if a.from.Before(b.to) && b.from.Before(a.to) && sharesPartition(a, b) {
				problems = append(problems, fmt.Sprintf("%s (lane %d of %d, layout %d) and %s (lane %d of %d, layout %d) held a partition at once, for %s",
					a.holder, a.lane, a.lanes, a.layout, b.holder, b.lane, b.lanes, b.layout, min(a.to.Sub(b.from), b.to.Sub(a.from))))
			}
		}
	}
	return problems
}

func sharesPartition(a, b held) bool {
	for topic, partitions := range map[string]int32{"orders": 7, "payments": 3} {
		for id := range partitions {
			p := record.Partition{Topic: topic, ID: id}
			if p.Lane(a.lanes) == a.lane && p.Lane(b.lanes) == b.lane {
				return true
			}
		}
	}
	return false
}

// notedStore notes what was stored, whatever becomes of the answer further up.
type notedStore struct {
	lease.Store
	world *lanesWorld
}

func (s *notedStore) Create(ctx context.Context, doc record.Checkpoint) (lease.Revision, error) {
	began := time.Now()
	at, err := s.Store.Create(ctx, doc)
	s.world.note(doc, at, began, err)
	return at, err
}

func (s *notedStore) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	began := time.Now()
	at, err := s.Store.Update(ctx, doc, at, run)
	s.world.note(doc, at, began, err)
	return at, err
}

// note keeps the moment by the store's clock where the revision tells it. Else it is one of this machine, which runs the
// store: after the effect for a lease that is held, before it for one that is given back, so that no overlap is made up.
func (w *lanesWorld) note(doc record.Checkpoint, revision lease.Revision, began time.Time, err error) {
	if err != nil {
		return
	}
	at, parseErr := time.Parse(time.RFC3339Nano, string(revision))
	if parseErr != nil {
		at = time.Now()
		if doc.Lease.Holder == "" {
			at = began
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = append(w.written, noted{doc.Clone(), at})
}
