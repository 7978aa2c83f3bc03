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
	// idleTimeout is short enough to forget a hook's former addresses and long
	// enough to serve a steady trickle.
	idleTimeout = 30 * time.Second
	// keepAlive finds peers that vanished without a word.
	keepAlive = 15 * time.Second
	// pingAfter and pingTimeout do the same for HTTP/2, where one dead
	// connection would take every call with it.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// writeBuffer lets most questions be one write. Answers are read straight
	// into the room made for them, so that a small readBuffer will do.
	writeBuffer = 16 << 10
	readBuffer  = 4 << 10
	// maxHeader is plenty for the headers of a reply.
	maxHeader = 256 << 10
)

// newTransport is made for one host that is asked by so many at a time.
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
		// Compressing costs more than a short way through a cluster saves,
		// and a compressed reply could unpack to any size.
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

// proxy is that of the environment, but for addresses that Dial has a route for.
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

// newHeader is shared by all calls; the transport only reads it.
func newHeader(user *url.Userinfo, userAgent string) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {userAgent},
	}
	if user != nil {
		password, _ := user.Password()
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	return h
}
