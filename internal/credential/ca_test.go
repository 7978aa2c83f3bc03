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

	"github.com/setpoint-dev/setpoint/internal/must"
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
