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
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// exitFailure is the exit code of a failed session.
const exitFailure = 1

// Loop runs a session and returns the exit code. Everything it started has stopped then.
func Loop(ctx context.Context, o Options) (int, error) {
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
	s.keyboard = &keyboard{terminal: terminal, reporter: s.Reporter, quit: func() { s.cancel(process.StopSignal(syscall.SIGINT)) }}
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
			s.cancel(process.StopSignal(number))
		}
	}
}

// run executes the steps of a session, then waits for its end.
func (s *session) run(ctx context.Context) (int, error) {
	_ = s.publishAs("") // Other commands go to no other cluster meanwhile. What prevents it is said by publish.
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
		s.keyboard.ready.Store(s.forKeys())
	}
	<-ctx.Done()
	if _, called := errors.AsType[process.StopSignal](context.Cause(ctx)); called {
		return 0, nil
	}
	return exitFailure, context.Cause(ctx)
}

// forKeys is what keys need once the session is ready.
func (s *session) forKeys() *readySession {
	kubeconfig, out := s.cluster.Kubeconfig(), s.Reporter.Writer("reconcile")
	return &readySession{
		dashboardURL: s.dashboardURL, folder: s.inspectDir, processLogs: s.ProcessLogs, kubeconfig: kubeconfig,
		reconcile: func(ctx context.Context) {
			s.background.Go(func() {
				if err := s.Reconcile(ctx, kubeconfig, out); err != nil && ctx.Err() == nil {
					s.Reporter.Problem(err)
				}
			})
		},
		shell: func(ctx context.Context, program string) error {
			_, err := s.foreground(ctx, []string{program}, s.environment())
			return err
		},
	}
}

// exitCode returns the exit code of a session that did not start: after a signal, the end
// of the cluster, or an error.
func (s *session) exitCode(ctx context.Context, err error) (int, error) {
	if stop, called := errors.AsType[process.StopSignal](context.Cause(ctx)); called {
		return 128 + int(stop), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return exitFailure, cause
	}
	return exitFailure, err
}

// runCommand runs the command.
func (s *session) runCommand(ctx context.Context) (int, error) {
	environment := s.environment()
	if routes := s.locals.routes(); len(routes) > 0 {
		environment = append(environment, "SETPOINT_HOOKS="+strings.Join(routes, ","))
	}
	code, err := s.foreground(ctx, s.Command, environment)
	if _, called := errors.AsType[process.StopSignal](context.Cause(ctx)); err == nil && !called && ctx.Err() != nil {
		return exitFailure, context.Cause(ctx)
	}
	return code, err
}

// stop stops everything in parallel.
func (s *session) stop() {
	s.cancel(context.Canceled)
	s.Reporter.Close()
	s.published.withdraw()
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
