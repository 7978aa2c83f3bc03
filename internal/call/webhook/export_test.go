package webhook

import (
	"crypto/tls"
	"crypto/x509"
)

// TrustRoots lets a test's own certificate authority speak for a server.
func (w *Webhook) TrustRoots(roots *x509.CertPool) {
	w.client.replace(&Credentials{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
}

// CacheSize is how many replies are kept, and what they take.
func (w *Webhook) CacheSize() (n int, size int64) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	return len(w.cache.entries), w.cache.size
}
