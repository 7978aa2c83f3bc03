package flags

import (
	"bytes"
	"context"
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
	log := newLogger(w, format, level)
	setLibraryLog(log)
	return log
}

// LimitLibraries makes client-go log from a level on, whatever the level of the process.
func LimitLibraries(w io.Writer, format, level string) { setLibraryLog(newLogger(w, format, level)) }

func setLibraryLog(log *slog.Logger) { klog.SetSlogLogger(log.With("library", "client-go")) }

func newLogger(w io.Writer, format, level string) *slog.Logger {
	lowest := &slog.LevelVar{}
	_ = lowest.UnmarshalText([]byte(level)) // The flag allows valid levels only.
	options := &slog.HandlerOptions{Level: lowest, ReplaceAttr: plainLevel}
	switch format {
	case "json":
		return slog.New(leveledHandler{slog.NewJSONHandler(w, options), lowest})
	case Brief:
		options.ReplaceAttr = dropTime
	}
	return slog.New(leveledHandler{newTextHandler(w, options), lowest})
}

// leveledHandler is a handler whose level can change while the process runs: the inspect endpoint finds it in
// the logger of the process.
type leveledHandler struct {
	slog.Handler

	level *slog.LevelVar
}

// LogLevel returns the level, which all loggers that derive from one share.
func (l leveledHandler) LogLevel() *slog.LevelVar { return l.level }

func (l leveledHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveledHandler{l.Handler.WithAttrs(attrs), l.level}
}

func (l leveledHandler) WithGroup(name string) slog.Handler {
	return leveledHandler{l.Handler.WithGroup(name), l.level}
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

// newTextHandler returns a handler of text logs for people. Of a value with several lines,
// such as a manifest, the first stays in the record and the others follow it unchanged,
// so that they can be copied.
func newTextHandler(w io.Writer, o *slog.HandlerOptions) slog.Handler {
	out := &recordWriter{to: w}
	return textHandler{Handler: slog.NewTextHandler(&out.line, o), out: out}
}

// recordWriter writes each record together with the lines that follow it.
type recordWriter struct {
	mu   sync.Mutex
	line bytes.Buffer
	to   io.Writer
}

type textHandler struct {
	slog.Handler
	out *recordWriter
}

func (t textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return textHandler{t.Handler.WithAttrs(attrs), t.out}
}

func (t textHandler) WithGroup(name string) slog.Handler {
	return textHandler{t.Handler.WithGroup(name), t.out}
}

func (t textHandler) Handle(ctx context.Context, r slog.Record) error {
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
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	defer t.out.line.Reset()
	if err := t.Handler.Handle(ctx, short); err != nil {
		return err
	}
	t.out.line.WriteString(strings.Join(below, ""))
	_, err := t.out.to.Write(t.out.line.Bytes())
	return err
}
