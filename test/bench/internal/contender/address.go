package contender

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

// Ports below the ephemeral range (from 32768 on Linux): no other process gets one by
// chance while the hook is down.
const (
	firstSteady = 21_000
	lastSteady  = 21_999
)

// FreeAddress is a loopback address that was free a moment ago.
func FreeAddress(ctx context.Context) (string, error) {
	return tryAddress(ctx, probe.AnyAddress)
}

// steadyAddress is one that can be left and come back to.
func steadyAddress(ctx context.Context) (string, error) {
	var last error
	for port := firstSteady; port <= lastSteady; port++ {
		address, err := tryAddress(ctx, "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return address, nil
		}
		last = err
	}
	return "", last
}

func tryAddress(ctx context.Context, address string) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
