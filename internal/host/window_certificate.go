package host

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificateFiles are a certificate and a key that somebody else renews.
type certificateFiles struct {
	cert, key string
	now       func() time.Time

	mu      sync.Mutex
	looked  time.Time
	changed time.Time
	loaded  *tls.Certificate
}

// relook is how soon it is looked again whether a file has changed.
const relook = 10 * time.Second

// current is the certificate as it is now. One that cannot be read keeps the one
// before.
func (c *certificateFiles) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.loaded != nil && now.Sub(c.looked) < relook {
		return c.loaded, nil
	}
	c.looked = now
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
	return c.loaded, nil
}
