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
	// At is the URL, less what may be secret.
	At  string
	Err error
}

func (e *Error) Error() string { return "POST " + e.At + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// StatusError is an answer of another status than 200.
type StatusError struct {
	Code int
	// Said is the beginning of what came with it, To where a redirect points.
	Said, To string
}

func (e *StatusError) Error() string {
	text := "answered " + strings.TrimSpace(strconv.Itoa(e.Code)+" "+http.StatusText(e.Code))
	switch {
	case e.To != "":
		text += ", pointing to " + e.To + "; redirects are not followed: ask there"
	case e.Said != "":
		text += ": " + e.Said
	}
	return text
}

// Unconnected says that a call failed before there was a connection: the host is not
// known, or nothing listens there.
func Unconnected(err error) bool {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op == "dial"
	}
	_, unknown := errors.AsType[*net.DNSError](err)
	return unknown
}

// LateError is an answer that did not come, or not to its end, within the timeout.
type LateError struct{ text string }

func (e *LateError) Error() string { return e.text }

// CredentialsError says that there is nothing to ask with.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "credentials: " + e.Err.Error() }
func (e *CredentialsError) Unwrap() error { return e.Err }
