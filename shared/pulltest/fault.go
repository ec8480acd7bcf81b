package pulltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// Fault is one way in which one effect of a run goes wrong.
type Fault string

// The faults that are enumerated.
const (
	NoFault     Fault = "none"
	FailsBefore Fault = "fails before" // the effect does not happen and the caller is told so
	FailsAfter  Fault = "fails after"  // the effect happens and its answer is lost
	Hangs       Fault = "hangs"        // the effect does not happen and the call lasts until its context ends
	HangsAfter  Fault = "hangs after"  // the effect happens, and so on
	Outage      Fault = "outage"       // this effect and every later one of its kind fails, until the run ends
	LeaseLost   Fault = "lease lost"   // another run takes the lane just before the effect
	DiesBefore  Fault = "dies before"  // the process ends: neither this effect happens nor any other
	DiesAfter   Fault = "dies after"   // the process ends after the effect, before it knows of it
)

// Faults lists all but NoFault.
func Faults() []Fault {
	return []Fault{FailsBefore, FailsAfter, Hangs, HangsAfter, Outage, LeaseLost, DiesBefore, DiesAfter}
}

// Effect is a kind of effect that a run has on the world outside.
type Effect string

// The effects, in the order in which a run first has them.
const (
	EffectLoad   Effect = "load"
	EffectBounds Effect = "bounds"
	EffectCreate Effect = "create"
	EffectNext   Effect = "next"
	EffectWrite  Effect = "write"
	EffectBury   Effect = "bury"
	EffectUpdate Effect = "update"
	EffectEdit   Effect = "edit"
	// EffectTopicIDs is the look at the topic ids before the last commit.
	EffectTopicIDs Effect = "topic ids"
)

// Step is the nth effect of a kind, from 1.
type Step struct {
	Effect Effect
	N      int
}

// String returns the step as "write 3".
func (s Step) String() string { return fmt.Sprintf("%s %d", s.Effect, s.N) }

// errDead is what a dead process would never see.
var errDead = errors.New("the process is dead")

// Injector counts the effects of one run and lets one of them go wrong. Each effect takes a time of its own, so that
// inside testing/synctest the order of effects is the same in every run.
type Injector struct {
	// Die is called when the process dies; it ends the run's context.
	Die func()
	// Steal takes the lane's lease away.
	Steal func()

	mu     sync.Mutex
	step   Step
	fault  Fault
	counts map[Effect]int
	dead   bool
	hit    bool
}

// NewInjector makes an injector for one run.
func NewInjector(step Step, fault Fault) *Injector {
	return &Injector{step: step, fault: fault, counts: map[Effect]int{}, Die: func() {}, Steal: func() {}}
}

// Counts returns how many effects of each kind there were.
func (i *Injector) Counts() map[Effect]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	counts := map[Effect]int{}
	for effect, n := range i.counts {
		counts[effect] = n
	}
	return counts
}

// Hit says whether the step was reached.
func (i *Injector) Hit() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hit
}

// durations are what effects take. They share no divisor with each other, so that no two end at the same moment.
var durations = map[Effect]time.Duration{
	EffectLoad: 11 * time.Millisecond, EffectBounds: 13 * time.Millisecond, EffectCreate: 17 * time.Millisecond,
	EffectNext: 7 * time.Millisecond, EffectWrite: 23 * time.Millisecond, EffectBury: 29 * time.Millisecond,
	EffectUpdate: 19 * time.Millisecond, EffectEdit: 31 * time.Millisecond,
}

// next counts an effect and says what is to go wrong with it.
func (i *Injector) next(effect Effect) Fault {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead {
		return DiesBefore
	}
	i.counts[effect]++
	step := Step{effect, i.counts[effect]}
	if step == i.step || i.fault == Outage && effect == i.step.Effect && step.N > i.step.N {
		i.hit = true
		return i.fault
	}
	return NoFault
}

func (i *Injector) die() {
	i.mu.Lock()
	i.dead = true
	i.mu.Unlock()
	i.Die()
}

// do has an effect, or does not.
func (i *Injector) do(ctx context.Context, effect Effect, have func(context.Context) error) error {
	select {
	case <-time.After(durations[effect]):
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", effect, context.Cause(ctx))
	}
	switch i.next(effect) {
	case NoFault:
	case FailsBefore, Outage:
		return fault.Transientf("%s was not done", effect)
	case FailsAfter:
		if err := have(ctx); err != nil {
			return err
		}
		return fault.Transientf("the answer of %s was lost", effect)
	case Hangs:
		<-ctx.Done()
		return fault.Transientf("%s hung: %w", effect, ctx.Err())
	case HangsAfter:
		if err := have(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return fault.Transientf("%s hung: %w", effect, ctx.Err())
	case LeaseLost:
		i.Steal()
	case DiesBefore:
		i.die()
		return errDead
	case DiesAfter:
		err := have(ctx)
		i.die()
		return errors.Join(errDead, err)
	}
	return have(ctx)
}

// Source wraps a source.
func (i *Injector) Source(inner pull.Source) pull.Source { return &faultySource{i, inner} }

type faultySource struct {
	*Injector
	inner pull.Source
}

func (s *faultySource) Bounds(ctx context.Context, query record.BoundsQuery) (log record.Log, err error) {
	err = s.do(ctx, EffectBounds, func(ctx context.Context) error {
		log, err = s.inner.Bounds(ctx, query)
		return err
	})
	return log, err
}

func (s *faultySource) TopicIDs(ctx context.Context, topics []string) (ids map[string]string, err error) {
	err = s.do(ctx, EffectTopicIDs, func(ctx context.Context) error {
		ids, err = s.inner.TopicIDs(ctx, topics)
		return err
	})
	return ids, err
}

func (s *faultySource) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) pull.Reader {
	return &faultyReader{s.Injector, s.inner.Open(ctx, ranges, topicIDs)}
}

type faultyReader struct {
	*Injector
	inner pull.Reader
}

func (r *faultyReader) Next(ctx context.Context) (batch record.Batch, err error) {
	ended := false
	err = r.do(ctx, EffectNext, func(ctx context.Context) error {
		batch, err = r.inner.Next(ctx)
		if ended = errors.Is(err, io.EOF); ended {
			return nil
		}
		return err
	})
	if err == nil && ended {
		return batch, io.EOF
	}
	return batch, err
}

func (r *faultyReader) Close() { r.inner.Close() }

// Sink wraps a sink.
func (i *Injector) Sink(inner pull.Sink) pull.Sink { return &faultySink{i, inner} }

type faultySink struct {
	*Injector
	inner pull.Sink
}

func (s *faultySink) Write(ctx context.Context, writes []record.Write) (result record.WriteResult, err error) {
	err = s.do(ctx, EffectWrite, func(ctx context.Context) error {
		result, err = s.inner.Write(ctx, writes)
		return err
	})
	return result, err
}

// Order has no effect that could go wrong.
func (s *faultySink) Order(w record.Write) (uint64, bool) { return s.inner.Order(w) }

func (s *faultySink) Bury(ctx context.Context, run string, letters []record.DeadLetter) error {
	return s.do(ctx, EffectBury, func(ctx context.Context) error { return s.inner.Bury(ctx, run, letters) })
}

// Store wraps a checkpoint store. Every document that is stored is first shown to check.
func (i *Injector) Store(inner lease.Store, check func(record.Checkpoint)) lease.Store {
	return &faultyStore{i, inner, check}
}

type faultyStore struct {
	*Injector
	inner lease.Store
	check func(record.Checkpoint)
}

func (s *faultyStore) Load(ctx context.Context, lane int) (snap lease.Snapshot, err error) {
	err = s.do(ctx, EffectLoad, func(ctx context.Context) error {
		snap, err = s.inner.Load(ctx, lane)
		return err
	})
	return snap, err
}

func (s *faultyStore) Create(ctx context.Context, doc record.Checkpoint) (at lease.Revision, err error) {
	err = s.do(ctx, EffectCreate, func(ctx context.Context) error {
		s.check(doc)
		at, err = s.inner.Create(ctx, doc)
		return err
	})
	return at, err
}

func (s *faultyStore) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (after lease.Revision, err error) {
	err = s.do(ctx, EffectUpdate, func(ctx context.Context) error {
		s.check(doc)
		after, err = s.inner.Update(ctx, doc, at, run)
		return err
	})
	return after, err
}

func (s *faultyStore) Edit(ctx context.Context, change lease.Edit) error {
	return s.do(ctx, EffectEdit, func(ctx context.Context) error { return s.inner.Edit(ctx, change) })
}
