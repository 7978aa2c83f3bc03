// Package inspect is the read model of a process: its controllers, the state of each of their
// objects, and the history of its runs.
//
// It holds the types of Source, which the terminal and the dashboard show, and the bounded History of runs, whose type
// is that of package record. It holds no pages, no commands, no requests to the API server, and no permission checks.
// Each process is a Source; package wire reads the Source of another process. The controllers do not know this package:
// they hand records to the manager, which implements Source.
package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// Source reads one process. Results are snapshots that belong to the caller. An error that wraps failure.ErrNotFound
// means that the controller, object or run is not known, or no longer kept.
//
// Results may contain objects that the user may not read: callers check permissions with the API server, see Redact.
type Source interface { //nolint:interfacebloat // Each method is one view of a process, and all who read one read most.
	// Name identifies the process: "setpoint", or the name of a Go program.
	Name() string
	// Process returns the state of the process.
	Process(ctx context.Context) (Process, error)
	// Controllers returns all controllers, sorted by name.
	Controllers(ctx context.Context) ([]Controller, error)
	// Objects returns the objects managed by a controller.
	Objects(ctx context.Context, controller string, q Query) (Page, error)
	// States returns the states of one object, one for each controller that manages it. No state is not an error.
	States(ctx context.Context, ref object.Ref) ([]ObjectState, error)
	// Runs returns the runs for one object by any controller, newest first.
	Runs(ctx context.Context, ref object.Ref, limit int) ([]Run, error)
	// Reviews returns the recorded reviews by a controller, newest first, without requests and
	// responses. detailed adds the groups of the users and the changed fields.
	Reviews(ctx context.Context, controller string, detailed bool) ([]Run, error)
	// Run returns one run with complete requests and responses, in which values of Secrets are masked, or have tokens in
	// their place.
	Run(ctx context.Context, id uint64, tokens bool) (Run, error)
	// Record writes a recording of what runs from now on, until the context ends.
	Record(ctx context.Context, filter recording.Filter, out io.Writer) error
	// Plan returns a dry run for an object. edited is the object as a user would store it; nil for the stored one.
	Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (Plan, error)
	// SetLogLevel sets the lowest level of log lines, one of LogLevels, until the process ends.
	SetLogLevel(ctx context.Context, level string) error
	// Diagnostic returns one of Diagnostics, which help to find a defect of the process itself.
	Diagnostic(ctx context.Context, name string) ([]byte, error)
	// Await returns once the revision differs from since, or with the error of ctx when that ends.
	Await(ctx context.Context, since uint64) (revision uint64, err error)
}

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
