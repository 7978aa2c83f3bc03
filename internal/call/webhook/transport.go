package webhook

import (
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// idleTimeout is short enough to follow changed addresses and long enough for
	// infrequent calls.
	idleTimeout = 30 * time.Second
	// keepAlive detects vanished peers.
	keepAlive = 15 * time.Second
	// pingAfter and pingTimeout do so for HTTP/2, where one dead connection would fail
	// all calls.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// writeBuffer fits most requests in one write. Responses bypass readBuffer, so it
	// can be small.
	writeBuffer = 16 << 10
	readBuffer  = 4 << 10
	// maxHeader limits the size of response headers.
	maxHeader = 256 << 10
)

// newTransport returns a transport for one host and c.Concurrency parallel calls.
func newTransport(c Config, tlsConfig *tls.Config) *http.Transport {
	t := &http.Transport{
		DialContext:            c.Dial,
		TLSClientConfig:        tlsConfig.Clone(), // configuring HTTP/2 changes it
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		TLSHandshakeTimeout:    c.Timeout,
		MaxIdleConnsPerHost:    c.Concurrency,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		WriteBufferSize:        writeBuffer,
		ReadBufferSize:         readBuffer,
		// Within a cluster, compression costs more than it saves, and a compressed
		// response can expand to any size.
		DisableCompression: true,
	}
	switch {
	case c.Dial == nil:
		t.Proxy = http.ProxyFromEnvironment
		t.DialContext = (&net.Dialer{Timeout: c.Timeout, KeepAlive: keepAlive}).DialContext
	case c.Routed != nil:
		t.Proxy = c.proxy
	}
	t.DialContext = c.ConnectionLimiter.limitDialer(t.DialContext)
	return t
}

// proxy returns the environment's proxy, but none for Routed addresses.
func (c Config) proxy(r *http.Request) (*url.URL, error) {
	port := r.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.URL.Scheme]
	}
	if c.Routed(net.JoinHostPort(r.URL.Hostname(), port)) {
		return nil, nil //nolint:nilnil // No proxy, as http.Transport has it.
	}
	return http.ProxyFromEnvironment(r)
}

// newHeader returns the header that all calls share; the transport only reads it.
func newHeader(user *url.Userinfo, c Config) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {c.UserAgent},
	}
	if c.Authorization != "" {
		h.Set("Authorization", c.Authorization)
	}
	if user != nil {
		password, _ := user.Password()
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	return h
}
