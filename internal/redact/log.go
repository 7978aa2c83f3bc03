package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Logger returns a Logger whose lines have no values.
func (v *Values) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(&logHandler{log.Handler(), v})
}

type logHandler struct {
	slog.Handler

	values *Values
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, line slog.Record) error {
	masked := slog.NewRecord(line.Time, line.Level, h.values.Text(line.Message), line.PC)
	line.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, masked)
}

// attr replaces the values in what is logged as a text.
func (h *logHandler) attr(a slog.Attr) slog.Attr {
	switch value := a.Value.Resolve(); value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.values.Text(value.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(h.attrs(value.Group())...)}
	case slog.KindAny:
		return slog.String(a.Key, h.values.Text(fmt.Sprint(value.Any())))
	default:
		return a
	}
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(h.attrs(attrs)), h.values}
}

func (h *logHandler) attrs(all []slog.Attr) []slog.Attr {
	masked := make([]slog.Attr, len(all))
	for i, a := range all {
		masked[i] = h.attr(a)
	}
	return masked
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.values}
}
