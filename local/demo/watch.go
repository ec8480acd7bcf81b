package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/local/terminal"
)

// watch shows the progress: a bar, records a second, and the lag of each partition as the checkpoint has it.
type watch struct {
	stage    *stage
	terminal bool
	end      context.CancelFunc
	ended    sync.WaitGroup
}

// looks is how often the progress is looked at.
const looks = 100 * time.Millisecond

func newWatch(s *stage) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{stage: s, end: cancel, terminal: terminal.Is(s.out)}
	w.ended.Go(func() { w.show(ctx) })
	return w
}

func (w *watch) stop() {
	w.end()
	w.ended.Wait()
}

// stored counts the documents that are in, which is quick and near enough to watch.
func (w *watch) stored(ctx context.Context) int {
	n, err := w.stage.database().Collection(collection).EstimatedDocumentCount(ctx)
	if err != nil {
		return 0
	}
	return int(n)
}

// grown waits until so many more documents are in; false where ctx ended first.
func (w *watch) grown(ctx context.Context, by int) bool {
	begin := w.stored(ctx)
	for w.stored(ctx) < begin+by {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(3 * time.Millisecond):
		}
	}
	return ctx.Err() == nil
}

// show draws a line on a terminal, and prints one a second elsewhere.
func (w *watch) show(ctx context.Context) {
	began, every := time.Now(), looks
	if !w.terminal {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			w.draw(context.WithoutCancel(ctx), began)
			if w.terminal {
				fmt.Fprintln(w.stage.out)
			}
			return
		case <-ticker.C:
			w.draw(ctx, began)
		}
	}
}

func (w *watch) draw(ctx context.Context, began time.Time) {
	const width = 24
	total, stored := w.stage.made.records(), w.stored(ctx)
	full := min(width, width*stored/max(total, 1))
	line := fmt.Sprintf("[%s%s] %3d %%  %s/s  lag %s", strings.Repeat("█", full), strings.Repeat("·", width-full),
		100*stored/max(total, 1), terminal.Thousands(int(float64(stored)/time.Since(began).Seconds())), w.lags(ctx))
	if w.terminal {
		fmt.Fprintf(w.stage.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(w.stage.out, line)
}

// lags reads the lag of each partition off the checkpoint.
func (w *watch) lags(ctx context.Context) string {
	snap, err := w.stage.store.Load(ctx, 0)
	if err != nil || snap.Doc == nil {
		return "unknown"
	}
	lags := make([]string, partitions)
	for i := range lags {
		lags[i] = "?"
	}
	for partition, position := range snap.Doc.Offsets {
		lags[partition.ID] = fmt.Sprint(len(w.stage.made[partition.ID]) - int(position.Offset))
	}
	return strings.Join(lags, " ")
}
