package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/process"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
)

// localProcess is a process of a project, running.
type localProcess struct {
	project.Process
	port       int
	process    *process.Process
	sources    sources
	firstStart chan error // gets how the first start went
	// down says that the engine knows that the process does not answer. It belongs to
	// tell.
	down bool
}

// prepareProcesses makes the processes of all projects, each with its port, before any
// is started: the engine may ask for any of them at any time.
func (s *session) prepareProcesses(context.Context) error {
	var problems []error
	for _, w := range s.projects {
		ports, err := s.findPorts(w)
		problems = append(problems, err)
		for _, wanted := range w.Processes {
			l, err := s.newLocalProcess(w, wanted, ports)
			if err != nil {
				return err
			}
			s.locals = append(s.locals, l)
		}
	}
	return errors.Join(problems...)
}

// findPorts finds ports for those processes of a project that are told one, by
// their names.
func (s *session) findPorts(w *workspace) (map[string]int, error) {
	ports := map[string]int{}
	for _, wanted := range w.Processes {
		if !wanted.UsesPort() {
			continue
		}
		port, err := s.FreePort()
		if err != nil {
			return nil, fmt.Errorf("process %s: find a free port: %w", wanted.Name, err)
		}
		ports[wanted.Name] = port
	}
	return ports, nil
}

func (s *session) newLocalProcess(w *workspace, wanted project.Process, ports map[string]int) (*localProcess, error) {
	port := ports[wanted.Name]
	l := &localProcess{port: port, sources: sourcesOf(w.Project, wanted)}
	var prepare func(context.Context) error
	if c := w.compilers[wanted.Name]; c != nil {
		wanted, prepare = c.process, c.prepare
	}
	l.Process = wanted.WithPorts(port, ports)
	output, err := s.output(l.Name)
	if err != nil {
		return nil, err
	}
	l.process = process.New(process.Options{
		Prepare: prepare, Command: l.Command, Env: append(s.environment(), pairs(l.Env)...), Dir: l.Dir,
		Port: l.port, ReadyPath: l.Ready,
		Output: output, Reaper: s.reaper, Grace: processGrace,
		Notify: func(e process.Event) { s.handleEvent(l, output, e) },
	})
	return l, nil
}

func pairs(env map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

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

// awaitFirstStart waits until the process has come up or failed to.
func (l *localProcess) awaitFirstStart(ctx context.Context) error {
	if err := l.process.WaitReady(ctx); err != nil {
		return l.failure(err)
	}
	return nil
}

// failure says which process does not run.
func (l *localProcess) failure(err error) error {
	return fmt.Errorf("process %s (%s): %w", l.Name, strings.Join(l.Written, " "), err)
}

// awaitProcesses waits until each has come up or failed to. One that failed can be
// edited until it works, and one that is slow may still come; a command, though, could
// only fail without it.
func (s *session) awaitProcesses(ctx context.Context) error {
	limit, late := readyLimit, error(nil)
	if len(s.Command) > 0 {
		limit = s.ReadyTimeout
		late = fmt.Errorf("it does not answer after %s (--ready-timeout)", limit)
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

// handleEvent shows what happened to a process, and says to the engine whether it answers.
func (s *session) handleEvent(l *localProcess, output process.Output, e process.Event) {
	switch {
	case e.Died != nil:
		if log, kept := output.(*logFile); kept {
			log.show()
		}
		s.Reporter.Problem(fmt.Errorf("process %s %w; starting it again in %s, or when a file of it changes",
			l.Name, e.Died, progress.FormatDuration(e.Retry)))
		s.setDown(l, e.Died)
	case e.PrepareFailed != nil:
		s.Reporter.Problem(fmt.Errorf("%w; it is compiled again when a file of it changes", e.PrepareFailed))
		s.setDown(l, e.PrepareFailed)
	case e.Slow:
		s.Reporter.Warning("process %s runs; nothing answers on port %d yet, after %s", l.Name, l.port, progress.FormatDuration(e.Took))
		s.setDown(l, fmt.Errorf("it runs; nothing answers on port %d yet, after %s", l.port, progress.FormatDuration(e.Took)))
	case e.Ready:
		if e.Cause != "" {
			s.Reporter.Event(e.Took, "%s: restarted %s", e.Cause, l.Name)
		}
		if e.Cause != "" || l.down {
			s.setUp(l)
		}
	}
}

// setDown marks the controllers behind a process as not ready, however they write its
// address.
func (s *session) setDown(l *localProcess, err error) {
	l.down = true
	if l.Service == nil {
		return
	}
	for _, address := range l.Service.Addresses() {
		s.manager.HookDown(address, l.unreachable(err))
	}
}

// setUp makes the controllers behind a process sync their objects again.
func (s *session) setUp(l *localProcess) {
	l.down = false
	if l.Service == nil {
		return
	}
	for _, address := range l.Service.Addresses() {
		s.manager.HookRestarted(address)
	}
}
