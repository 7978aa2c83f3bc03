package webhook_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
)

// countConnections starts a server and counts its connections.
func countConnections(t *testing.T, handler http.HandlerFunc) (url string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, connections
}

func TestConnectionsAreReusedAfterErrors(t *testing.T) {
	for _, code := range []int{200, 204, 302, 404, 429, 500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			url, connections := countConnections(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(code)
				_, _ = io.WriteString(w, strings.Repeat("miaow ", 5000))
			})
			w := open(t, webhook.Config{URL: url})
			for range 20 {
				if _, err := w.Call(t.Context(), request()); err == nil {
					t.Fatal("no error")
				}
			}
			if n := connections.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

func TestConnectionsAreKeptForEveryCaller(t *testing.T) {
	const callers, rounds = 12, 20
	// In every round, all callers wait for each other within the hook.
	var round sync.WaitGroup
	url, connections := countConnections(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		round.Done()
		round.Wait()
		_, _ = io.WriteString(w, `{"children":[]}`)
	})
	w := open(t, webhook.Config{URL: url, Concurrency: callers})
	for range rounds {
		round.Add(callers)
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				if _, err := w.Call(t.Context(), request()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	// A connection becomes idle shortly after its response, so some callers dial a new
	// one. Without reuse, nearly every call would.
	if n := connections.Load(); n > callers*rounds/2 {
		t.Errorf("%d connections for %d callers", n, callers)
	}
	t.Logf("%d connections for %d callers", connections.Load(), callers)
}
