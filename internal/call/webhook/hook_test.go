package webhook_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/hooktest"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestHook(t *testing.T) {
	hooktest.Run(t, func(t *testing.T, logic http.Handler, wire hook.Wire) hooktest.Caller {
		return openServer(t, logic, wire)
	})
}

func TestHookOverHTTP2(t *testing.T) {
	hooktest.Run(t, func(t *testing.T, logic http.Handler, wire hook.Wire) hooktest.Caller {
		return openHTTP2(t, logic, wire)
	})
}

func openServer(t *testing.T, handler http.Handler, wire hook.Wire) *webhook.Webhook {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return open(t, webhook.Config{URL: server.URL, Wire: wire})
}

func openHTTP2(t *testing.T, handler http.Handler, wire hook.Wire) *webhook.Webhook {
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
	w := open(t, webhook.Config{URL: server.URL, Wire: wire})
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	w.TrustRoots(roots)
	return w
}

func open(t testing.TB, c webhook.Config) *webhook.Webhook {
	t.Helper()
	w := must.Get(webhook.New(c)).In(t)
	t.Cleanup(w.Close)
	return w
}
