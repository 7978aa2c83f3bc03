package manager

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

func TestDashboardIsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		window  Dashboard
		ok      bool
		exposed bool
	}{
		"none":            {ok: true},
		"on loopback":     {window: Dashboard{Address: "127.0.0.1:8443"}, ok: true},
		"on localhost":    {window: Dashboard{Address: "localhost:8443"}, ok: true},
		"in the open":     {window: Dashboard{Address: ":8443"}, ok: true, exposed: true},
		"with TLS":        {window: Dashboard{Address: ":8443", CertFile: "a", KeyFile: "b"}, ok: true},
		"half of TLS":     {window: Dashboard{Address: ":8443", CertFile: "a"}},
		"behind a proxy":  {window: Dashboard{Address: ":8443", TrustedProxies: []string{"10.0.0.0/8", "::1"}}, ok: true},
		"a proxy by name": {window: Dashboard{Address: ":8443", TrustedProxies: []string{"proxy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.window.check(); (err == nil) != c.ok {
				t.Errorf("check: %v", err)
			}
			if c.ok && c.window.Address != "" && c.window.exposesTokens() != c.exposed {
				t.Errorf("exposed: %v", !c.exposed)
			}
		})
	}
}

// writeCertificate writes a self-signed certificate and its key.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnreadableCertificateIsLoggedOnce(t *testing.T) {
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	writeCertificate(t, cert, key)
	var log bytes.Buffer
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	files := &certificateFiles{cert: cert, key: key, log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	expectWarnings := func(when string, times int) {
		t.Helper()
		now = now.Add(time.Minute)
		if loaded, err := files.current(nil); err != nil || loaded == nil {
			t.Errorf("%s: %v", when, err)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != times {
			t.Errorf("%s: logged %d times: %s", when, got, log.String())
		}
	}
	expectWarnings("initially", 0)
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(cert, now, now); err != nil {
		t.Fatal(err)
	}
	expectWarnings("nonsense", 1)
	expectWarnings("nonsense still", 1)
	if !strings.Contains(log.String(), "expires=2040-01-02T03:04:05Z") {
		t.Errorf("the expiry is not logged: %s", log.String())
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	expectWarnings("gone", 2)
	writeCertificate(t, cert, key)
	expectWarnings("renewed", 2)
}

func TestWritesAreLogged(t *testing.T) {
	var log bytes.Buffer
	m := &Manager{log: slog.New(slog.NewTextHandler(&log, nil))}
	ingress := model.Ref{Kind: model.Kind{Group: "networking.k8s.io", Plural: "ingresses", Kind: "Ingress"}, Namespace: "shop", Name: "a"}
	secret := model.Ref{Kind: model.Kind{Plural: "secrets", Kind: "Secret"}, Namespace: "shop", Name: "a"}
	refusal := errors.New(`Secret "a" is invalid: data[pass]: Invalid value: "hunt\"er2": no, nor "hunter2`)
	m.logWrite("ann", "update", ingress, nil, time.Second)
	m.logWrite("ann", "update", secret, refusal, time.Second)
	m.logWrite("ann", "update", ingress, errors.New("quoting \"hunter3\" and "+strings.Repeat("ä", 4000)), time.Second)
	got := log.String()
	if !strings.Contains(got, "resource=ingresses.networking.k8s.io namespace=shop name=a") || !strings.Contains(got, "resource=secrets") {
		t.Errorf("resource not logged: %s", got)
	}
	if strings.Contains(got, "er2") || !strings.Contains(got, "data[pass]") || !strings.Contains(got, "hunter3") || len(got) > 2000 {
		t.Errorf("error logged as: %s", got)
	}
}
