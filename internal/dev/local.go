package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// localProcess is a running process of a project.
type localProcess struct {
	project.Process
	port       int
	process    *process.Process
	recent     *recentOutput
	sources    sources
	firstStart chan error // receives the result of the first start
	// down reports whether the manager knows that the process does not respond. Only
	// handleEvent uses it.
	down bool
}

// prepareProcesses creates all processes with their ports before any is started, because
// the manager may call any of them at any time.
func (s *session) prepareProcesses(ctx context.Context) error {
	var problems []error
	for _, w := range s.projects {
		ports, err := w.Ports(s.FreePort)
		problems = append(problems, err)
		for _, wanted := range w.Processes {
			l, err := s.newLocalProcess(ctx, w, wanted, ports)
			if err != nil {
				return err
			}
			s.locals = append(s.locals, l)
		}
	}
	return errors.Join(problems...)
}

func (s *session) newLocalProcess(ctx context.Context, w *workspace, wanted project.Process, ports map[string]int) (*localProcess, error) {
	port := ports[wanted.Name]
	l := &localProcess{port: port, sources: sourcesOf(w.Project, wanted)}
	var prepare func(context.Context) error
	if c := w.compilers[wanted.Name]; c != nil {
		wanted, prepare = c.process, c.prepare
	}
	l.Process = wanted.WithPorts(port, ports).WithSetpoint(s.Executable)
	output, err := s.output(l.Name)
	if err != nil {
		return nil, err
	}
	l.recent = newRecentOutput(output)
	rights, err := s.accountEnv(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("process %s: serviceAccountFrom: %w", l.Name, err)
	}
	l.process = process.New(process.Options{
		Prepare: prepare, Command: l.Command, Env: slices.Concat(s.environment(), rights, l.Environ()), Dir: l.Dir,
		Port: l.port, ReadyPath: l.Ready,
		Output: l.recent, Reaper: s.reaper, Grace: processGrace,
		Notify:   func(e process.Event) { s.handleEvent(l, output, e) },
		Hopeless: func(code int) bool { return l.RunsOperator() && code == CodeNotImported },
	})
	return l, nil
}

// CodeNotImported is the exit code of `setpoint run` if the files of an operator cannot be
// imported.
const CodeNotImported = 3

func (s *session) startProcesses(ctx context.Context) error {
	for _, l := range s.locals {
		l.firstStart = make(chan error, 1)
		done := s.phase("process " + l.Name)
		s.background.Go(func() { l.process.Run(ctx) })
		s.background.Go(func() {
			err := l.awaitFirstStart(ctx)
			done(err)
			l.firstStart <- err
		})
	}
	return nil
}

// awaitFirstStart waits until the process is ready or has failed.
func (l *localProcess) awaitFirstStart(ctx context.Context) error {
	if err := l.process.WaitReady(ctx); err != nil {
		return l.failure(err)
	}
	return nil
}

// failure names the process in an error.
func (l *localProcess) failure(err error) error {
	return fmt.Errorf("%s: %w", l.Describe(), err)
}

// awaitProcesses waits until all processes are ready or have failed. A failed or slow
// process is an error only for a command; otherwise it can be fixed while the session runs.
func (s *session) awaitProcesses(ctx context.Context) error {
	limit, late := readyLimit, error(nil)
	if len(s.Command) > 0 {
		limit = s.ReadyTimeout
		late = fmt.Errorf("not ready after %s (--ready-timeout)", limit)
	}
	timeout := make(<-chan time.Time)
	if limit > 0 {
		timeout = time.After(limit)
	}
	var problems []error
	for _, l := range s.locals {
		select {
		case err := <-l.firstStart:
			problems = append(problems, err)
		case <-timeout:
			if late == nil {
				return nil
			}
			return l.failure(late)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if len(s.Command) == 0 {
		return nil
	}
	return errors.Join(problems...)
}

// handleEvent shows an event of a process and notifies the manager.
func (s *session) handleEvent(l *localProcess, output process.Output, e process.Event) {
	switch {
	case e.Died != nil:
		if log, kept := output.(*logFile); kept {
			log.show()
		}
		s.Reporter.Problem(fmt.Errorf("process %s %w; restarting %s", l.Name, e.Died, restartTime(e)))
		s.exits.add(l.Name, e.Died)
		s.setDown(l, e.Died)
	case e.PrepareFailed != nil:
		s.Reporter.Problem(fmt.Errorf("%w; it is compiled again when one of its files changes", e.PrepareFailed))
		s.setDown(l, e.PrepareFailed)
	case e.Slow:
		s.Reporter.Warning("process %s is running, but nothing listens on port %d after %s",
			l.Name, l.port, progress.FormatDuration(e.Took))
		s.setDown(l, fmt.Errorf("running, but nothing listens on port %d after %s", l.port, progress.FormatDuration(e.Took)))
	case e.Ready:
		s.exits.remove(l.Name)
		if e.Cause != "" {
			s.Reporter.Event(e.Took, "%s: restarted %s", e.Cause, l.Name)
		}
		if e.Cause != "" || l.down {
			s.setUp(l)
		}
	}
}

// restartTime says when a process that exited is started again.
func restartTime(e process.Event) string {
	if e.Retry == 0 {
		return "when one of its files changes"
	}
	return "in " + progress.FormatDuration(e.Retry) + ", or when one of its files changes"
}

// setDown marks the controllers that call a process as not ready, by all addresses of its
// Service.
func (s *session) setDown(l *localProcess, err error) {
	l.down = true
	if l.Service == nil {
		return
	}
	for _, address := range l.Service.Addresses() {
		s.manager.HookDown(address, l.unreachable(err))
	}
}

// setUp reconciles the objects of the controllers that call a process.
func (s *session) setUp(l *localProcess) {
	l.down = false
	if l.Service == nil {
		return
	}
	for _, address := range l.Service.Addresses() {
		s.manager.HookRestarted(address)
	}
}
