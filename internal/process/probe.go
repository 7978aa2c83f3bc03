package process

import (
	"context"
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

// FreePort finds a free port. Another program may take it before it is used.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
