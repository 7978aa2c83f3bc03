package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Error is a failed call. It wraps the cause.
type Error struct {
	Method string
	// URL is the URL without secrets.
	URL string
	Err error
}

func (e *Error) Error() string { return e.Method + " " + e.URL + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Wrap implements call.Transport.
func (w *Transport) Wrap(hookType call.HookType, err error) error {
	method := http.MethodPost
	if hookType == call.Notifications {
		method = http.MethodGet
	}
	return &Error{Method: method, URL: w.publicURL, Err: err}
}

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

// IsConnectError reports whether no connection could be made: the host is unknown or does not accept connections.
func IsConnectError(err error) bool {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op == "dial"
	}
	return isType[*net.DNSError](err)
}

// describedError gives an error a new text, and a kind if its type does not tell.
type describedError struct {
	text string
	err  error
	kind failure.FaultKind
}

func (r *describedError) Error() string { return r.text }
func (r *describedError) Unwrap() error { return r.err }

// truncatedError is a response that ended early.
type truncatedError struct {
	bytesRead int
	err       error
}

func (p *truncatedError) Error() string {
	return fmt.Sprintf("response ended after %d bytes: %v", p.bytesRead, p.err)
}
func (p *truncatedError) Unwrap() error { return p.err }

// callError describes a failed exchange. called is the caller's context, limited adds the timeout.
func (w *Transport) callError(called, limited context.Context, err error) error {
	switch {
	case hook.IsMalformed(err):
		return err
	case called.Err() != nil:
		return called.Err()
	case limited.Err() != nil:
		return &hook.UnreachableError{Err: w.timeoutError(err), Connected: !IsConnectError(err)}
	}
	return &hook.UnreachableError{Err: &describedError{text: describe(err), err: err}, Connected: !IsConnectError(err)}
}

// timeoutError means that no complete response arrived within the timeout. It does not wrap
// context.DeadlineExceeded, which would mean that the caller's own deadline passed.
func (w *Transport) timeoutError(err error) error {
	// The host may have moved without closing its connections, so make the next calls dial.
	w.closeIdle()
	text := fmt.Sprintf("no response within %v", w.config.Timeout)
	if p, ok := errors.AsType[*truncatedError](err); ok {
		text = fmt.Sprintf("no complete response within %v, only %d bytes", w.config.Timeout, p.bytesRead)
	}
	return &describedError{text: text, kind: failure.HookTimeout}
}

// credentialsError means that the credentials are unavailable, unless the caller's context ended.
func credentialsError(called context.Context, err error) error {
	if called.Err() != nil {
		return called.Err()
	}
	return &describedError{"credentials: " + err.Error(), err, failure.HookCredentials}
}

// describe returns the text of an error of net/http for users.
func describe(err error) string {
	var p *truncatedError
	var dns *net.DNSError
	switch {
	case errors.As(err, &p):
		return fmt.Sprintf("connection closed in the middle of the response, after %d bytes", p.bytesRead)
	case errors.As(err, &dns) && dns.IsNotFound:
		_, added, _ := strings.Cut(err.Error(), dns.Error()) // The dialer may list known hosts.
		return "no such host: " + dns.Name + added
	case errors.Is(err, syscall.ECONNREFUSED):
		if op, is := errors.AsType[*net.OpError](err); is && op.Addr != nil {
			return "connection refused by " + op.Addr.String()
		}
		return "connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection closed without a response"
	}
	return strings.TrimPrefix(err.Error(), "net/http: HTTP/1.x transport connection broken: ")
}

// Fault classifies a call without a valid response.
func (e *Error) Fault() *failure.Fault {
	if status, is := errors.AsType[*StatusError](e); is {
		return &failure.Fault{Kind: failure.HookStatus, Code: status.Code, Body: status.Body}
	}
	return &failure.Fault{Kind: faultKind(e)}
}

func faultKind(err error) failure.FaultKind {
	described, isDescribed := errors.AsType[*describedError](err)
	switch {
	case isDescribed && described.kind != "":
		return described.kind
	case isType[*net.DNSError](err):
		return failure.HookUnknownHost
	case isTLSError(err):
		return failure.HookTLS
	case errors.Is(err, syscall.ECONNREFUSED), IsConnectError(err):
		return failure.HookUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return failure.TimedOut
	case hook.IsUnreachable(err):
		return failure.HookDisconnected
	}
	return failure.HookFailed
}

// isTLSError reports whether the TLS handshake failed. Of the peer's alert, crypto/tls tells only the operation.
func isTLSError(err error) bool {
	if isType[*tls.CertificateVerificationError](err) || isType[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if isType[x509.UnknownAuthorityError](err) || isType[x509.HostnameError](err) || isType[x509.CertificateInvalidError](err) {
		return true
	}
	op, is := errors.AsType[*net.OpError](err)
	return is && slices.Contains([]string{"remote error", "local error"}, op.Op)
}

func isType[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
