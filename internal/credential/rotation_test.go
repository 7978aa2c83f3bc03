package credential_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// tlsHook is a TLS hook that requires client certificates and can rotate its own.
type tlsHook struct {
	url string
	// pair is its certificate for new connections, clients the CAs it trusts.
	pair    atomic.Pointer[tls.Certificate]
	clients atomic.Pointer[x509.CertPool]
	// clientCerts identifies the latest caller and its certificates.
	clientCerts atomic.Value
}

func newTLSHook(t *testing.T, pair tls.Certificate, clients *testCA) *tlsHook {
	t.Helper()
	h := &tlsHook{}
	h.pair.Store(&pair)
	h.admit(clients)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	h.url = "https://" + listener.Addr().String()
	secured := tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*h.pair.Load()},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: h.clients.Load(),
			}, nil
		},
	})
	go func() { _ = server.Serve(secured) }()
	t.Cleanup(func() { _ = server.Close() })
	return h
}

func (h *tlsHook) admit(clients *testCA) {
	pool := x509.NewCertPool()
	pool.AddCert(clients.cert)
	h.clients.Store(pool)
}

func (h *tlsHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.clientCerts.Store(r.TLS.PeerCertificates[0].Subject.CommonName + " with " + r.Header.Get("Authorization"))
	_, _ = io.WriteString(w, `{"children":[]}`)
}

// All credentials rotate one after the other while the webhook is in use.
func TestRotation(t *testing.T) {
	a := newAPI(t)
	oldCA, newCA, clients := newTestCA(t), newTestCA(t), newTestCA(t)
	cert, key := clients.issue("first")
	h := newTLSHook(t, oldCA.pair("hook"), clients)
	a.put("configmaps/ops/ca", map[string]any{"data": map[string]string{"ca.crt": oldCA.pem}})
	a.secret("ops/hook", map[string]string{"tls.crt": cert, "tls.key": key, "token": "a"})

	spec := token("token")
	spec.ClientTLS = &credential.ClientTLS{SecretRef: opsHook}
	spec.CABundle = &credential.CABundle{ConfigMapRef: &credential.KeyRef{NamespacedName: types.NamespacedName{Namespace: "ops", Name: "ca"}}}
	o := open(t, a, spec)
	w := must.Get(webhook.New(webhook.Config{URL: h.url, Credentials: o.Current})).In(t)
	t.Cleanup(w.Close)
	call := func() error {
		_, err := w.Call(t.Context(), &hook.Request{})
		return err
	}
	passes := func(want string) {
		t.Helper()
		must.Succeed(t, call())
		if got := h.clientCerts.Load(); got != want {
			t.Errorf("seen as %s, want %s", got, want)
		}
	}

	passes("first with Bearer a")
	a.secret("ops/hook", map[string]string{"tls.crt": cert, "tls.key": key, "token": "b"})
	o.expectChange()
	passes("first with Bearer b")

	cert, key = clients.issue("second")
	a.secret("ops/hook", map[string]string{"tls.crt": cert, "tls.key": key, "token": "b"})
	o.expectChange()
	passes("second with Bearer b")

	renewed := newCA.pair("hook")
	h.pair.Store(&renewed)
	a.put("configmaps/ops/ca", map[string]any{"data": map[string]string{"ca.crt": oldCA.pem + newCA.pem}})
	o.expectChange()
	passes("second with Bearer b")
	a.put("configmaps/ops/ca", map[string]any{"data": map[string]string{"ca.crt": oldCA.pem}})
	o.expectChange()
	if err := call(); !strings.Contains(fmt.Sprint(err), "certificate signed by unknown authority") {
		t.Errorf("an untrusted hook was called: %v", err)
	}
	a.remove("secrets/ops/hook")
	o.expectChange()
	if err := call(); !strings.Contains(fmt.Sprint(err), "credentials: Secret ops/hook not found") {
		t.Errorf("asked without credentials: %v", err)
	}
	a.secret("ops/hook", map[string]string{"tls.crt": cert, "tls.key": key, "token": "c"})
	o.expectChange()
	a.put("configmaps/ops/ca", map[string]any{"data": map[string]string{"ca.crt": newCA.pem}})
	o.expectChange()
	passes("second with Bearer c")
}
