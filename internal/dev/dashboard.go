package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// defaultDashboardAddress is where the window is if nothing else is there, so that a page stays
// open from one session to the next.
const defaultDashboardAddress = "127.0.0.1:7400"

// openDashboard opens the address of the window; without one there is none.
func (s *session) openDashboard(ctx context.Context) (manager.DevDashboard, error) {
	if s.DashboardAddress == "" {
		return manager.DevDashboard{}, nil
	}
	if at, err := netip.ParseAddrPort(s.DashboardAddress); err != nil || !at.Addr().IsLoopback() {
		return manager.DevDashboard{}, fmt.Errorf("--ui-address must be an address of loopback, such as 127.0.0.1:7400, and not %q: whoever comes there may do everything", s.DashboardAddress)
	}
	listener, err := listenNear(ctx, s.DashboardAddress)
	if err != nil {
		return manager.DevDashboard{}, fmt.Errorf("serve the dashboard (--ui-address): %w", err)
	}
	s.dashboardURL = "http://" + listener.Addr().String() + "/"
	return manager.DevDashboard{Listener: listener, OtherSources: discovery.FolderSources(s.inspectDir)}, nil
}

// listenNear listens at an address; where any port will do, at the usual one first.
func listenNear(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if address == AnyDashboardAddress {
		listener, err := config.Listen(ctx, "tcp", defaultDashboardAddress)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
	}
	return config.Listen(ctx, "tcp", address)
}
