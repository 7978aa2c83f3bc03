package manager

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateFiles are a certificate and a key that somebody else renews.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	changed   time.Time
	loaded    *tls.Certificate
	// lastError is the error that the log has.
	lastError string
}

// certificateCheckInterval is how soon it is looked again whether a file has changed.
const certificateCheckInterval = 10 * time.Second

// current is the certificate as it is now. One that cannot be read keeps the one before,
// which is said once: it will expire.
func (c *certificateFiles) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.loaded != nil && now.Sub(c.checkedAt) < certificateCheckInterval {
		return c.loaded, nil
	}
	c.checkedAt = now
	info, err := os.Stat(c.cert)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.changed) {
		return c.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.loaded, c.changed = &pair, info.ModTime()
		}
	}
	if c.loaded == nil {
		return nil, fmt.Errorf("read the certificate of the window: %w", err)
	}
	c.logError(err)
	return c.loaded, nil
}

// logError logs an error that is not the one before.
func (c *certificateFiles) logError(err error) {
	text := errorText(err)
	if text != "" && text != c.lastError {
		c.log.Warn("the window keeps the certificate that it has: the files cannot be read", "error", text, "expires", c.expiry())
	}
	c.lastError = text
}

// expiry is when the certificate that is loaded ends.
func (c *certificateFiles) expiry() string {
	if c.loaded.Leaf == nil {
		return ""
	}
	return c.loaded.Leaf.NotAfter.Format(time.RFC3339)
}
