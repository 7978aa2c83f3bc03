package webhook

import (
	"crypto/tls"
	"crypto/x509"
)

// Trust lets a test's own certificate authority speak for a server.
func (w *Webhook) Trust(roots *x509.CertPool) {
	w.links.change(&Credentials{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
}
