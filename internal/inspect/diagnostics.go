package inspect

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// LogLevels are the levels of log lines, lowest first.
var LogLevels = []string{"debug", "info", "warn", "error"} //nolint:gochecknoglobals // A constant list.

// ParseLogLevel returns a level of LogLevels.
func ParseLogLevel(name string) (level slog.Level, err error) {
	if !slices.Contains(LogLevels, name) {
		return 0, fmt.Errorf("the log level %q does not exist: use one of %s", name, strings.Join(LogLevels, ", "))
	}
	err = level.UnmarshalText([]byte(name))
	return level, err
}

// The Diagnostics of a process.
const (
	// DiagnosticCommand is the command line, one argument a line.
	DiagnosticCommand = "command"
	// DiagnosticMetrics are the metrics in Prometheus' text format.
	DiagnosticMetrics = "metrics"
	// DiagnosticGoroutines are the stacks of goroutines, equal ones together.
	DiagnosticGoroutines = "goroutines"
)

// Diagnostics lists them.
var Diagnostics = []string{DiagnosticCommand, DiagnosticMetrics, DiagnosticGoroutines} //nolint:gochecknoglobals // A constant list.
