package webhook

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Error is a question that got no answer which can be used. What it wraps says why.
type Error struct {
	// URL is the URL, less what may be secret.
	URL string
	Err error
}

func (e *Error) Error() string { return "POST " + e.URL + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// StatusError is an answer of another status than 200.
type StatusError struct {
	Code int
	// Body is the beginning of what came with it, To where a redirect points.
	Body, Location string
}

func (e *StatusError) Error() string {
	text := "answered " + strings.TrimSpace(strconv.Itoa(e.Code)+" "+http.StatusText(e.Code))
	switch {
	case e.Location != "":
		text += ", pointing to " + e.Location + "; redirects are not followed: use that URL"
	case e.Body != "":
		text += ": " + e.Body
	}
	return text
}

// IsConnectError says that a call failed before there was a connection: the host is not
// known, or nothing listens there.
func IsConnectError(err error) bool {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op == "dial"
	}
	_, unknown := errors.AsType[*net.DNSError](err)
	return unknown
}

// TimeoutError is an answer that did not come, or not to its end, within the timeout.
type TimeoutError struct{ text string }

func (e *TimeoutError) Error() string { return e.text }

// CredentialsError says that there is nothing to ask with.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "credentials: " + e.Err.Error() }
func (e *CredentialsError) Unwrap() error { return e.Err }
