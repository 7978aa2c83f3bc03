package cli

import (
	"io"
	"log/slog"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// newLog returns the logger of the process. client-go's klog writes to it too.
func newLog(w io.Writer, format, level string) *slog.Logger {
	options := &slog.HandlerOptions{Level: levels()[level]}
	var handler slog.Handler
	switch format {
	case "json":
		handler = slog.NewJSONHandler(w, options)
	case "brief": // For interactive use.
		options.ReplaceAttr = dropTime
		handler = manager.NewTextHandler(w, options)
	default:
		handler = manager.NewTextHandler(w, options)
	}
	log := slog.New(handler)
	manager.RedirectKlog(log)
	return log
}

func dropTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func levels() map[string]slog.Level {
	return map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
}
