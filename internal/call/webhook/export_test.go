package webhook

import (
	"crypto/tls"
	"crypto/x509"
)

// Trust lets a test's own certificate authority speak for a server.
func (w *Webhook) Trust(roots *x509.CertPool) {
	w.links.change(&Credentials{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
}

// Kept is how many replies are kept, and what they take.
func (w *Webhook) Kept() (n int, size int64) {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	return len(w.kept.about), w.kept.size
}
