package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/local/realpart"
	"github.com/tidemark/tidemark/local/serve"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/pull"
)

// trigger watches the log of a function process for a phase.
type trigger struct {
	phase pull.Phase
	// after the checkpoint moved, for the phases that a run has again and again.
	afterCommit bool

	mu        sync.Mutex
	line      []byte
	committed bool
	pulled    bool
	hit       chan struct{}
}

// Write looks at each line of the log.
func (t *trigger) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = append(t.line, b...)
	for {
		end := bytes.IndexByte(t.line, '\n')
		if end < 0 {
			return len(b), nil
		}
		t.see(t.line[:end])
		t.line = t.line[end+1:]
	}
}

func (t *trigger) see(line []byte) {
	has := func(phase pull.Phase) bool {
		return bytes.Contains(line, fmt.Appendf(nil, `"phase":%q`, string(phase)))
	}
	if has(t.phase) && !t.pulled && (t.committed || !t.afterCommit) {
		t.pulled = true
		close(t.hit)
	}
	t.committed = t.committed || has(pull.PhaseCommit)
}

// killed is a run that was killed after a phase, and what the next ones found.
type killed struct {
	phase      pull.Phase
	from, to   int64 // the sum of the offsets in the checkpoint, before the run and after its death
	duplicates int64 // what the next run found there already
}

// showKills kills a run right after each of its phases. Runs are slow on purpose: small writes, so that a commit comes
// before the end.
func showKills(ctx context.Context, s *stage) (string, error) {
	const name = "kills"
	rows, err := s.fill(ctx, dataset{realpart.Flights, name, list, kgo.NoCompression()})
	if err != nil {
		return "", err
	}
	store, err := firecheckpoint.New(firecheckpoint.Options{Project: project, Pipeline: name})
	if err != nil {
		return "", err
	}
	slow := pipeline{name: name, lease: shortLease, sink: ", writers: 2, batch: {records: 10}"}
	var all []killed
	for _, phase := range pull.Phases() {
		k := killed{phase: phase}
		if k.from, err = position(ctx, store); err != nil {
			return "", err
		}
		if err := s.killAfter(ctx, slow, phase); err != nil {
			return "", err
		}
		if k.to, err = position(ctx, store); err != nil {
			return "", err
		}
		all = append(all, k)
		// The run after the dead one, with a window of its own, shows what had been written and not committed.
		short := slow
		short.limits = ", records: 2000"
		if all[len(all)-1].duplicates, err = s.afterDeath(ctx, short); err != nil {
			return "", err
		}
		s.say("killed after %-11s checkpoint %7d -> %7d, then %5d duplicates", phase, k.from, k.to, all[len(all)-1].duplicates)
	}
	rest, err := s.move(ctx, pipeline{name: name})
	if err != nil {
		return "", err
	}
	c, err := s.compare(ctx, name)
	if err != nil {
		return "", err
	}
	return judgeKills(all, rest, rows, c)
}

func judgeKills(all []killed, rest totals, rows int, c compared) (string, error) {
	moved, duplicates := 0, rest.duplicates
	for _, k := range all {
		duplicates += k.duplicates
		if k.to > k.from {
			moved++
		}
		if k.to < k.from {
			return "", fmt.Errorf("the checkpoint moved back, from %d to %d, in the run that was killed after %s", k.from, k.to, k.phase)
		}
	}
	figures := fmt.Sprintf("%d kills, %d of them after the checkpoint had moved, %d duplicates; %s", len(all), moved, duplicates, c)
	if moved < 5 || duplicates == 0 || c.documents != int64(rows) {
		return "", fmt.Errorf("want 5 kills after a commit, some duplicates and %d documents: %s", rows, figures)
	}
	return figures, nil
}

// killAfter makes one run and kills its process as soon as the phase is in its log.
func (s *stage) killAfter(ctx context.Context, p pipeline, phase pull.Phase) error {
	first := []pull.Phase{pull.PhaseCheckpoint, pull.PhaseBounds, pull.PhasePlan, pull.PhaseLease}
	t := &trigger{phase: phase, afterCommit: true, hit: make(chan struct{})}
	for _, early := range first {
		if phase == early {
			t.afterCommit = false
		}
	}
	if phase == pull.PhaseRelease {
		p.limits = ", records: 30000" // so that the run ends while there is more
	}
	process, err := serve.Child(ctx, t, "LOG_LEVEL=debug", "TIDEMARK_CONFIG_INLINE="+s.config(p))
	if err != nil {
		return err
	}
	defer process.Kill()
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, runErr = call(ctx, process)
	}()
	select {
	case <-t.hit:
		process.Kill()
		<-ended // it was cut off
		return nil
	case <-ended:
		select {
		case <-t.hit: // the answer of a run that was released came first
			return nil
		default:
		}
		return fmt.Errorf("the run was over before phase %s: %w", phase, runErr)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// afterDeath makes the next run that is not skipped, and returns its duplicates.
func (s *stage) afterDeath(ctx context.Context, p pipeline) (int64, error) {
	process, err := s.function(ctx, p)
	if err != nil {
		return 0, err
	}
	defer process.Kill()
	for {
		a, err := call(ctx, process)
		if err != nil {
			return 0, err
		}
		if a.Outcome != "skipped" {
			return a.Duplicates, nil
		}
		if err := wait(ctx, shortLease/4); err != nil {
			return 0, err
		}
	}
}

// position is the sum of the offsets in the checkpoint, 0 where there is none.
func position(ctx context.Context, store *firecheckpoint.Store) (sum int64, err error) {
	snapshot, err := store.Load(ctx, 0)
	if err != nil {
		return 0, fmt.Errorf("reading the checkpoint: %w", err)
	}
	if snapshot.Doc == nil {
		return 0, nil
	}
	for _, p := range snapshot.Doc.Offsets {
		sum += p.Offset
	}
	return sum, nil
}
