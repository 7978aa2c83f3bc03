package webhook

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Error is a failed call. It wraps the cause.
type Error struct {
	// Method is POST if empty.
	Method string
	// URL is the URL without secrets.
	URL string
	Err error
}

func (e *Error) Error() string {
	return cmp.Or(e.Method, http.MethodPost) + " " + e.URL + ": " + e.Err.Error()
}
func (e *Error) Unwrap() error { return e.Err }

// StatusError is a status code other than 200.
type StatusError struct {
	Code int
	// Body is the beginning of the body, Location the target of a redirect.
	Body, Location string
}

// StatusCode implements the interface of hook.StatusCode.
func (e *StatusError) StatusCode() int { return e.Code }

func (e *StatusError) Error() string {
	text := "returned " + strings.TrimSpace(strconv.Itoa(e.Code)+" "+http.StatusText(e.Code))
	switch {
	case e.Location != "":
		text += ", pointing to " + e.Location + "; redirects are not followed: use that URL"
	case e.Body != "":
		text += ": " + e.Body
	}
	return text
}

// IsConnectError reports whether no connection could be made: the host is unknown or
// does not accept connections.
func IsConnectError(err error) bool {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op == "dial"
	}
	_, unknown := errors.AsType[*net.DNSError](err)
	return unknown
}

// TimeoutError means that no complete response arrived within the timeout.
type TimeoutError struct{ text string }

func (e *TimeoutError) Error() string { return e.text }

// CredentialsError means that the credentials are unavailable.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "credentials: " + e.Err.Error() }
func (e *CredentialsError) Unwrap() error { return e.Err }
