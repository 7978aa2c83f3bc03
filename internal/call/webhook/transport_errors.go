package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/hook"
)

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
