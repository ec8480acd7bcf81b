package pull_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

// world is Kafka, MongoDB and the checkpoint store, which outlive every run.
type world struct {
	t           *testing.T
	source      *pulltest.MemSource
	sink        *pulltest.MemSink
	store       lease.Store
	converter   pull.Converter
	beforeWrite func()         // called before a document is stored
	replaced    pull.Converter // what runs convert with, where it is not converter
	settings    pull.Settings
	runs        int
	more        int // good records that were produced beside those of newWorld, as many in each partition
	stop        <-chan struct{}
	wrap        func(pull.Sink) pull.Sink

	mu       sync.Mutex
	last     map[record.Partition]int64
	problems []string
}

const deadline = 20 * time.Second

// newWorld has three partitions with good records, records that no document can be made of, one that the sink refuses,
// an aborted transaction and a compacted tail.
func newWorld(t *testing.T) *world {
	t.Helper()
	mapper, err := mapping.New(mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, source: pulltest.NewSource(), sink: pulltest.NewMemSink(pulltest.MemSinkOptions{UniqueField: "unique"}), converter: mapper,
		wrap:  func(s pull.Sink) pull.Sink { return s },
		store: localcheckpoint.NewMemory(time.Now), last: map[record.Partition]int64{},
		settings: pull.Settings{
			Pipeline: "orders", Topics: []string{"orders"}, Lanes: 1, Layout: 1,
			Identity: map[string]string{"sink": "shop.orders"},
			Starting: record.StartingOffsets{Mode: record.StartEarliest}, StartingText: "earliest",
			MaxRecords: 22, MinPerPartition: 1, InFlight: 1 << 20, ChunkRecords: 2, ChunkBytes: 1 << 20, Writers: 2,
			LeaseLength: 2 * time.Second, Heartbeat: 600 * time.Millisecond, CommitEvery: 50 * time.Millisecond,
			Reserve: 4 * time.Second, Patience: 2 * time.Second, MaxRejectRatio: 0.5, RejectWindow: 100,
		},
	}
	w.source.MaxRecords = 4
	w.source.AddTopic("orders", 3)
	for i := range 36 {
		w.source.Produce("orders", int32(i%3), record.Record{Timestamp: int64(i), Value: value(i)})
	}
	w.source.Transact("orders", 0, record.Record{Value: []byte(`{"n":"aborted"}`)})(false)
	w.source.Produce("orders", 0, record.Record{Value: []byte(`{"n":"after the abort"}`)})
	w.source.Compact("orders", 2, 10, 11)
	return w
}

func value(i int) []byte {
	switch i {
	case 7, 31:
		return []byte(`{"n":`)
	case 5, 11, 28:
		return []byte(`{"unique":"taken by the first"}`)
	}
	return fmt.Appendf(nil, `{"n":%d}`, i)
}

// run is one invocation of a process that something may happen to.
func (w *world) run(inject *pulltest.Injector) (record.Report, error) {
	w.runs++
	name := fmt.Sprintf("run-%d", w.runs)
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	inject.Die = cancel
	inject.Steal = func() { w.steal() }
	converter := w.converter
	if w.replaced != nil {
		converter = w.replaced
	}
	runner := &pull.Runner{
		Settings: w.settings, Source: inject.Source(w.source), Sink: inject.Sink(w.wrap(w.sink)), Converter: converter,
		Checkpoints: inject.Store(w.store, w.check), NewRunID: func() string { return name },
		Logger: slog.New(slog.DiscardHandler),
	}
	return runner.Run(ctx, 0, w.stop)
}

// steal takes the lane as another run would that believes the lease to have run out.
func (w *world) steal() {
	snap, err := w.store.Load(w.t.Context(), 0)
	if err != nil || snap.Doc == nil {
		return
	}
	doc := snap.Doc.Clone()
	doc.Seq++
	doc.Lease = record.Lease{Holder: "thief", Epoch: doc.Lease.Epoch + 1, ExpiresAt: snap.ReadAt.Add(w.settings.LeaseLength)}
	doc.UpdatedBy = "thief"
	if _, err := w.store.Update(w.t.Context(), doc, snap.Revision, nil); err != nil {
		w.t.Errorf("the thief could not take the lease: %v", err)
	}
}

// check looks at every document before it is stored: nothing behind its offsets may be missing at that moment.
func (w *world) check(doc record.Checkpoint) {
	if w.beforeWrite != nil {
		w.beforeWrite()
	}
	problems, err := pulltest.Fsck(context.WithoutCancel(w.t.Context()), w.source, w.converter, w.sink, doc)
	if err != nil {
		problems = []string{err.Error()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, problem := range problems {
		w.problems = append(w.problems, "at a commit: "+problem)
	}
}

// observe looks at what is stored after a run: the checkpoint never moved back, and nothing behind it is missing.
func (w *world) observe() record.Checkpoint {
	snap, err := w.store.Load(w.t.Context(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if snap.Doc == nil {
		return record.Checkpoint{}
	}
	for partition, position := range snap.Doc.Offsets {
		if position.Offset < w.last[partition] {
			w.problems = append(w.problems, fmt.Sprintf("%s moved back from %d to %d", partition, w.last[partition], position.Offset))
		}
		w.last[partition] = position.Offset
	}
	w.check(*snap.Doc)
	return *snap.Doc
}

// quiet runs until nothing is left, and returns how many runs that took.
func (w *world) quiet() int {
	for n := 1; n <= 20; n++ {
		// A run that died keeps its lease until it runs out.
		time.Sleep(w.settings.LeaseLength + time.Second)
		report, err := w.run(pulltest.NewInjector(pulltest.Step{}, pulltest.NoFault))
		if err != nil {
			w.problems = append(w.problems, fmt.Sprintf("a run without a fault ended with: %v", err))
			return n
		}
		w.observe()
		if report.Outcome == record.Idle {
			return n
		}
	}
	w.problems = append(w.problems, "not quiet after 20 runs")
	return 20
}

// complete says what is not as it must be in the end.
func (w *world) complete() []string {
	doc := w.observe()
	want := map[record.Partition]int64{{Topic: "orders", ID: 0}: 15, {Topic: "orders", ID: 1}: 12, {Topic: "orders", ID: 2}: 12}
	for partition, offset := range want {
		if offset += int64(w.more / len(want)); doc.Offsets[partition].Offset != offset {
			w.problems = append(w.problems, fmt.Sprintf("%s ended at %d, not at %d", partition, doc.Offsets[partition].Offset, offset))
		}
	}
	// 37 committed records, of which two are malformed, two are refused by a unique index and two were compacted away.
	if documents, letters := len(w.sink.Documents()), len(w.sink.Letters()); documents != 31+w.more || letters != 4 {
		w.problems = append(w.problems, fmt.Sprintf("%d documents and %d dead letters, not %d and 4", documents, letters, 31+w.more))
	}
	return w.problems
}

// scenario is the run that the fault happens to: the first of all, or one that goes on from a checkpoint.
type scenario struct {
	name   string
	before int // runs before it
}

func scenarios() []scenario { return []scenario{{"first run", 0}, {"later run", 1}} }

func (s scenario) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for range s.before {
		if _, err := w.run(pulltest.NewInjector(pulltest.Step{}, pulltest.NoFault)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// steps counts the effects of the scenario's run when nothing happens to it.
func (s scenario) steps(t *testing.T) []pulltest.Step {
	t.Helper()
	var steps []pulltest.Step
	synctest.Test(t, func(t *testing.T) {
		w := s.world(t)
		clean := pulltest.NewInjector(pulltest.Step{}, pulltest.NoFault)
		if _, err := w.run(clean); err != nil {
			t.Fatal(err)
		}
		counts := clean.Counts()
		for _, effect := range slices.Sorted(maps.Keys(counts)) {
			for n := range counts[effect] {
				steps = append(steps, pulltest.Step{Effect: effect, N: n + 1})
			}
		}
	})
	return steps
}

// tally counts how the runs ended that one fault happened to.
type tally struct {
	cases, runs int
	outcomes    map[string]int
}

// TestRun_EveryFaultAtEveryEffect_LosesAndDoublesNothing counts the effects of a clean run and lets each of them go
// wrong in each way, then runs again until quiet. Its -v output is the fault table.
func TestRun_EveryFaultAtEveryEffect_LosesAndDoublesNothing(t *testing.T) { //nolint:paralleltest // one table is printed at the end
	for _, s := range scenarios() {
		steps := s.steps(t)
		if len(steps) < 20 {
			t.Fatalf("%s: only %d effects were counted: %s", s.name, len(steps), summary(steps))
		}
		t.Logf("%s: %d effects of a clean run: %s", s.name, len(steps), summary(steps))
		for _, f := range pulltest.Faults() {
			sum := tally{outcomes: map[string]int{}}
			for _, step := range steps {
				synctest.Test(t, func(t *testing.T) { hurt(t, s, step, f, &sum) })
			}
			t.Logf("%-10s %-12s %3d cases %4d runs  ended %s", s.name, f, sum.cases, sum.runs, outcomes(sum.outcomes))
			if sum.cases < len(steps)-6 {
				t.Errorf("%s, %s: only %d of %d effects were reached", s.name, f, sum.cases, len(steps))
			}
		}
	}
}

// hurt runs one case.
func hurt(t *testing.T, s scenario, step pulltest.Step, f pulltest.Fault, sum *tally) {
	t.Helper()
	w := s.world(t)
	inject := pulltest.NewInjector(step, f)
	report, err := w.run(inject)
	if !inject.Hit() {
		// The order of two writers may differ, and with it the number of commits.
		return
	}
	w.observe()
	sum.cases++
	sum.runs += 1 + w.quiet()
	sum.outcomes[ending(report, err)]++
	for _, problem := range w.complete() {
		t.Errorf("%s, %s %s: %s", s.name, step, f, problem)
	}
	if f == pulltest.Outage && (err == nil || fault.KindOf(err) != fault.Transient) {
		t.Errorf("%s, %s %s: a part that was away looks like success: %s with %v", s.name, step, f, report.Outcome, err)
	}
	if f == pulltest.LeaseLost && err != nil && fault.KindOf(err) != fault.Conflict {
		t.Errorf("%s, %s %s: ended with %v", s.name, step, f, err)
	}
}

func ending(report record.Report, err error) string {
	if err != nil {
		return string(report.Outcome) + "/" + fault.KindOf(err).String()
	}
	return string(report.Outcome)
}

func summary(steps []pulltest.Step) string {
	counts := map[string]int{}
	for _, step := range steps {
		counts[string(step.Effect)]++
	}
	return outcomes(counts)
}

func outcomes(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
