package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// util/cert makes CAs that last for ten years and serving certificates of RSA. What
// else there is to choose is chosen as it does.

func newAuthority(now time.Time, life time.Duration) (keyPair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: fmt.Sprintf("setpoint-admission-ca@%d", now.Unix())},
		NotBefore: now.Add(-clockSkew),
		NotAfter:  now.Add(life),
		KeyUsage:  x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:      true, MaxPathLenZero: true,
	}
	return issue(template, nil)
}

// sign returns a serving certificate for DNS names and IP addresses, which expires with
// the CA at the latest.
func (ca keyPair) sign(now time.Time, life time.Duration, names []string) (keyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: fmt.Sprintf("setpoint-admission@%d", now.Unix())},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    slices.MinFunc([]time.Time{now.Add(life), ca.cert.NotAfter}, time.Time.Compare),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return issue(template, &ca)
}

// issue returns a new key with a certificate, signed by a CA or self-signed.
func issue(template *x509.Certificate, by *keyPair) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return keyPair{}, fmt.Errorf("make a serial number: %w", err)
	}
	template.BasicConstraintsValid = true
	if by == nil {
		by = &keyPair{template, key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("make a certificate: %w", err)
	}
	made, err := x509.ParseCertificate(raw)
	return keyPair{made, key}, err
}

// coversNames reports whether a certificate has exactly these names.
func coversNames(c *x509.Certificate, names []string) bool {
	has := slices.Clone(c.DNSNames)
	has = append(has, lists.Map(c.IPAddresses, net.IP.String)...)
	wanted := slices.Clone(names)
	slices.Sort(has)
	slices.Sort(wanted)
	return slices.Equal(slices.Compact(has), slices.Compact(wanted))
}
