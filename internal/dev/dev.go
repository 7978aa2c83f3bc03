// Package dev is the development loop behind `setpoint dev`: it boots a
// cluster, runs the engine in it, applies the manifests of some folders, runs
// their processes in the place of Services, and keeps all of it in step with
// the files while they are edited.
//
// Its parts are rooms of their own: project reads setpoint.yaml, manifest
// applies, process supervises, watch tells of changed files, progress writes to
// the terminal. How a cluster is booted is not known here, since that takes a
// binary ten times as large; it is plugged in as Boot. The command line calls.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/process"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// Cluster is a running control plane.
type Cluster interface {
	// Kubeconfig is the path of a file with full access.
	Kubeconfig() string
	// Address is the URL of the API server.
	Address() string
	Components() []Component
	// Done is closed when the cluster has ended; Err says why, nil after Stop.
	Done() <-chan struct{}
	Err() error
	Stop(ctx context.Context) error
}

// Component is one program of the control plane and the file it logs to.
type Component struct{ Name, Log string }

// BootOptions say what cluster is wanted.
type BootOptions struct {
	// DataDir keeps the cluster between runs; empty for a throw-away one.
	DataDir string
	// Kubeconfig is the file to write; empty for one in the data directory.
	Kubeconfig string
	// Progress is called when a phase begins; what it returns, when it ends.
	Progress func(phase string) (done func(error))
	Log      *slog.Logger
}

// Boot starts a cluster and returns when it can be used.
type Boot func(ctx context.Context, o BootOptions) (Cluster, error)

// Manager runs the controllers; host.Host is the one there is.
type Manager interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// HookRestarted says that a process answers at an address, after another one or after
	// HookDown; HookDown that none does, and why.
	HookRestarted(addr string)
	HookDown(addr string, err error)
}

// Options configure a session. Boot, Reporter and Log are required.
type Options struct {
	// Dirs are folders with a setpoint.yaml.
	Dirs []string
	// Command is run when everything is ready; the session ends with it.
	Command []string
	// ProcessLogs is the folder for what the processes write, each to NAME.log; the
	// terminal if empty.
	ProcessLogs string
	// ReadyTimeout is how long the command waits for the processes it needs once they
	// are compiled; without limit if 0.
	ReadyTimeout time.Duration
	// Interactive says that the command reads from a terminal.
	Interactive    bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// DashboardAddress is where the window is, on loopback; AnyDashboardAddress for the usual place, or
	// another if that is taken, and "" for nowhere.
	DashboardAddress string
	// DataDir and Kubeconfig are passed on to Boot.
	DataDir, Kubeconfig string
	Boot                Boot
	// NewManager makes what runs the controllers; a host.Host when nil.
	NewManager func(manager.Options) (Manager, error)

	// FreePort finds a port for a process; process.FreePort when nil.
	FreePort func() (int, error)

	// Program is how the user called this program, Executable where it lies.
	Program, Executable string
	Version             string

	Reporter *progress.Reporter
	Log      *slog.Logger
	// Signals ask for an end. The second one calls Abort, which does not return.
	Signals <-chan os.Signal
	Abort   func()
}

// AnyDashboardAddress is any free port of loopback.
const AnyDashboardAddress = "127.0.0.1:0"

// exitFailure is the exit code of a session that went wrong.
const exitFailure = 1

// Run runs a session to its end and returns the exit code. When it returns,
// nothing that it started is running any more.
func Run(ctx context.Context, o Options) (int, error) {
	s, err := open(o)
	if err != nil {
		return exitFailure, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.cancel = cancel
	over := make(chan struct{})
	defer close(over)
	go s.handleSignals(over)
	code, err := s.run(ctx)
	s.stop()
	return code, err
}

// open reads the projects before anything is started: a mistake in one of them
// should not cost the user a boot.
func open(o Options) (*session, error) {
	s := &session{Options: o, began: time.Now()}
	var problems []error
	for _, dir := range o.Dirs {
		p, err := project.Load(dir)
		s.projects, problems = append(s.projects, &workspace{Project: p}), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if s.NewManager == nil {
		s.NewManager = func(o manager.Options) (Manager, error) { return manager.New(o) }
	}
	if s.FreePort == nil {
		s.FreePort = process.FreePort
	}
	reaper, err := process.NewReaper()
	s.reaper = reaper
	return s, err
}

// signalled is why a session was asked to end.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string              { return fmt.Sprintf("stopped by signal (%s)", s.signal) }
func (s signalled) StopSignal() syscall.Signal { return s.signal }

// handleSignals ends the session at the first signal and aborts it at the second. While
// a command owns the terminal, Ctrl-C is for the command, which gets it too.
func (s *session) handleSignals(over <-chan struct{}) {
	asked := false
	for {
		select {
		case <-over:
			return
		case sig := <-s.Signals:
			number, ok := sig.(syscall.Signal)
			if !ok || number == syscall.SIGINT && s.commandOwnsTerminal.Load() {
				continue
			}
			if asked {
				s.Abort()
			}
			asked = true
			s.cancel(signalled{number})
		}
	}
}
