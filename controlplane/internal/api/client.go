// Package api is the little of the Kubernetes API that booting a cluster needs:
// is the server ready, create this, show me that. A few requests over plain
// HTTP do not warrant a client library, and without one this module's light half
// compiles in no time.
package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/pki"
)

// Client talks to HTTPS servers under one authority, as one user.
type Client struct {
	http *http.Client
}

// New makes a client that trusts the servers whose certificates the authority
// signed.
func New(authority []byte, as pki.Pair) (*Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("trust the authority: no certificate found")
	}
	cert, err := tls.X509KeyPair(as.Cert, as.Key)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}},
		ForceAttemptHTTP2: true,
	}
	return &Client{http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// StatusError is a response other than success.
type StatusError struct {
	Method, URL string
	Code        int
	Body        string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: status %d: %s", e.Method, e.URL, e.Code, e.Body)
}

// Get decodes the response of a URL; the target may be nil.
func (c *Client) Get(ctx context.Context, url string, parsed any) error {
	return c.do(ctx, http.MethodGet, url, nil, parsed)
}

// Create posts an object to a collection. It does not change an existing one.
func (c *Client) Create(ctx context.Context, url string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode object for %s: %w", url, err)
	}
	err = c.do(ctx, http.MethodPost, url, body, nil)
	if status, ok := err.(*StatusError); ok && status.Code == http.StatusConflict {
		return nil
	}
	return err
}

// Close drops the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) do(ctx context.Context, method, url string, body []byte, parsed any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: read response: %w", method, url, err)
	}
	if response.StatusCode >= 300 {
		return &StatusError{Method: method, URL: url, Code: response.StatusCode, Body: strings.TrimSpace(string(text))}
	}
	if parsed == nil {
		return nil
	}
	if err := json.Unmarshal(text, parsed); err != nil {
		return fmt.Errorf("%s %s: decode response: %w", method, url, err)
	}
	return nil
}
