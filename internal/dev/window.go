package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/reach"
)

// usualWindow is where the window is if nothing else is there, so that a page stays
// open from one session to the next.
const usualWindow = "127.0.0.1:7400"

// openWindow opens the address of the window; without one there is none.
func (s *session) openWindow(ctx context.Context) (host.DevWindow, error) {
	if s.UIAddress == "" {
		return host.DevWindow{}, nil
	}
	if at, err := netip.ParseAddrPort(s.UIAddress); err != nil || !at.Addr().IsLoopback() {
		return host.DevWindow{}, fmt.Errorf("--ui-address must be an address of loopback, such as 127.0.0.1:7400, and not %q: whoever comes there may do everything", s.UIAddress)
	}
	listener, err := listenNear(ctx, s.UIAddress)
	if err != nil {
		return host.DevWindow{}, fmt.Errorf("serve the window (--ui-address): %w", err)
	}
	s.window = "http://" + listener.Addr().String() + "/"
	return host.DevWindow{Listener: listener, Others: reach.Folder(s.inspected)}, nil
}

// listenNear listens at an address; where any port will do, at the usual one first.
func listenNear(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if address == AnyWindow {
		listener, err := config.Listen(ctx, "tcp", usualWindow)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
	}
	return config.Listen(ctx, "tcp", address)
}
