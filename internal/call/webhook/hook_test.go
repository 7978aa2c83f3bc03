package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/hook/hooktest"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestHook(t *testing.T) {
	hooktest.Run(t, func(t *testing.T, logic http.Handler, wire codec.Wire) hooktest.Caller {
		return openServer(t, logic, wire)
	})
}

func TestHookOverHTTP2(t *testing.T) {
	hooktest.Run(t, func(t *testing.T, logic http.Handler, wire codec.Wire) hooktest.Caller {
		return openHTTP2(t, logic, wire)
	})
}

func openServer(t *testing.T, handler http.Handler, wire codec.Wire) testHook {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return open(t, webhook.Config{URL: server.URL}, call.Config{Wire: wire})
}

func openHTTP2(t *testing.T, handler http.Handler, wire codec.Wire) testHook {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("called over %s", r.Proto)
		}
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	var held credentialStore
	held.now.Store(&webhook.Credentials{TLS: trustConfig(server)})
	return open(t, webhook.Config{URL: server.URL, Credentials: held.current}, call.Config{Wire: wire})
}

// testHook is a hook over a transport.
type testHook struct {
	*call.Hook

	transport *webhook.Transport
}

func open(t testing.TB, c webhook.Config, of ...call.Config) testHook {
	t.Helper()
	w := must.Get(webhook.New(c)).In(t)
	t.Cleanup(w.Close)
	of = append(of, call.Config{})
	of[0].Transport = w
	return testHook{call.New(of[0]), w}
}
