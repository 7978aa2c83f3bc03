package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// denying is a program that refuses everything.
func denying(name string) *admission.Program {
	return &admission.Program{Name: name, Configuration: "setpoint-" + name, Webhooks: []admission.Webhook{{
		Name: "no",
		Do: hook.AdmitterFunc(func(context.Context, *hook.Review) (*hook.Verdict, error) {
			return &hook.Verdict{Denial: &hook.Denial{Message: "never"}}, nil
		}),
	}}}
}

// answerOfGate is what the API server gets to hear at a path.
func answerOfGate(t *testing.T, g *gate, path string) (code int, allowed bool) {
	t.Helper()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE","userInfo":{},"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}}`
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	g.server.ServeHTTP(w, r)
	return w.Code, strings.Contains(w.Body.String(), `"allowed":true`)
}

// While the API server still asks for what is gone, all is allowed; what an edit
// has spoiled stays in force, and what nobody ever knew is no verdict.
func TestGateWithdraws(t *testing.T) {
	h := &Host{log: slog.New(slog.DiscardHandler), metrics: newMetrics(), book: inspect.NewBook(inspect.BookOptions{}, time.Now())}
	fleetOf(h)
	g := h.gate
	g.server = admission.NewServer(admission.ServerOptions{Observer: g})
	g.registrar = admission.NewRegistrar(admission.RegistrarOptions{})
	key := queue.Key{Namespace: "kind", Name: "policy"}
	const path = "/admit/setpoint-policy/no"
	expect := func(step string, code int, allowed bool) {
		t.Helper()
		if gotCode, gotAllowed := answerOfGate(t, g, path); gotCode != code || gotAllowed != allowed {
			t.Errorf("%s: %d, allowed %v", step, gotCode, gotAllowed)
		}
	}
	expect("nothing", http.StatusNotFound, false)
	g.put(key, denying("policy"))
	expect("declared", http.StatusOK, false)
	g.refuse(key)
	expect("spoiled", http.StatusOK, false)
	g.drop(key)
	expect("gone", http.StatusOK, true)
	g.put(key, denying("policy"))
	expect("declared again", http.StatusOK, false)
}

// A review that was in flight while its controller went keeps nothing alive of it.
func TestGateForgets(t *testing.T) {
	h := &Host{log: slog.New(slog.DiscardHandler), metrics: newMetrics(), book: inspect.NewBook(inspect.BookOptions{}, time.Now())}
	fleetOf(h)
	key, review := queue.Key{Namespace: "kind", Name: "policy"}, admission.Occasion{Program: "policy", Webhook: "no", Result: admission.Denied}
	h.gate.put(key, denying("policy"))
	h.gate.Admitted(review)
	if runs := h.book.Stats().Runs; runs != 1 {
		t.Errorf("%d reviews are kept", runs)
	}
	h.gate.drop(key)
	h.book.Forget("policy")
	review.Err = errors.New("too late")
	h.gate.Admitted(review)
	if runs, calls := h.book.Stats().Runs, h.book.Calls("policy"); runs != 0 || len(calls) != 0 || len(h.gate.failures) != 0 {
		t.Errorf("%d runs, calls %v, failures %v of a controller that is gone", runs, calls, h.gate.failures)
	}
}

// The way by which the API server comes is said, or can be seen.
func TestReviewAddress(t *testing.T) {
	served := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9443}
	for _, c := range []struct {
		name  string
		given Admission
		host  string
		want  string
	}{
		{"service", Admission{Service: "setpoint"}, "https://10.0.0.1", "Service ops/setpoint"},
		{"url", Admission{URL: "https://me:1", Service: "setpoint"}, "https://10.0.0.1", "https://me:1"},
		{"loopback", Admission{}, "https://127.0.0.1:6443", "https://127.0.0.1:9443"},
		{"loopback by name", Admission{}, "localhost:6443", "https://127.0.0.1:9443"},
		{"neither", Admission{}, "https://10.0.0.1", "the API server at https://10.0.0.1 cannot come to 127.0.0.1:9443: say by which Service or URL it can"},
	} {
		o := Options{Admission: c.given, Namespace: "ops", Config: &rest.Config{Host: c.host}}
		address, err := o.reviewAddress(served)
		got := address.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// However short certificates live, a new CA is known everywhere before the former one
// has expired that is due to be followed at two thirds of its life.
func TestCertificateLifetimes(t *testing.T) {
	if got := (Admission{}).lifetimes(); got != (admission.Lifetimes{}) {
		t.Errorf("nothing said: %+v, not the defaults", got)
	}
	for _, life := range []time.Duration{time.Second, 10 * time.Minute, 90 * 24 * time.Hour} {
		got := Admission{CertificateLifetime: life}.lifetimes()
		if got.Certificate != life || got.Settled <= 0 || got.Settled > 5*time.Minute || got.Settled >= got.Authority/3 {
			t.Errorf("%v: %+v", life, got)
		}
	}
}
