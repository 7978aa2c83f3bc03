package webhook

import (
	"crypto/tls"
	"crypto/x509"
)

// TrustRoots sets the trusted CAs.
func (w *Webhook) TrustRoots(roots *x509.CertPool) {
	w.client.replace(&Credentials{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
}

// CacheSize returns the number of cached responses and their size.
func (w *Webhook) CacheSize() (n int, size int64) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	return len(w.cache.entries), w.cache.size
}
