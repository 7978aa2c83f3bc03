package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// overTLS lets a listener show a new certificate, which is written to a file.
func overTLS(plain net.Listener, file string) (net.Listener, error) {
	raw, key, err := selfSigned()
	if err != nil {
		return nil, err
	}
	if err := writePEM(file, "CERTIFICATE", raw); err != nil {
		return nil, err
	}
	own := tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	return tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}), nil
}

// certificate CERT KEY: writes a certificate for 127.0.0.1 that vouches for itself, and its key.
func certificateCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT KEY")
	}
	raw, key, err := selfSigned()
	ts.Check(err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(writePEM(ts.MkAbs(args[0]), "CERTIFICATE", raw))
	ts.Check(writePEM(ts.MkAbs(args[1]), "PRIVATE KEY", der))
}

// selfSigned returns a new certificate that vouches for itself.
func selfSigned() (raw []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return raw, key, err
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
