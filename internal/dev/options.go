package dev

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Options configure a session. Boot or Target, Reporter and Log are required.
type Options struct {
	// Paths are folders with a setpoint.yaml, manifest files to apply, and the Python files of an operator to run, for
	// which Interpreter is the path of Python; "" for the default.
	Paths       []string
	Interpreter string
	// Target is the cluster, if it is not one that Boot boots.
	Target *Target
	// Command runs once everything is ready; the session ends with it.
	Command []string
	// ProcessLogs is the folder for the output of processes, one NAME.log each; "" for the
	// terminal.
	ProcessLogs string
	// ReadyTimeout is how long the command waits for compiled processes; 0 for no timeout.
	ReadyTimeout time.Duration
	// Interactive reports that the command reads from a terminal.
	Interactive    bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is the one whose keys are read, such as q to quit; nil for none. The key for it calls Reconcile, which requests
	// a reconcile of all objects of a kubeconfig's controllers.
	Terminal  *os.File
	Reconcile func(ctx context.Context, kubeconfig string, out io.Writer) error

	// DashboardAddress is the loopback address of the dashboard; AnyDashboardAddress for
	// the default port or a free one, "" for no dashboard.
	DashboardAddress string
	// DataDir, Kubeconfig and KubernetesBinaries are passed to Boot.
	DataDir, Kubeconfig, KubernetesBinaries string
	Boot                                    Boot
	// NewManager creates the manager; nil for a cluster whose controllers run elsewhere.
	NewManager func(manager.Options) (Manager, error)

	// Programs are those of exec hooks; nil for none.
	Programs Programs

	// Recording writes all hook calls to a file.
	Recording manager.Recording
	// Traces says where spans go; nil for none.
	Traces *trace.Config

	// FreePort finds a port for a process; one of process.FreePorts if nil.
	FreePort func() (int, error)

	// Program is the name this program was called by, Executable its path.
	Program, Executable string
	Version             string

	Reporter *progress.Reporter
	Log      *slog.Logger
	// Signals end the session. The second one calls Abort, which must not return.
	Signals <-chan os.Signal
	Abort   func()
}

// AnyDashboardAddress is any free loopback port.
const AnyDashboardAddress = "127.0.0.1:0"

// DefaultDashboardAddress is tried first, so that open pages keep working in the next
// session.
const DefaultDashboardAddress = "127.0.0.1:7400"

// Manager runs the controllers. manager.Manager implements it.
type Manager interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// HookRestarted reports that a process responds at an address again; HookDown that none
	// does, and why.
	HookRestarted(addr string)
	HookDown(addr string, err error)
}

// Programs opens the programs of exec hooks. *program.Opener implements it.
type Programs interface {
	// Limit has a program refused if check returns an error.
	Limit(check func(call.Command) error)
	// Using returns the programs that a change of a file restarts.
	Using(file string) []string
}
