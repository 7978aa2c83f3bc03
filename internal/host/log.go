package host

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// LeadLogs has client-go, which logs through klog, write into a log of ours. It is
// a matter of the whole process.
func LeadLogs(log *slog.Logger) { klog.SetSlogLogger(log.With("library", "client-go")) }
