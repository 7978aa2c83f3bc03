package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = serial, pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue returns a certificate for 127.0.0.1 or a client, and its key.
func (a *testCA) issue(name string) (cert, key string) {
	a.t.Helper()
	signed, privateKey := a.sign(name, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	raw, err := x509.MarshalPKCS8PrivateKey(privateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return encodePEM("CERTIFICATE", signed.Raw), encodePEM("PRIVATE KEY", raw)
}

// pair is issue for use in this process.
func (a *testCA) pair(name string) tls.Certificate {
	a.t.Helper()
	cert, key := a.issue(name)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

func encodePEM(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}
