package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// localProcess is a running process of a project.
type localProcess struct {
	project.Process
	process    *process.Process
	output     *recentOutput
	sources    sources
	firstStart chan error // receives the result of the first start
	// compiled is the error of the first compilation, for the first start.
	compiled error
	started  bool
	// down reports whether the manager knows that the process does not respond. Only
	// handleEvent uses it.
	down bool
	// exit is how the process ended; nil while it runs.
	exit atomic.Pointer[processes.Exit]
}

// prepareProcesses creates all processes before any is started, because the manager may call any of them at any time.
func (s *session) prepareProcesses(ctx context.Context) (err error) {
	for _, l := range s.locals {
		if l.output, err = newRecentOutput(s.Reporter, s.ProcessLogs, l.Name); err != nil {
			return err
		}
		rights, err := s.accountEnv(ctx, l.Process)
		if err != nil {
			return fmt.Errorf("process %s: serviceAccountFrom: %w", l.Name, err)
		}
		l.process = process.New(process.Options{
			Prepare: func(ctx context.Context) error { return s.prepare(ctx, l) },
			Command: l.Command, Env: slices.Concat(s.environment(), rights, l.Environ()), Dir: l.Dir,
			Port: l.Port, ReadyPath: l.Ready,
			Output: l.output, Reaper: s.reaper, Grace: processGrace,
			Notify:   func(e process.Event) { s.handleEvent(l, e) },
			Hopeless: func(code int) bool { return l.RunsOperator() && code == operator.ImportCode },
		})
	}
	return nil
}

func (s *session) startProcesses(ctx context.Context) error {
	for _, l := range s.locals {
		l.firstStart = make(chan error, 1)
		done := s.phase("process " + l.Name)
		s.background.Go(func() { l.process.Run(ctx) })
		s.background.Go(func() {
			err := l.process.WaitReady(ctx)
			if err != nil {
				err = l.failure(err)
			}
			done(err)
			l.firstStart <- err
		})
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
	limit := readyLimit
	if len(s.Command) > 0 {
		limit = s.ReadyTimeout
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
			continue
		case <-timeout:
			if len(s.Command) > 0 {
				return l.failure(fmt.Errorf("not ready after %s (--ready-timeout)", limit))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		break
	}
	if len(s.Command) == 0 {
		return nil
	}
	return errors.Join(problems...)
}

// handleEvent shows an event of a process and notifies the manager.
func (s *session) handleEvent(l *localProcess, e process.Event) {
	setDown := func(err error) {
		l.down = true
		l.eachAddress(func(address string) { s.manager.HookDown(address, l.unreachable(err)) })
	}
	switch {
	case e.Died != nil:
		l.output.showTail()
		restart := "when one of its files changes"
		if e.Retry > 0 {
			restart = "in " + progress.FormatDuration(e.Retry) + ", or " + restart
		}
		s.Reporter.Problem(fmt.Errorf("process %s %w; restarting %s", l.Name, e.Died, restart))
		l.exit.Store(&processes.Exit{Process: l.Name, Text: e.Died.Error(), At: time.Now()})
		setDown(e.Died)
	case e.PrepareFailed != nil:
		s.Reporter.Problem(fmt.Errorf("%w; it is compiled again when one of its files changes", e.PrepareFailed))
		setDown(e.PrepareFailed)
	case e.Slow:
		slow := fmt.Errorf("running, but nothing listens on port %d after %s", l.Port, progress.FormatDuration(e.Took))
		s.Reporter.Warning("process %s is %s", l.Name, slow)
		setDown(slow)
	case e.Ready:
		l.exit.Store(nil)
		if e.Cause != "" {
			s.Reporter.Event(e.Took, "%s: restarted %s", e.Cause, l.Name)
		}
		if e.Cause != "" || l.down {
			l.down = false
			l.eachAddress(s.manager.HookRestarted)
		}
	}
}

// eachAddress calls a function with all addresses of the process's Service.
func (l *localProcess) eachAddress(call func(address string)) {
	if l.Service != nil {
		for _, address := range l.Service.Addresses() {
			call(address)
		}
	}
}

// unreachable names the process that does not respond, and its Service.
func (l *localProcess) unreachable(err error) error {
	return fmt.Errorf("process %s (service %s): %w", l.Name, l.Service, err)
}

// locals are the processes of all projects.
type locals []*localProcess

// replacing returns the processes in place of a Service.
func (ls locals) replacing() locals {
	return lists.Filter(ls, func(l *localProcess) bool { return l.Service != nil })
}

// serving returns the process for an address, or nil.
func (ls locals) serving(address string) *localProcess {
	for _, l := range ls.replacing() {
		if l.Service.Matches(address) {
			return l
		}
	}
	return nil
}

// dial connects to hooks. A call to a Service that a process replaces goes to the process,
// so that manifests run unchanged. It waits for a process that is starting, and fails for
// one that is down.
func (ls locals) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	l := ls.serving(address)
	if l == nil {
		conn, err := dialer.DialContext(ctx, network, address)
		if _, unknown := errors.AsType[*net.DNSError](err); unknown {
			return nil, fmt.Errorf("%w; %s", err, ls.known())
		}
		return conn, err
	}
	if err := l.process.WaitReady(ctx); err != nil {
		return nil, l.unreachable(err)
	}
	return dialer.DialContext(ctx, network, net.JoinHostPort("localhost", strconv.Itoa(l.Port)))
}

// known lists the Services with a process, for an error about another host.
func (ls locals) known() string {
	known := lists.Map(ls.replacing(), func(l *localProcess) string { return l.Service.String() })
	if len(known) == 0 {
		return "no process in setpoint.yaml has a service: add `service: NAME.NAMESPACE` to one"
	}
	return "setpoint.yaml has processes for the services " + strings.Join(known, ", ")
}

// routes maps Services to the processes in their place.
func (ls locals) routes() []string {
	return lists.Map(ls.replacing(), func(l *localProcess) string {
		return l.Service.String() + "=" + net.JoinHostPort("localhost", strconv.Itoa(l.Port))
	})
}

// exits returns the processes that have exited and do not run again yet, for the dashboard.
func (ls locals) exits() (all []processes.Exit) {
	for _, l := range ls {
		if exit := l.exit.Load(); exit != nil {
			all = append(all, *exit)
		}
	}
	return all
}
