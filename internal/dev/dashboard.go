package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/dashboard"
	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// DefaultDashboardAddress is tried first, so that open pages keep working in the next
// session.
const DefaultDashboardAddress = "127.0.0.1:7400"

// openDashboard listens on the dashboard's address; without an address there is no dashboard.
func (s *session) openDashboard(ctx context.Context) (manager.Dashboard, error) {
	if s.DashboardAddress == "" {
		return nil, nil //nolint:nilnil // The dashboard is disabled.
	}
	if at, err := netip.ParseAddrPort(s.DashboardAddress); err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("--dashboard-address must be an address of loopback, such as 127.0.0.1:7400, and not %q: its pages have "+
			"all rights of the session", s.DashboardAddress)
	}
	listener, err := listenNear(ctx, s.DashboardAddress)
	if err != nil {
		return nil, fmt.Errorf("serve the dashboard (--dashboard-address): %w", err)
	}
	token := rand.Text()
	s.dashboardURL = "http://" + listener.Addr().String() + "/?" + access.TokenParameter + "=" + token
	return &devDashboard{session: s, listener: listener, token: token}, nil
}

// devDashboard serves the dashboard to who knows the token, for all processes of the session.
type devDashboard struct {
	session  *session
	token    string
	listener net.Listener
}

// Check implements manager.Dashboard.
func (*devDashboard) Check() error { return nil }

// Open implements manager.Dashboard.
func (d *devDashboard) Open(_ context.Context, p manager.DashboardProcess) ([]serving.Endpoint, error) {
	others := locate.FolderSources(d.session.inspectDir)
	sources := func(ctx context.Context) []inspect.Source {
		// Discovery also finds this process.
		found := slices.DeleteFunc(others(ctx), func(s inspect.Source) bool { return s.Name() == p.Source.Name() })
		return append([]inspect.Source{p.Source}, found...)
	}
	handler, err := dashboard.NewForConfig(p.Config, dashboard.Options{
		Access: access.Options{Token: d.token}, Sources: sources, Exits: d.session.locals.exits,
		Version: p.Version, Log: p.Log,
	})
	if err != nil {
		return nil, err
	}
	return []serving.Endpoint{{Listener: d.listener, Handler: handler}}, nil
}

// listenNear listens at an address; for any port it tries the default one first.
func listenNear(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if address == AnyDashboardAddress {
		listener, err := config.Listen(ctx, "tcp", DefaultDashboardAddress)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
	}
	return config.Listen(ctx, "tcp", address)
}
