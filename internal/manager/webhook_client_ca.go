package manager

import (
	"crypto/x509"
	"fmt"
	"os"
)

// clientCAs reads the CAs of the API server's client certificate, for each connection:
// API servers make few. Nil where none is required.
func (a AdmissionOptions) clientCAs() func() (*x509.CertPool, error) {
	if a.ClientCAFile == "" {
		return nil
	}
	return func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(a.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CAs of the API server's certificate: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CAs of the API server's certificate: %s has no certificate in PEM form", a.ClientCAFile)
		}
		return pool, nil
	}
}

// check refuses what no API server could be answered with.
func (a AdmissionOptions) check() error {
	if read := a.clientCAs(); read != nil {
		_, err := read()
		return err
	}
	return nil
}
