// Package dev is the development loop of `setpoint dev`: it boots a cluster, runs the
// manager in it, applies manifests, runs processes in place of Services, and reloads
// everything when files change.
//
// Subpackages: project reads setpoint.yaml, manifest applies, watch reports changed files,
// progress writes to the terminal; package process supervises. The caller provides Boot, because
// the control plane makes a binary ten times as large.
package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Cluster is a running control plane.
type Cluster interface {
	// Kubeconfig returns the path of the admin kubeconfig.
	Kubeconfig() string
	// Address returns the URL of the API server.
	Address() string
	Components() []Component
	// AwaitReady returns once the controllers of Kubernetes run and pods can be scheduled.
	AwaitReady(ctx context.Context) error
	// Done is closed when the cluster stops. Err returns why; nil after Stop.
	Done() <-chan struct{}
	Err() error
	Stop(ctx context.Context) error
}

// Component is one program of the control plane and its log file.
type Component struct{ Name, Log string }

// BootOptions configure the cluster.
type BootOptions struct {
	// DataDir keeps the cluster between runs; "" for a temporary one.
	DataDir string
	// Kubeconfig is the file to write; "" for one in the data directory.
	Kubeconfig string
	// KubernetesBinaries is the folder of other programs of Kubernetes; "" for the default of
	// Boot.
	KubernetesBinaries string
	// Progress is called at the start of a phase and returns the function for its end.
	Progress func(phase string) (done func(error))
	Log      *slog.Logger
}

// Boot starts a cluster and returns once its API server is ready.
type Boot func(ctx context.Context, o BootOptions) (Cluster, error)

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

// exitFailure is the exit code of a failed session.
const exitFailure = 1

// Run runs a session and returns the exit code. Everything it started has stopped then.
func Run(ctx context.Context, o Options) (int, error) {
	s, err := open(o)
	if err != nil {
		return exitFailure, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.cancel = cancel
	removeOld(s.Log, s.began)
	takeTerminal(ctx, s)
	if s.keyboard != nil {
		defer s.keyboard.close()
	}
	over := make(chan struct{})
	defer close(over)
	go s.handleSignals(over)
	code, err := s.run(ctx)
	s.stop()
	s.leaveTarget()
	return code, err
}

// takeTerminal starts to read keys, if they are the session's.
func takeTerminal(ctx context.Context, s *session) {
	if s.Terminal == nil {
		return
	}
	terminal, abort := openTerminal(s.Terminal), s.Abort
	if terminal == nil {
		return
	}
	s.keyboard = &keyboard{terminal: terminal, reporter: s.Reporter, quit: func() { s.cancel(signalled{syscall.SIGINT}) }}
	s.Abort = func() {
		terminal.close()
		abort()
	}
	s.background.Go(func() { s.keyboard.run(ctx) })
}

// open reads the projects first: errors in them are reported before the cluster boots.
func open(o Options) (*session, error) {
	s := &session{Options: o, began: time.Now()}
	if s.FreePort == nil {
		s.FreePort = process.FreePorts()
	}
	projects, err := project.Open(o.Paths, o.Interpreter)
	if err != nil {
		return nil, err
	}
	for _, p := range projects {
		if err := p.Place(s.FreePort, s.Executable); err != nil {
			return nil, err
		}
		s.projects = append(s.projects, &workspace{Project: p, reporter: s.Reporter})
		for _, each := range p.Processes {
			s.locals = append(s.locals, &localProcess{Process: each, sources: sourcesOf(p, each)})
		}
	}
	if s.Target != nil {
		s.Boot = s.Target.connect
	}
	if s.Programs != nil {
		s.Programs.Limit(s.checkHeld)
	}
	s.reaper, err = process.NewReaper()
	return s, err
}

// checkHeld lets a program of an exec hook run if a file of the session has its controller. The folder of a file may
// hold anything, and a controller may come from anyone who reaches the API server.
func (s *session) checkHeld(c call.Command) error {
	if slices.ContainsFunc(s.projects, func(w *workspace) bool { return w.holds(c.Controller) }) {
		return nil
	}
	return fmt.Errorf("setpoint dev runs programs only for controllers of its own files, and none of them has %s", c.Controller)
}

// signalled is the cause of a session ended by a signal.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string              { return fmt.Sprintf("stopped by signal (%s)", s.signal) }
func (s signalled) StopSignal() syscall.Signal { return s.signal }

// handleSignals ends the session at the first signal and aborts at the second. While a
// command owns the terminal, it handles Ctrl-C itself.
func (s *session) handleSignals(over <-chan struct{}) {
	interrupted := false
	for {
		select {
		case <-over:
			return
		case sig := <-s.Signals:
			number, ok := sig.(syscall.Signal)
			if !ok || number == syscall.SIGINT && s.commandOwnsTerminal.Load() {
				continue
			}
			if interrupted {
				s.Abort()
			}
			interrupted = true
			s.cancel(signalled{number})
		}
	}
}
