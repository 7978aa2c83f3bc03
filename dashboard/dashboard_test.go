package dashboard

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"github.com/setpoint-dev/setpoint/internal/must"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		ok      bool
		exposed bool
	}{
		"none":            {ok: true},
		"on loopback":     {options: Options{Address: "127.0.0.1:8443"}, ok: true},
		"on localhost":    {options: Options{Address: "localhost:8443"}, ok: true},
		"in the open":     {options: Options{Address: ":8443"}, ok: true, exposed: true},
		"with TLS":        {options: Options{Address: ":8443", CertFile: "a", KeyFile: "b"}, ok: true},
		"half of TLS":     {options: Options{Address: ":8443", CertFile: "a"}},
		"behind a proxy":  {options: Options{Address: ":8443", TrustedProxies: []string{"10.0.0.0/8", "::1"}}, ok: true},
		"a proxy by name": {options: Options{Address: ":8443", TrustedProxies: []string{"proxy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.options.Check(); (err == nil) != c.ok {
				t.Errorf("check: %v", err)
			}
			if c.ok && c.options.Address != "" && c.options.exposesTokens() != c.exposed {
				t.Errorf("exposed: %v", !c.exposed)
			}
		})
	}
}

// writeCertificate writes a self-signed certificate and its key.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).In(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)}
	raw := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)).In(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(private)).In(t)
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		must.Succeed(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
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
	must.Succeed(t, os.WriteFile(cert, []byte("nonsense"), 0o600))
	must.Succeed(t, os.Chtimes(cert, now, now))
	expectWarnings("nonsense", 1)
	expectWarnings("nonsense still", 1)
	if !strings.Contains(log.String(), "expires=2040-01-02T03:04:05Z") {
		t.Errorf("the expiry is not logged: %s", log.String())
	}
	must.Succeed(t, os.Remove(cert))
	expectWarnings("gone", 2)
	writeCertificate(t, cert, key)
	expectWarnings("renewed", 2)
}
