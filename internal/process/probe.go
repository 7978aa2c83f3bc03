package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// probeEvery is short because every restart of a hook waits for it.
const probeEvery = 20 * time.Millisecond

// awaitReady waits until something listens at the port and, with a path, responds without
// an error. It returns false if ctx ends first.
func awaitReady(ctx context.Context, port int, path string) bool {
	if port == 0 {
		return true
	}
	return wait.PollUntilContextCancel(ctx, probeEvery, true, func(ctx context.Context) (bool, error) {
		return isReady(ctx, port, path), nil
	}) == nil
}

// isReady uses localhost because some programs listen on ::1 only.
func isReady(ctx context.Context, port int, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addr := net.JoinHostPort("localhost", strconv.Itoa(port))
	if path == "" {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := (&http.Transport{}).RoundTrip(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode < http.StatusBadRequest
}

// The ports of FreePorts are below those that operating systems choose for programs that listen on
// any port, so no program takes one by chance before it is used.
const (
	firstPort = 20000
	portCount = 12000
)

// FreePorts returns a function that finds free ports on loopback, each time another one. It must not
// be called concurrently.
func FreePorts() func() (int, error) {
	next := rand.IntN(portCount)
	return func() (int, error) {
		for range portCount {
			port := firstPort + next%portCount
			next++
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				return port, listener.Close()
			}
		}
		return 0, fmt.Errorf("no port from %d to %d is free", firstPort, firstPort+portCount-1)
	}
}
