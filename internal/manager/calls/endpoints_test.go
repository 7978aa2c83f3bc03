package calls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Fault G7: calls of a real webhook show whether its address accepts connections.
func TestUnconnectedCalls(t *testing.T) {
	status := http.StatusInternalServerError
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	server.Listener.Close()
	address := unusedAddress(t)
	e := NewEndpoints()
	w := call.New(call.Config{
		Transport: must.Get(webhook.New(webhook.Config{URL: "http://" + address + "/sync"})).In(t), Wire: codec.Wire{Version: hook.V2},
		Observe: func(x call.Result) { e.RecordCall("shop", address, x) },
	})
	call := func(ctx context.Context) (unconnected string) {
		_, _ = w.Call(ctx, &hook.Request{Parent: []byte(`{}`)})
		_, unconnected = e.Failures("shop", []string{address})
		return unconnected
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := call(ended); got != "" {
		t.Errorf("a call that was given up: %s", got)
	}
	if got := call(t.Context()); !strings.Contains(got, "/sync: connection refused") {
		t.Errorf("the first call: %q", got)
	}
	if _, got := e.Failures("another", []string{address}); got != "" {
		t.Errorf("another controller: %s", got)
	}
	if got := call(ended); got == "" {
		t.Error("a call that was given up says that there is a connection")
	}
	server.Listener = must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", address)).In(t)
	server.Start()
	defer server.Close()
	if got := call(t.Context()); got != "" {
		t.Errorf("returned 500: %s", got)
	}
	server.Close()
	if got := call(t.Context()); got == "" {
		t.Error("it is gone again, and that is not known")
	}
	e.Remove("shop")
	if len(e.unconnected) != 0 {
		t.Errorf("kept of a controller that is gone: %v", e.unconnected)
	}
}

// unusedAddress returns an address whose port is free, and which no other test uses meanwhile: where the machine has all
// of 127.0.0.0/8, the host is a random one.
func unusedAddress(t *testing.T) string {
	t.Helper()
	var listens net.ListenConfig
	listener, err := listens.Listen(t.Context(), "tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		listener, err = listens.Listen(t.Context(), "tcp", "127.0.0.1:0")
	}
	must.Succeed(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
