package telemetry

import (
	"context"
	"io"
	"log/slog"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
)

// LevelCritical is for what stops a pipeline until a person acts. slog has no such level.
const LevelCritical = slog.LevelError + 4

// The keys that Cloud Logging takes out of a JSON line, see cloud.google.com/logging/docs/structured-logging.
const (
	severityKey = "severity"
	messageKey  = "message"
	traceKey    = "logging.googleapis.com/trace"
	spanKey     = "logging.googleapis.com/spanId"
	labelsKey   = "logging.googleapis.com/labels"
)

// NewLogger returns a logger that writes JSON lines for Cloud Logging to w, one Write a line. Where the context is that
// of a functions-framework request, a line carries its trace, span and execution id. Project may be "": then the trace
// stands without its project, and Cloud Logging does not link it to Cloud Trace. Lines below the level are not written.
func NewLogger(w io.Writer, project string, level slog.Level) *slog.Logger {
	return slog.New(&handler{
		json:    slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: cloudKeys, Level: level}),
		project: project,
	})
}

// cloudKeys renames slog's own keys to Cloud Logging's.
func cloudKeys(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attr
	}
	switch attr.Key {
	case slog.LevelKey:
		if level, ok := attr.Value.Any().(slog.Level); ok {
			return slog.String(severityKey, severity(level))
		}
	case slog.MessageKey:
		attr.Key = messageKey
	}
	return attr
}

func severity(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "DEBUG"
	case level < slog.LevelWarn:
		return "INFO"
	case level < slog.LevelError:
		return "WARNING"
	case level < LevelCritical:
		return "ERROR"
	}
	return "CRITICAL"
}

// handler adds the ids of the request to each line.
type handler struct {
	json    slog.Handler // without attributes and groups of its own
	project string
	// steps are the WithAttrs and WithGroup calls so far. They are done again for each line, after the ids: these must
	// stay at the top, outside of every group.
	steps []func(slog.Handler) slog.Handler
}

// Enabled says whether a level is written.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.json.Enabled(ctx, level)
}

// Handle writes one line.
func (h *handler) Handle(ctx context.Context, line slog.Record) error {
	next := h.json.WithAttrs(h.ids(ctx))
	for _, step := range h.steps {
		next = step(next)
	}
	return next.Handle(ctx, line) //nolint:wrapcheck // a slog.Handler hands its writer's error on
}

// WithAttrs returns a handler whose lines hold the attributes.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup returns a handler whose later attributes stand in a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return h.with(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *handler) with(step func(slog.Handler) slog.Handler) *handler {
	steps := append(h.steps[:len(h.steps):len(h.steps)], step)
	return &handler{json: h.json, project: h.project, steps: steps}
}

func (h *handler) ids(ctx context.Context) []slog.Attr {
	var attrs []slog.Attr
	if trace := funcframework.TraceIDFromContext(ctx); trace != "" {
		if h.project != "" {
			trace = "projects/" + h.project + "/traces/" + trace
		}
		attrs = append(attrs, slog.String(traceKey, trace))
	}
	if span := funcframework.SpanIDFromContext(ctx); span != "" {
		attrs = append(attrs, slog.String(spanKey, span))
	}
	if execution := funcframework.ExecutionIDFromContext(ctx); execution != "" {
		attrs = append(attrs, slog.Any(labelsKey, map[string]string{"execution_id": execution}))
	}
	return attrs
}
