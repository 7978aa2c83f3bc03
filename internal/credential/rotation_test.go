package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
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
	spec.ClientTLS = &api.ClientTLS{SecretRef: opsHook}
	spec.CABundle = &api.CABundle{ConfigMapRef: &api.CertificateKeyReference{ObjectReference: api.ObjectReference{Namespace: "ops", Name: "ca"}}}
	o := open(t, a, spec)
	w := call.New(call.Config{Transport: must.Get(webhook.New(webhook.Config{URL: h.url, Credentials: o.Current})).In(t)})
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

type testCA struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// pem is the CA certificate.
	pem string
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	a := &testCA{t: t}
	template := &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}
	a.cert, a.key = a.sign("authority", template)
	a.pem = encodePEM("CERTIFICATE", a.cert.Raw)
	return a
}

// sign signs a certificate; the first one is the self-signed CA.
func (a *testCA) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).In(a.t)
	template.SerialNumber, template.Subject = must.Get(rand.Int(rand.Reader, big.NewInt(1<<62))).In(a.t), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	raw := must.Get(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)).In(a.t)
	return must.Get(x509.ParseCertificate(raw)).In(a.t), key
}

// issue returns a certificate for 127.0.0.1 or a client, and its key.
func (a *testCA) issue(name string) (cert, key string) {
	a.t.Helper()
	signed, privateKey := a.sign(name, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	raw := must.Get(x509.MarshalPKCS8PrivateKey(privateKey)).In(a.t)
	return encodePEM("CERTIFICATE", signed.Raw), encodePEM("PRIVATE KEY", raw)
}

// pair is issue for use in this process.
func (a *testCA) pair(name string) tls.Certificate {
	a.t.Helper()
	cert, key := a.issue(name)
	return must.Get(tls.X509KeyPair([]byte(cert), []byte(key))).In(a.t)
}

func encodePEM(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}
