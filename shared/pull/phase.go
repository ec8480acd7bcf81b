package pull

import (
	"context"
	"log/slog"
)

// Phase is a step of a run, as its debug log names it in the attribute "phase" once the step is done. A process that is
// killed right after any of them loses nothing: end-to-end tests do that.
type Phase string

// The phases, in the order in which a run first has them.
const (
	PhaseCheckpoint Phase = "checkpoint" // the lane's document was read
	PhaseBounds     Phase = "bounds"     // Kafka told what can be read
	PhasePlan       Phase = "plan"       // the window is fixed
	PhaseLease      Phase = "lease"      // the lease was taken, with gaps and resets
	PhaseRead       Phase = "read"       // a batch was read
	PhaseConvert    Phase = "convert"    // a batch was converted
	PhaseWrite      Phase = "write"      // a chunk is about to be written
	PhaseWritten    Phase = "written"    // a chunk was acknowledged: documents and dead letters
	PhaseCommit     Phase = "commit"     // the checkpoint moved
	PhaseRelease    Phase = "release"    // the last commit gave the lease back
)

// Phases lists them all.
func Phases() []Phase {
	return []Phase{
		PhaseCheckpoint, PhaseBounds, PhasePlan, PhaseLease, PhaseRead, PhaseConvert, PhaseWrite, PhaseWritten, PhaseCommit, PhaseRelease,
	}
}

// passed notes a phase in the debug log.
func (r *Runner) passed(ctx context.Context, phase Phase, attrs ...slog.Attr) {
	if r.Logger.Enabled(ctx, slog.LevelDebug) {
		r.Logger.LogAttrs(ctx, slog.LevelDebug, "passed", append([]slog.Attr{slog.String("phase", string(phase))}, attrs...)...)
	}
}
