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
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// devDashboard serves the dashboard to who knows the token, for all processes of the session.
type devDashboard struct {
	listener net.Listener
	token    string
	// folder has the inspect endpoints of the processes; exits returns those that have exited.
	folder string
	exits  func() []processes.Exit
}

// listenForDashboard listens on the dashboard's address.
func listenForDashboard(ctx context.Context, address string) (*devDashboard, error) {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("--dashboard-address must be an address of loopback, such as 127.0.0.1:7400, and not %q: its pages have "+
			"all rights of the session", address)
	}
	listener, err := listenNear(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("serve the dashboard (--dashboard-address): %w", err)
	}
	return &devDashboard{listener: listener, token: rand.Text()}, nil
}

func (d *devDashboard) url() string {
	return "http://" + d.listener.Addr().String() + "/?" + access.TokenParameter + "=" + d.token
}

// Check implements manager.Dashboard.
func (*devDashboard) Check() error { return nil }

// Open implements manager.Dashboard.
func (d *devDashboard) Open(_ context.Context, p manager.DashboardProcess) ([]serving.Endpoint, error) {
	others := locate.FolderSources(d.folder)
	sources := func(ctx context.Context) []inspect.Source {
		// Discovery also finds this process.
		found := slices.DeleteFunc(others(ctx), func(s inspect.Source) bool { return s.Name() == p.Source.Name() })
		return append([]inspect.Source{p.Source}, found...)
	}
	handler, err := dashboard.NewForConfig(p.Config, dashboard.Options{
		Access: access.Options{Token: d.token}, Sources: sources, Exits: d.exits,
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
