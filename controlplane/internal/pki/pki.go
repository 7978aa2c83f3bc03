// Package pki is the cluster's own certificate authority: it signs the serving
// certificates and the client certificates by which the components know each
// other, and makes the key that signs service-account tokens.
//
// Elliptic-curve keys throughout: making one takes microseconds where an RSA key
// takes a tenth of a second, and a control plane that should be up in seconds
// needs a dozen. Files and their places are the business of package datadir.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// A clock that was set back a little must not lock everybody out.
	clockSkew = time.Hour
)

// Pair is a certificate and its key, PEM-encoded.
type Pair struct {
	Cert, Key []byte
}

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes a self-signed authority.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the authority: %w", err)
	}
	template, err := template(pkix.Name{CommonName: name}, authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	return LoadAuthority(pair)
}

// LoadAuthority reads back an authority made earlier.
func LoadAuthority(pair Pair) (*Authority, error) {
	certBlock, _ := pem.Decode(pair.Cert)
	keyBlock, _ := pem.Decode(pair.Key)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("read the authority: not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read certificate of the authority: %w", err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read key of the authority: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("read the authority: certificate and key do not belong together")
	}
	return &Authority{Pair: pair, cert: cert, key: key}, nil
}

// Client signs a client certificate for a Kubernetes user and its groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	pair, err := a.leaf(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth, nil)
	if err != nil {
		return Pair{}, fmt.Errorf("sign client certificate of %s: %w", user, err)
	}
	return pair, nil
}

// Server signs a serving certificate for host names and IP addresses.
func (a *Authority) Server(name string, hosts ...string) (Pair, error) {
	pair, err := a.leaf(pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth, hosts)
	if err != nil {
		return Pair{}, fmt.Errorf("sign serving certificate of %s: %w", name, err)
	}
	return pair, nil
}

func (a *Authority) leaf(subject pkix.Name, use x509.ExtKeyUsage, hosts []string) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template, err := template(subject, leafLife)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{use}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, a.cert, key, a.key)
}

// SigningKey makes a key pair that belongs to no certificate: Cert holds the
// bare public key.
func SigningKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return Pair{}, fmt.Errorf("encode signing key: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode signing key: %w", err)
	}
	return Pair{Cert: encode("PUBLIC KEY", public), Key: encode("EC PRIVATE KEY", private)}, nil
}

func template(subject pkix.Name, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(life),
	}, nil
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (Pair, error) {
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encode("CERTIFICATE", cert), Key: encode("EC PRIVATE KEY", private)}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
