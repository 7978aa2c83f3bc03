package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// localProcess is a running process of a project.
type localProcess struct {
	project.Process
	process    *process.Supervisor
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

// failure names the process in an error.
func (l *localProcess) failure(err error) error {
	return fmt.Errorf("%s: %w", l.Describe(), err)
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

// at returns the process for an address, or nil.
func (ls locals) at(address string) *localProcess {
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
	l := ls.at(address)
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

// readiness returns the line that everything is ready, or what is not.
func (ls locals) readiness(unapplied []string, took string) string {
	var problems []string
	for _, l := range ls {
		ready, failed := l.process.State()
		if !ready && failed == nil {
			failed = fmt.Errorf("nothing listens on port %d yet", l.Port)
		}
		if failed != nil {
			problems = append(problems, l.failure(failed).Error())
		}
	}
	for _, dir := range unapplied {
		problems = append(problems, "the manifests of "+dir+" are not all applied")
	}
	if len(problems) == 0 {
		return fmt.Sprintf("\nReady after %s.\n\n", took)
	}
	return fmt.Sprintf("\nStarted after %s, not everything is ready:\n  %s\n\n", took, strings.Join(problems, "\n  "))
}
