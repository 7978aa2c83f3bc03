package dashboard

import (
	"crypto/tls"
	"fmt"
	"log/slog"
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
	loaded    *tls.Certificate
	// lastError is the error that was logged last.
	lastError string
}

// certificateCheckInterval is the least time between two reads of the files.
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
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	switch {
	case err == nil:
		c.loaded, c.lastError = &pair, ""
	case c.loaded == nil:
		return nil, fmt.Errorf("read the certificate of the dashboard: %w", err)
	case err.Error() != c.lastError:
		c.lastError = err.Error()
		c.log.Warn("dashboard certificate not reloaded; serving the previous one",
			"error", c.lastError, "expires", c.loaded.Leaf.NotAfter.Format(time.RFC3339))
	}
	return c.loaded, nil
}
