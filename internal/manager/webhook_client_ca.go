package manager

import (
	"crypto/x509"
	"fmt"
	"os"
)

// clientCAs returns a function that reads the CAs of the API server's client certificate for
// each connection, of which there are few; nil if no certificate is required.
func (a AdmissionOptions) clientCAs() func() (*x509.CertPool, error) {
	if a.ClientCAFile == "" {
		return nil
	}
	return func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(a.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read the client CAs of the API server: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the client CAs of the API server: %s has no PEM certificate", a.ClientCAFile)
		}
		return pool, nil
	}
}

// check validates the client CAs.
func (a AdmissionOptions) check() error {
	if read := a.clientCAs(); read != nil {
		_, err := read()
		return err
	}
	return nil
}
