package dashboard

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateFiles reloads a certificate and its key when the files change.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	changed   time.Time
	loaded    *tls.Certificate
	// lastError is the error that was logged last.
	lastError string
}

// certificateCheckInterval is the least time between two checks of the files.
const certificateCheckInterval = 10 * time.Second

// current returns the current certificate. If the files cannot be read it returns the
// previous one and logs the error once.
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
		return nil, fmt.Errorf("read the certificate of the dashboard: %w", err)
	}
	c.logError(err)
	return c.loaded, nil
}

// logError logs an error that differs from the previous one.
func (c *certificateFiles) logError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != c.lastError {
		c.log.Warn("dashboard certificate not reloaded; serving the previous one", "error", text, "expires", c.expiry())
	}
	c.lastError = text
}

// expiry returns when the loaded certificate expires.
func (c *certificateFiles) expiry() string {
	if c.loaded.Leaf == nil {
		return ""
	}
	return c.loaded.Leaf.NotAfter.Format(time.RFC3339)
}
