package redact

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// quotingError is an error whose text may quote values.
type quotingError struct {
	err    error
	values *Values
}

func (q *quotingError) Error() string { return q.values.Text(q.err.Error()) }
func (q *quotingError) Unwrap() error { return q.err }

// Redact replaces the values in another text of the error, such as a field path.
func (q *quotingError) Redact(text string) string { return q.values.Text(text) }

// Error returns an error without the values in its text, and in texts of the errors that wrap it. It returns nil for nil.
func (v *Values) Error(err error) error {
	if v == nil || err == nil {
		return err
	}
	return &quotingError{err, v}
}

// Logger returns a Logger whose lines have no values.
func (v *Values) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(&logHandler{log.Handler(), v})
}

type logHandler struct {
	slog.Handler

	values *Values
}

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
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(lists.Map(value.Group(), h.attr)...)}
	case slog.KindAny:
		return slog.String(a.Key, h.values.Text(fmt.Sprint(value.Any())))
	default:
		return a
	}
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(lists.Map(attrs, h.attr)), h.values}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.values}
}
