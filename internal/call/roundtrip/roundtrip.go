// Package roundtrip performs an HTTP exchange with an untrusted server.
//
// It adds two guarantees to net/http: the response is final, and the request's context bounds the response body too.
// Code that reads bodies from anything but the API server uses it.
package roundtrip

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// InterimError is a response that does not complete the request: 101 Switching
// Protocols, which no request asks for. Do has closed its connection.
type InterimError struct{ Code int }

func (e *InterimError) Error() string {
	return fmt.Sprintf("%d %s in place of a response", e.Code, http.StatusText(e.Code))
}

// Do sends a request and returns a final response. The body is closed when the request's context ends, because the
// transport leaves some bodies open: that of a 101 is the raw connection, whose reads ignore the context.
func Do(transport http.RoundTripper, req *http.Request) (*http.Response, error) {
	response, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK {
		_ = response.Body.Close()
		return nil, &InterimError{Code: response.StatusCode}
	}
	inner := response.Body
	response.Body = &body{inner, context.AfterFunc(req.Context(), func() { _ = inner.Close() })}
	return response, nil
}

// NewTransport returns a http.RoundTripper that uses Do.
func NewTransport(next http.RoundTripper) http.RoundTripper { return finalResponseTransport{next} }

type finalResponseTransport struct{ next http.RoundTripper }

func (o finalResponseTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return Do(o.next, req)
}

// body closes a response body when a context ends.
type body struct {
	io.ReadCloser
	stop func() bool
}

// Close closes the body and releases the context's callback.
func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}
