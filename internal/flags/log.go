package flags

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"

	"k8s.io/klog/v2"
)

// Brief is a format of logs beside those of the flag --log-format: text without times, for
// interactive use.
const Brief = "brief"

// NewLog returns the logger of the process in a format and from a level on. client-go's klog
// writes to it too.
func NewLog(w io.Writer, format, level string) *slog.Logger {
	handler := newHandler(w, format, level)
	setLibraryLog(handler)
	return slog.New(handler)
}

// LimitLibraries makes client-go log from a level on, whatever the level of the process.
func LimitLibraries(w io.Writer, format, level string) { setLibraryLog(newHandler(w, format, level)) }

func setLibraryLog(handler leveledHandler) {
	handler.library = true
	klog.SetSlogLogger(slog.New(handler).With("library", "client-go"))
}

func newHandler(w io.Writer, format, level string) leveledHandler {
	lowest := &slog.LevelVar{}
	_ = lowest.UnmarshalText([]byte(level)) // The flag allows valid levels only.
	options := &slog.HandlerOptions{Level: lowest, ReplaceAttr: plainLevel}
	if format == "json" {
		return leveledHandler{Handler: slog.NewJSONHandler(w, options), level: lowest}
	}
	if format == Brief {
		options.ReplaceAttr = dropTime
	}
	out := &recordWriter{to: w}
	return leveledHandler{Handler: slog.NewTextHandler(&out.line, options), level: lowest, text: out}
}

// leveledHandler is a handler whose level can change while the process runs: the inspect endpoint finds it in
// the logger of the process.
//
// Text logs are for people: of a value with several lines, such as a manifest, the first stays in the record and the
// others follow it unchanged, so that they can be copied.
type leveledHandler struct {
	slog.Handler
	level *slog.LevelVar
	// text is where the handler writes text; nil for JSON.
	text *recordWriter
	// library says that the records are client-go's. It calls it an error that a request was canceled, as all are when
	// Setpoint stops; that is logged at the level debug.
	library bool
}

// LogLevel returns the level, which all loggers that derive from one share.
func (l leveledHandler) LogLevel() *slog.LevelVar { return l.level }

func (l leveledHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.Handler = l.Handler.WithAttrs(attrs)
	return l
}

func (l leveledHandler) WithGroup(name string) slog.Handler {
	l.Handler = l.Handler.WithGroup(name)
	return l
}

func dropTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return plainLevel(groups, a)
}

// plainLevel writes levels between the four as the lower one: client-go has DEBUG+1.
func plainLevel(groups []string, a slog.Attr) slog.Attr {
	if level, is := a.Value.Any().(slog.Level); is && len(groups) == 0 && a.Key == slog.LevelKey {
		const step = slog.LevelInfo - slog.LevelDebug
		lower := slog.LevelDebug
		for lower+step <= min(level, slog.LevelError) {
			lower += step
		}
		a.Value = slog.AnyValue(lower)
	}
	return a
}

// recordWriter writes each record together with the lines that follow it.
type recordWriter struct {
	mu   sync.Mutex
	line bytes.Buffer
	to   io.Writer
}

// Handle implements slog.Handler.
func (l leveledHandler) Handle(ctx context.Context, r slog.Record) error {
	if l.library && ofCanceled(r) {
		if r.Level = slog.LevelDebug; !l.Enabled(ctx, r.Level) {
			return nil
		}
	}
	if l.text == nil {
		return l.Handler.Handle(ctx, r)
	}
	short := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	var below []string
	r.Attrs(func(a slog.Attr) bool {
		if first, rest, more := strings.Cut(a.Value.String(), "\n"); more && a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(first)
			below = append(below, strings.TrimRight(rest, "\n")+"\n")
		}
		short.AddAttrs(a)
		return true
	})
	l.text.mu.Lock()
	defer l.text.mu.Unlock()
	defer l.text.line.Reset()
	if err := l.Handler.Handle(ctx, short); err != nil {
		return err
	}
	l.text.line.WriteString(strings.Join(below, ""))
	_, err := l.text.to.Write(l.text.line.Bytes())
	return err
}

func ofCanceled(r slog.Record) bool {
	for a := range r.Attrs {
		if err, is := a.Value.Any().(error); is && errors.Is(err, context.Canceled) {
			return true
		}
	}
	return false
}
