package webhook

import (
	"cmp"
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
	"github.com/setpoint-dev/setpoint/internal/failure"
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

// Fault classifies a call without a valid response.
func (e *Error) Fault() *failure.Fault {
	if status, is := errors.AsType[*StatusError](e); is {
		return &failure.Fault{Kind: failure.HookStatus, Code: status.Code, Body: status.Body}
	}
	return &failure.Fault{Kind: faultKind(e)}
}

func faultKind(err error) failure.FaultKind {
	opErr, isOpError := errors.AsType[*net.OpError](err)
	switch {
	case isType[*CredentialsError](err):
		return failure.HookCredentials
	case isType[*TimeoutError](err):
		return failure.HookTimeout
	case isType[*net.DNSError](err):
		return failure.HookUnknownHost
	case isTLSError(err):
		return failure.HookTLS
	case errors.Is(err, syscall.ECONNREFUSED), isOpError && opErr.Op == "dial":
		return failure.HookUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return failure.TimedOut
	case hook.IsUnreachable(err):
		return failure.HookDisconnected
	}
	return failure.HookFailed
}

// isTLSError reports whether the TLS handshake failed. For an alert from the peer,
// crypto/tls provides only the name of the operation.
func isTLSError(err error) bool {
	if isType[*tls.CertificateVerificationError](err) || isType[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if isType[x509.UnknownAuthorityError](err) || isType[x509.HostnameError](err) || isType[x509.CertificateInvalidError](err) {
		return true
	}
	opErr, isOpError := errors.AsType[*net.OpError](err)
	return isOpError && slices.Contains([]string{"remote error", "local error"}, opErr.Op)
}

func isType[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// truncatedError is a response that ended early.
type truncatedError struct {
	bytesRead int
	err       error
}

func (p *truncatedError) Error() string {
	return fmt.Sprintf("response ended after %d bytes: %v", p.bytesRead, p.err)
}
func (p *truncatedError) Unwrap() error { return p.err }

// describedError gives an error a new text.
type describedError struct {
	text string
	err  error
}

func (r *describedError) Error() string { return r.text }
func (r *describedError) Unwrap() error { return r.err }

// callError describes a failed exchange. called is the caller's context, limited adds
// the timeout.
func (w *Webhook) callError(called, limited context.Context, err error) error {
	var malformed *hook.MalformedError
	switch {
	case errors.As(err, &malformed):
		return err
	case called.Err() != nil:
		return called.Err()
	case limited.Err() != nil:
		return &hook.UnreachableError{Err: w.timeoutError(err), Connected: !IsConnectError(err)}
	}
	return &hook.UnreachableError{Err: describeError(err), Connected: !IsConnectError(err)}
}

// timeoutError returns a TimeoutError. It does not wrap context.DeadlineExceeded, which
// would mean that the caller's own deadline passed.
func (w *Webhook) timeoutError(err error) error {
	// The host may have moved without closing its connections, so make the next calls
	// dial.
	w.client.closeIdle()
	if p, ok := errors.AsType[*truncatedError](err); ok {
		return &TimeoutError{fmt.Sprintf("no complete response within %v, only %d bytes", w.timeout, p.bytesRead)}
	}
	return &TimeoutError{fmt.Sprintf("no response within %v", w.timeout)}
}

func describeError(err error) error {
	var p *truncatedError
	var dns *net.DNSError
	switch {
	case errors.As(err, &p):
		return &describedError{fmt.Sprintf("connection closed in the middle of the response, after %d bytes", p.bytesRead), err}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &describedError{"no such host: " + dns.Name + textAfter(dns, err), err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &describedError{"connection refused" + remoteAddress(err), err}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &describedError{"connection closed without a response", err}
	}
	return &describedError{strings.TrimPrefix(err.Error(), netHTTPPrefix), err}
}

// textAfter returns the text that wrapping errors append: the dialer may list known
// hosts.
func textAfter(inner, err error) string {
	_, rest, _ := strings.Cut(err.Error(), inner.Error())
	return rest
}

// netHTTPPrefix starts some errors of net/http.
const netHTTPPrefix = "net/http: HTTP/1.x transport connection broken: "

// remoteAddress returns the IP address that failed.
func remoteAddress(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return " by " + op.Addr.String()
	}
	return ""
}
