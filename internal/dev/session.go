package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/process"
)

const (
	// stopLimit is how long stopping may take.
	stopLimit = 2500 * time.Millisecond
	// processGrace is the time between SIGTERM and SIGKILL for processes; part of
	// stopLimit.
	processGrace = time.Second
	// readyLimit is how long a session without a command waits for its processes.
	readyLimit = 10 * time.Second
)

// session is one run of the development loop.
type session struct {
	Options
	began    time.Time
	cancel   context.CancelCauseFunc
	projects []*workspace
	locals   locals
	// unapplied are the projects whose manifests failed to apply at first.
	unapplied []string

	reaper  *process.Reaper
	cluster Cluster
	config  *rest.Config
	manager Manager
	// shared is the cluster if it is a Target; nil for one of our own.
	shared *manifest.Shared
	// inspectDir is the folder in which processes publish their inspect endpoints.
	inspectDir string
	withdraw   withdrawals
	// accounts are the kubeconfigs of processes with the rights of a ServiceAccount.
	accounts []*os.File
	// dashboardURL is the URL of the dashboard; "" without one.
	dashboardURL string

	background          sync.WaitGroup // goroutines that end with the context
	commandOwnsTerminal atomic.Bool
	// keyboard is nil if no keys are read.
	keyboard *keyboard
}

// run executes the steps of a session, then waits for its end.
func (s *session) run(ctx context.Context) (int, error) {
	_ = publishSession(s, "") // Other commands go to no other cluster meanwhile. What prevents it is said by publish.
	steps := []func(context.Context) error{
		s.compileAll, s.boot, s.prepareInspection, s.publish, s.prepareTarget, s.prepareProcesses, s.startManager, s.awaitCluster,
		s.startProcesses, s.awaitManager, s.awaitProcesses, s.applyAll, s.watchFiles,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return s.exitCode(ctx, err)
		}
	}
	if len(s.Command) > 0 {
		if s.dashboardURL != "" {
			s.Reporter.Line("dashboard: %s", s.dashboardURL)
		}
		if len(s.locals) > 0 && s.ProcessLogs != "" {
			s.Reporter.Line("process logs: %s", s.ProcessLogs)
		}
		return s.runCommand(ctx)
	}
	s.printSummary()
	if s.keyboard != nil {
		s.keyboard.enable(s)
	}
	<-ctx.Done()
	if _, called := errors.AsType[signalled](context.Cause(ctx)); called {
		return 0, nil
	}
	return exitFailure, context.Cause(ctx)
}

// exitCode returns the exit code of a session that did not start: after a signal, the end
// of the cluster, or an error.
func (s *session) exitCode(ctx context.Context, err error) (int, error) {
	if stop, called := errors.AsType[signalled](context.Cause(ctx)); called {
		return 128 + int(stop.signal), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return exitFailure, cause
	}
	return exitFailure, err
}

func (s *session) boot(ctx context.Context) error {
	cluster, err := s.Boot(ctx, BootOptions{
		DataDir: s.DataDir, Kubeconfig: s.Kubeconfig, KubernetesBinaries: s.KubernetesBinaries, Log: s.Log,
		Progress: func(name string) func(error) { return s.phase(name) },
	})
	if err != nil && s.Target != nil {
		return err // Nothing was to be booted.
	}
	if err != nil {
		return fmt.Errorf("boot the control plane: %w", err)
	}
	s.cluster = cluster
	return s.connect()
}

// awaitCluster waits for the rest of the cluster. It follows startManager, which installs CRDs
// meanwhile.
func (s *session) awaitCluster(ctx context.Context) error {
	if err := s.cluster.AwaitReady(ctx); err != nil {
		return fmt.Errorf("boot the control plane: %w", err)
	}
	s.background.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.cluster.Done():
			s.cancel(fmt.Errorf("the control plane stopped: %w", s.cluster.Err()))
		}
	})
	return nil
}

func (s *session) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // The API server limits requests itself.
	config.UserAgent = "setpoint/" + s.Version
	s.config = config
	if s.Target != nil {
		return nil // prepareTarget does it.
	}
	for _, w := range s.projects {
		if w.manifests, err = manifest.NewSet(config, w.Apply); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) startManager(ctx context.Context) error {
	dashboard, err := s.openDashboard(ctx)
	if err == nil {
		// For `setpoint plan`, which finds the routes by the kubeconfig.
		err = s.withdraw.keep(locate.PublishHooks(s.inspectDir, s.locals.routes()))
	}
	if err != nil || s.NewManager == nil {
		return err
	}
	manager, err := s.NewManager(s.managerOptions(dashboard))
	if err != nil {
		return fmt.Errorf("start the controller manager: %w", err)
	}
	s.manager = manager
	s.background.Go(func() {
		if err := manager.Run(ctx); err != nil && ctx.Err() == nil {
			s.cancel(fmt.Errorf("the controller manager stopped: %w", err))
		}
	})
	return nil
}

// managerOptions returns the options of the manager.
func (s *session) managerOptions(dashboard manager.Dashboard) manager.Options {
	o := manager.Options{
		Settings: compile.Settings{
			Dial: s.locals.dial, Routed: func(address string) bool { return s.locals.serving(address) != nil },
			Expressions: expression.Compile,
		},
		Config: s.config, Version: s.Version, Log: s.Log, Dashboard: dashboard,
		InspectAddress: "127.0.0.1:0", InspectDir: s.inspectDir, Recording: s.Recording, Traces: s.Traces,
		Plan: dryrun.ForObject,
	}
	if s.Target != nil {
		s.Target.limit(&o, s.shared)
	}
	return o
}

func (s *session) awaitManager(ctx context.Context) error {
	if s.manager == nil {
		return nil
	}
	done := s.phase("controllers")
	select {
	case <-s.manager.Ready():
		err := s.checkLeads()
		done(err)
		return err
	case <-ctx.Done():
		done(ctx.Err())
		return context.Cause(ctx)
	}
}

// runCommand runs the command.
func (s *session) runCommand(ctx context.Context) (int, error) {
	environment := s.environment()
	if routes := s.locals.routes(); len(routes) > 0 {
		environment = append(environment, "SETPOINT_HOOKS="+strings.Join(routes, ","))
	}
	code, err := s.foreground(ctx, s.Command, environment)
	if _, called := errors.AsType[signalled](context.Cause(ctx)); err == nil && !called && ctx.Err() != nil {
		return exitFailure, context.Cause(ctx)
	}
	return code, err
}

// foreground runs a program, which owns the terminal meanwhile.
func (s *session) foreground(ctx context.Context, args, environment []string) (int, error) {
	s.commandOwnsTerminal.Store(s.Interactive)
	defer s.commandOwnsTerminal.Store(false)
	return process.Command{
		Args: args, Env: environment,
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
		Reaper: s.reaper, Interactive: s.Interactive, Grace: processGrace,
	}.Run(ctx)
}

// environment returns the variables for processes and commands.
func (s *session) environment() []string {
	return append(s.Target.environment(), "KUBECONFIG="+s.cluster.Kubeconfig(), "SETPOINT="+s.Executable, locate.FolderEnv+"="+
		s.inspectDir, "SETPOINT_DASHBOARD="+s.dashboardURL)
}

// stop stops everything in parallel.
func (s *session) stop() {
	s.cancel(context.Canceled)
	s.Reporter.Close()
	s.withdraw.all()
	ctx, done := context.WithTimeout(context.Background(), stopLimit)
	defer done()
	var parts sync.WaitGroup
	if s.cluster != nil {
		parts.Go(func() {
			if err := s.cluster.Stop(ctx); err != nil {
				s.Reporter.Problem(fmt.Errorf("stop the control plane: %w", err))
			}
		})
	}
	parts.Go(func() { s.stopBackground(ctx) })
	parts.Wait()
	for _, l := range s.locals {
		if l.output != nil {
			l.output.close()
		}
	}
	for _, file := range s.accounts {
		_ = removeLocked(file) // It is a leftover otherwise.
	}
	if s.Target == nil {
		_ = os.RemoveAll(s.inspectDir) // Nothing reads it now.
	} else if s.inspectDir != "" {
		_ = os.Remove(pageFile(s.inspectDir)) // There may be none.
	}
}

// stopBackground waits for the goroutines that stop the processes, then closes the reaper,
// which kills the rest.
func (s *session) stopBackground(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		s.background.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.reaper.Close()
}

// phase shows a phase. Its error is shown by the caller.
func (s *session) phase(name string) (done func(error)) {
	phase := s.Reporter.Phase(name)
	return func(err error) { phase.End(err, "") }
}
