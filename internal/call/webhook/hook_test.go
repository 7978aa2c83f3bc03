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
	hooktest.Run(t, func(t *testing.T, logic hook.Hook) hook.Hook {
		return openServer(t, hooktest.HTTPHook(logic, hook.Composite), hook.Composite)
	})
}

func TestDecoratorHook(t *testing.T) {
	hooktest.RunDecorator(t, func(t *testing.T, logic hook.Hook) hook.Hook {
		return openServer(t, hooktest.HTTPHook(logic, hook.Decorator), hook.Decorator)
	})
}

func TestCustomizeHook(t *testing.T) {
	hooktest.RunCustomizer(t, func(t *testing.T, logic hook.Customizer) hook.Customizer {
		return openServer(t, hooktest.HTTPCustomizer(logic), hook.Decorator)
	})
}

func TestHandlerHook(t *testing.T) {
	hooktest.RunHandler(t, func(t *testing.T, logic hook.Handler) hook.Handler {
		return openServer(t, hooktest.HTTPHandler(logic), hook.Composite)
	})
}

func TestHookOverHTTP2(t *testing.T) {
	hooktest.Run(t, func(t *testing.T, logic hook.Hook) hook.Hook {
		return openHTTP2(t, hooktest.HTTPHook(logic, hook.Composite))
	})
}

func openServer(t *testing.T, handler http.Handler, form hook.ControllerType) *webhook.Webhook {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return open(t, webhook.Config{URL: server.URL, Wire: hook.Wire{Version: hook.V2, ControllerType: form}})
}

func openHTTP2(t *testing.T, handler http.Handler) *webhook.Webhook {
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
	w := open(t, webhook.Config{URL: server.URL, Wire: hook.Wire{Version: hook.V2}})
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
