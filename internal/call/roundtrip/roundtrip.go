// Package roundtrip does one HTTP exchange with a server that is not trusted to end it.
//
// Here lives what net/http leaves to its caller: that a response is a final one, and
// that the context of a request bounds its body too. What a response means is the
// caller's business. Code that reads a body that is not from the API server calls it:
// webhook for hooks, inspect/wire for other processes.
package roundtrip

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// InterimError is a response by which the server does not answer the request: 101
// Switching Protocols, of which no request here asks. Its connection is closed.
type InterimError struct{ Code int }

func (e *InterimError) Error() string {
	return fmt.Sprintf("%d %s in place of a response", e.Code, http.StatusText(e.Code))
}

// Do sends a request and returns a final response. The response body ends with the
// context of the request, whatever it is: that of a 101 would be the connection itself,
// whose reads heed no context.
func Do(transport http.RoundTripper, req *http.Request) (*http.Response, error) {
	response, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK {
		_ = response.Body.Close()
		return nil, &InterimError{Code: response.StatusCode}
	}
	response.Body = newBody(req.Context(), response.Body)
	return response, nil
}

// NewTransport is a http.RoundTripper that does exchanges by Do.
func NewTransport(next http.RoundTripper) http.RoundTripper { return finalResponseTransport{next} }

type finalResponseTransport struct{ next http.RoundTripper }

func (o finalResponseTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return Do(o.next, req)
}

// body is a response body that is closed when a context ends.
type body struct {
	io.ReadCloser
	stop func() bool
}

func newBody(ctx context.Context, inner io.ReadCloser) *body {
	return &body{inner, context.AfterFunc(ctx, func() { _ = inner.Close() })}
}

// Close closes it, whether or not the context has ended.
func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}
