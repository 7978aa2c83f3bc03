package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
)

// dial reaches hooks: a call to a Service that a process stands in for goes to
// that process, so that manifests made for a cluster run unchanged. A process
// that is just starting is waited for; one that is down is named.
func (s *session) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	l := s.processFor(addr)
	if l == nil {
		conn, err := dialer.DialContext(ctx, network, addr)
		if _, unknown := errors.AsType[*net.DNSError](err); unknown {
			return nil, fmt.Errorf("%w; %s", err, s.knownServices())
		}
		return conn, err
	}
	if err := l.process.WaitReady(ctx); err != nil {
		return nil, l.unreachable(err)
	}
	return dialer.DialContext(ctx, network, net.JoinHostPort("localhost", strconv.Itoa(l.port)))
}

// unreachable says which process does not answer, and in place of what.
func (l *localProcess) unreachable(err error) error {
	return fmt.Errorf("process %s, which stands in for %s: %w", l.Name, l.Service, err)
}

// knownServices names the hosts for which there are processes, in an error about another.
func (s *session) knownServices() string {
	var known []string
	for _, l := range s.locals {
		if l.Service != nil {
			known = append(known, l.Service.String())
		}
	}
	if len(known) == 0 {
		return "no process in a setpoint.yaml stands in for a Service: give one `service: NAME.NAMESPACE`"
	}
	return "processes in setpoint.yaml stand in for " + strings.Join(known, ", ")
}

// processFor is the process that answers for an address, or nil.
func (s *session) processFor(addr string) *localProcess {
	for _, l := range s.locals {
		if l.Service != nil && l.Service.Matches(addr) {
			return l
		}
	}
	return nil
}

// isStandIn says that a process answers for an address.
func (s *session) isStandIn(addr string) bool { return s.processFor(addr) != nil }

// hookEnv is the variable by which a command knows where the processes are.
func (s *session) hookEnv() []string {
	if routes := s.routes(); len(routes) > 0 {
		return []string{"SETPOINT_HOOKS=" + strings.Join(routes, ",")}
	}
	return nil
}

// routes say where the processes are that stand in for Services.
func (s *session) routes() []string {
	var routes []string
	for _, l := range s.locals {
		if l.Service != nil {
			routes = append(routes, l.Service.String()+"="+net.JoinHostPort("localhost", strconv.Itoa(l.port)))
		}
	}
	return routes
}

// publishHooks says by the kubeconfig where the processes are: `setpoint plan` calls them.
func (s *session) publishHooks(context.Context) error {
	return discovery.PublishHooks(s.inspectDir, s.routes())
}
