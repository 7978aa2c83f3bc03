package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/reach"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// usualWindow is where the window is if nothing else is there, so that a page stays
// open from one session to the next.
const usualWindow = "127.0.0.1:7400"

// openWindow opens the address of the window; without one there is none.
func (s *session) openWindow(ctx context.Context) (host.Window, error) {
	if s.UIAddress == "" {
		return host.Window{}, nil
	}
	listener, err := listenNear(ctx, s.UIAddress)
	if err != nil {
		return host.Window{}, fmt.Errorf("serve the window (--ui-address): %w", err)
	}
	s.window = "http://" + listener.Addr().String() + "/"
	return host.Window{Listener: listener, Access: access.Options{Open: true}, Others: reach.Folder(s.inspected)}, nil
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
