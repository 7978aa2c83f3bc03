package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// dial connects to hooks. A call to a Service that a process replaces goes to the process,
// so that manifests run unchanged. It waits for a process that is starting, and fails for
// one that is down.
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

// unreachable names the process that does not respond, and its Service.
func (l *localProcess) unreachable(err error) error {
	return fmt.Errorf("process %s (service %s): %w", l.Name, l.Service, err)
}

// knownServices lists the Services with a process, for an error about another host.
func (s *session) knownServices() string {
	var known []string
	for _, l := range s.locals {
		if l.Service != nil {
			known = append(known, l.Service.String())
		}
	}
	if len(known) == 0 {
		return "no process in setpoint.yaml has a service: add `service: NAME.NAMESPACE` to one"
	}
	return "setpoint.yaml has processes for the services " + strings.Join(known, ", ")
}

// processFor returns the process for an address, or nil.
func (s *session) processFor(addr string) *localProcess {
	for _, l := range s.locals {
		if l.Service != nil && l.Service.Matches(addr) {
			return l
		}
	}
	return nil
}

// isStandIn reports whether a process serves an address.
func (s *session) isStandIn(addr string) bool { return s.processFor(addr) != nil }

// hookEnv returns the environment variable with the routes to the processes.
func (s *session) hookEnv() []string {
	if routes := s.routes(); len(routes) > 0 {
		return []string{"SETPOINT_HOOKS=" + strings.Join(routes, ",")}
	}
	return nil
}

// routes maps Services to the processes in their place.
func (s *session) routes() []string {
	var routes []string
	for _, l := range s.locals {
		if l.Service != nil {
			routes = append(routes, l.Service.String()+"="+net.JoinHostPort("localhost", strconv.Itoa(l.port)))
		}
	}
	return routes
}

// publishHooks publishes the routes for `setpoint plan`, which finds them by the
// kubeconfig.
func (s *session) publishHooks(context.Context) (err error) {
	s.withdrawHooks, err = locate.PublishHooks(s.inspectDir, s.routes())
	return err
}
