package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Fault G7: a controller is not ready while the process of its hook is down, for all kinds
// of controllers and forms of the address.
func TestHookDown(t *testing.T) {
	m := &Manager{endpoints: newEndpoints(), inFlight: newInFlight()}
	m.controllers = newControllerSet(m)
	controllers := map[string]*compile.Compiled{
		"sync":    {Programs: []composite.Program{{Name: "sync"}}, HookAddresses: []string{"hook.web:80"}},
		"handler": {Handlers: []handler.Program{{Name: "handler"}}, HookAddresses: []string{"elsewhere:443", "hook.web.svc:8080"}},
		"review":  {Admission: &admission.Program{Name: "review"}, HookAddresses: []string{"hook.web.svc.cluster.local.:443"}},
		"other":   {Programs: []composite.Program{{Name: "other"}}, HookAddresses: []string{"hook.webs:80"}},
	}
	downAt := func(want map[string]bool) {
		t.Helper()
		for name, compiled := range controllers {
			r := &runningController{Compiled: compiled, inFlight: m.inFlight, endpoints: m.endpoints}
			got := readyCondition(conditionState{ok: true}, &controllerState{}, r.health())
			if down := got.reason == setpoint.ReasonHookUnreachable; down != want[name] || down && got.message != "process worker: ended with exit code 1" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	downAt(nil)
	for _, address := range []string{"hook.web", "hook.web.svc", "hook.web.svc.cluster.local"} {
		m.HookDown(address, errors.New("process worker:\n\tended with exit code 1"))
	}
	downAt(map[string]bool{"sync": true, "handler": true, "review": true})
	m.HookRestarted("hook.web")
	downAt(map[string]bool{"handler": true, "review": true})
	m.HookRestarted("hook.web.svc")
	m.HookRestarted("hook.web.svc.cluster.local")
	downAt(nil)
	m.HookDown("hook.web.svc:9090", errors.New("another port"))
	downAt(nil)
}

// Fault G7: calls of a real webhook show whether its address accepts connections.
func TestUnconnectedCalls(t *testing.T) {
	status := http.StatusInternalServerError
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	server.Listener.Close()
	address := unusedAddress(t)
	e := newEndpoints()
	w, err := webhook.New(webhook.Config{
		URL: "http://" + address + "/sync", Wire: hook.Wire{Version: hook.V2},
		Observe: func(x call.Result) { e.recordCall("shop", address, x) },
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context) (unconnected string) {
		_, _ = w.Call(ctx, &hook.Request{Parent: []byte(`{}`)})
		_, unconnected = e.failures("shop", []string{address})
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
	if _, got := e.failures("another", []string{address}); got != "" {
		t.Errorf("another controller: %s", got)
	}
	if got := call(ended); got == "" {
		t.Error("a call that was given up says that there is a connection")
	}
	if server.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address); err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer server.Close()
	if got := call(t.Context()); got != "" {
		t.Errorf("returned 500: %s", got)
	}
	server.Close()
	if got := call(t.Context()); got == "" {
		t.Error("it is gone again, and that is not known")
	}
	e.remove("shop")
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
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Fault G7: after a restart of the hook, failed reviews of its previous process do not make a
// controller unready. The next review may be long in coming.
func TestReviewFailuresOfPreviousProcess(t *testing.T) {
	m := &Manager{log: slog.New(slog.DiscardHandler), metrics: serving.NewMetrics(), options: Options{History: History{Off: true}}}
	newTestControllers(m)
	m.webhooks.Set(queue.Key{Name: "p"}, &admission.Program{Name: "p"})
	m.webhooks.Reviewed(admission.ReviewRecord{Program: "p", Webhook: "check", Err: errors.New("connection refused")})
	a := admissionWorker{m.webhooks, "p"}
	a.SyncAll(queue.Cause{Kind: queue.Resync})
	if got := a.Health(); got.HookFailing != 1 || got.HookMessage != "connection refused" {
		t.Errorf("%+v", got)
	}
	a.SyncAll(queue.Cause{Kind: queue.HookChanged})
	if got := a.Health(); got.HookFailing != 0 || got.HookMessage != "" || got.LastError.Message != "connection refused" {
		t.Errorf("%+v", got)
	}
}
