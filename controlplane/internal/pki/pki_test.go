package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane/internal/pki"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	return must.Get(pki.NewAuthority("test")).In(t)
}

func leaf(t *testing.T, pair pki.Pair) *x509.Certificate {
	t.Helper()
	cert := must.Get(tls.X509KeyPair(pair.Cert, pair.Key)).In(t)
	return cert.Leaf
}

func TestWhatItSignsIsTrusted(t *testing.T) {
	made := authority(t)
	a := must.Get(pki.LoadAuthority(made.Pair)).In(t)
	server := must.Get(a.Server("s", "127.0.0.1", "localhost")).In(t)
	client := must.Get(a.Client("jane", "readers", "writers")).In(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Cert)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if _, err := leaf(t, server).Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
	jane := leaf(t, client)
	if _, err := jane.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if jane.Subject.CommonName != "jane" || len(jane.Subject.Organization) != 2 {
		t.Errorf("subject %v", jane.Subject)
	}
}

func TestDamagedAuthority(t *testing.T) {
	a, b := authority(t), authority(t)
	for name, pair := range map[string]pki.Pair{
		"empty":      {},
		"swapped":    {Cert: a.Key, Key: a.Cert},
		"mismatched": {Cert: a.Cert, Key: b.Key},
	} {
		if _, err := pki.LoadAuthority(pair); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
