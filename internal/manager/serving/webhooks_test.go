package serving

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/admission/server"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// noObserver ignores reviews.
type noObserver struct{}

func (noObserver) Reviewed(admission.ReviewRecord, queue.Key, bool) {}
func (noObserver) EventAt(string, hook.ObjectEvent)                 {}

// denyAllProgram denies all requests.
func denyAllProgram(name string) *admission.Program {
	return &admission.Program{Name: name, Configuration: "setpoint-" + name, Webhooks: []admission.Webhook{{
		Name: "no",
		Admitter: hook.AdmitterFunc(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			return &hook.ReviewResponse{Denial: &hook.Denial{Message: "never"}}, nil
		}),
	}}}
}

// sendReview sends a review to the webhook server.
func sendReview(t *testing.T, s *Webhooks, path string) (code int, allowed bool) {
	t.Helper()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE","userInfo":{},"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}}`
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w.Code, strings.Contains(w.Body.String(), `"allowed":true`)
}

// A withdrawn webhook allows all requests, a rejected controller keeps its last program, and an
// unknown webhook is not found.
func TestWebhookServerWithdrawsPrograms(t *testing.T) {
	s := NewWebhooks(WebhookOptions{Observer: noObserver{}, Started: func() bool { return false }})
	s.server = server.New(server.Options{Observer: s})
	s.registrar = register.New(register.Options{})
	key := queue.Key{Namespace: "kind", Name: "policy"}
	const path = "/admit/setpoint-policy/no"
	expect := func(step string, code int, allowed bool) {
		t.Helper()
		if gotCode, gotAllowed := sendReview(t, s, path); gotCode != code || gotAllowed != allowed {
			t.Errorf("%s: %d, allowed %v", step, gotCode, gotAllowed)
		}
	}
	expect("nothing", http.StatusNotFound, false)
	s.Set(key, denyAllProgram("policy"))
	expect("declared", http.StatusOK, false)
	s.Reject(key)
	expect("rejected", http.StatusOK, false)
	s.Yield(key)
	expect("not registered any more", http.StatusOK, false)
	s.Set(key, nil)
	expect("deleted", http.StatusOK, true)
	s.Set(key, denyAllProgram("policy"))
	expect("declared again", http.StatusOK, false)
}

// The webhook address is configured, or on loopback.
func TestWebhookAddress(t *testing.T) {
	served := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9443}
	for _, c := range []struct {
		name  string
		given AdmissionOptions
		host  string
		want  string
	}{
		{"service", AdmissionOptions{Service: "setpoint"}, "https://10.0.0.1", "Service ops/setpoint"},
		{"url", AdmissionOptions{URL: "https://me:1", Service: "setpoint"}, "https://10.0.0.1", "https://me:1"},
		{"loopback", AdmissionOptions{}, "https://127.0.0.1:6443", "https://127.0.0.1:9443"},
		{"loopback by name", AdmissionOptions{}, "localhost:6443", "https://127.0.0.1:9443"},
		{"neither", AdmissionOptions{}, "https://10.0.0.1", "the API server at https://10.0.0.1 cannot reach the webhook server at 127.0.0.1:9443: set a Service or URL for it"},
	} {
		reach := Reach{AdmissionOptions: c.given, Namespace: "ops"}
		address, err := reach.address(c.host, served)
		got := address.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// However short-lived certificates are, a new CA is loaded everywhere before the previous one,
// which is replaced at two thirds of its lifetime, expires.
func TestCertificateLifetimes(t *testing.T) {
	if got := (AdmissionOptions{}).lifetimes(); got != (certs.Lifetimes{}) {
		t.Errorf("unset: %+v, want the defaults", got)
	}
	for _, life := range []time.Duration{time.Second, 10 * time.Minute, 90 * 24 * time.Hour} {
		got := AdmissionOptions{CertificateLifetime: life}.lifetimes()
		if got.Certificate != life || got.PropagationDelay <= 0 || got.PropagationDelay > 5*time.Minute || got.PropagationDelay >= got.Authority/3 {
			t.Errorf("%v: %+v", life, got)
		}
	}
}
