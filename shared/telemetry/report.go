package telemetry

import (
	"context"
	"log/slog"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// listed bounds the ranges and gaps that one line names: Cloud Logging drops an entry above 256 KB. What is left out
// is counted, and stands in the run's document.
const listed = 100

// LogReport writes the one wide line of a run. Its severity is chosen for the person on call:
//
//   - CRITICAL: the run failed and the next one will too, until a person acts. This is the line that pages.
//   - ERROR: the run failed for a reason that should not come out of a run at all.
//   - WARNING: worth a look in working hours. The run failed for a passing reason: the next one goes on where it
//     stopped, and if that lasts, the age of the oldest unprocessed record raises the alarm. Or it passed a gap, which
//     is data loss that onDataLoss: resume allowed.
//   - INFO: everything else. Partial, paused and skipped runs are how a pipeline breathes.
func LogReport(ctx context.Context, logger *slog.Logger, report record.Report) {
	attrs := []slog.Attr{
		slog.String("run", report.Run),
		slog.String("pipeline", report.Pipeline),
		slog.Int("lane", report.Lane),
		slog.String("outcome", string(report.Outcome)),
		slog.Time("started_at", report.StartedAt),
		slog.Int64("duration_ms", report.DurationMs),
		slog.Int64("read", report.Read),
		slog.Int64("written", report.Written),
		slog.Int64("duplicates", report.Duplicates),
		slog.Int64("dead_lettered", report.DeadLettered),
		slog.Int64("filtered", report.Filtered),
		slog.Int64("undecided", report.Undecided),
		slog.Int("unanswered", report.Unanswered),
		slog.Any("remaining", report.Remaining),
	}
	// An age that is not known is null, as in the report, so that a metric over the lines does not take it for zero.
	attrs = append(attrs, slog.Any("oldest_unprocessed_age_seconds", report.OldestUnprocessedAgeSeconds))
	attrs = append(attrs, given("started_from", report.StartedFrom)...)
	attrs = append(attrs, given("limited_by", report.LimitedBy)...)
	attrs = append(attrs, given("error", report.Error)...)
	attrs = append(attrs, given("error_kind", report.ErrorKind)...)
	attrs = append(attrs, given("error_class", report.ErrorClass)...)
	attrs = append(attrs, ranges(report.Ranges)...)
	attrs = append(attrs, gaps(report.Gaps)...)
	if len(report.Notices) > 0 {
		attrs = append(attrs, slog.Any("notices", report.Notices))
	}
	logger.LogAttrs(ctx, level(report), "run", attrs...)
}

// level chooses the severity as LogReport says.
func level(report record.Report) slog.Level {
	switch report.Outcome {
	case record.Failed:
		switch report.ErrorKind {
		case fault.Fatal.String():
			return LevelCritical
		case fault.Transient.String():
			return slog.LevelWarn
		}
		return slog.LevelError
	case record.Done, record.Idle, record.Partial, record.Paused, record.Skipped:
	}
	if len(report.Gaps) > 0 || report.Unanswered > 0 {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// given returns the attribute of a text that a report may leave out.
func given(key, text string) []slog.Attr {
	if text == "" {
		return nil
	}
	return []slog.Attr{slog.String(key, text)}
}

func ranges(all []record.RangeReport) []slog.Attr {
	type line struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		From      int64  `json:"from"`
		To        int64  `json:"to"`
		DoneTo    int64  `json:"done_to"`
		LogEnd    int64  `json:"log_end"`
	}
	lines := make([]line, 0, min(len(all), listed))
	for _, one := range all[:min(len(all), listed)] {
		lines = append(lines, line(one))
	}
	return []slog.Attr{slog.Int("ranges_total", len(all)), slog.Any("ranges", lines)}
}

func gaps(all []record.GapReport) []slog.Attr {
	lost := int64(0)
	for _, gap := range all {
		lost += gap.To - gap.From
	}
	attrs := []slog.Attr{slog.Int("gaps_total", len(all)), slog.Int64("gap_records", lost)}
	if len(all) > 0 {
		attrs = append(attrs, slog.Any("gaps", all[:min(len(all), listed)]))
	}
	return attrs
}
