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

// truncatedError is a reply that stopped in the middle.
type truncatedError struct {
	bytesRead int
	err       error
}

func (p *truncatedError) Error() string {
	return fmt.Sprintf("response ended after %d bytes: %v", p.bytesRead, p.err)
}
func (p *truncatedError) Unwrap() error { return p.err }

// describedError says what happened in our words and remembers it in theirs.
type describedError struct {
	text string
	err  error
}

func (r *describedError) Error() string { return r.text }
func (r *describedError) Unwrap() error { return r.err }

// callError finds the words for an exchange that did not come to its end. asked is
// the caller's context, limited the same with the timeout.
func (w *Webhook) callError(called, limited context.Context, err error) error {
	var malformed *hook.MalformedError
	switch {
	case errors.As(err, &malformed):
		return err
	case called.Err() != nil:
		return called.Err()
	case limited.Err() != nil:
		return &hook.UnreachableError{Err: w.timeoutError(err)}
	}
	return &hook.UnreachableError{Err: describeError(err)}
}

// timeoutError is the timeout. It is no context.DeadlineExceeded: the caller's time is
// not up.
func (w *Webhook) timeoutError(err error) error {
	// The address behind a name may have gone without closing its
	// connections: the next calls had better dial anew.
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

// textAfter is what the errors around another one say after its text: the dialer may
// know which hosts exist.
func textAfter(inner, err error) string {
	_, rest, _ := strings.Cut(err.Error(), inner.Error())
	return rest
}

// netHTTPPrefix is what net/http puts before some of its errors.
const netHTTPPrefix = "net/http: HTTP/1.x transport connection broken: "

// remoteAddress names the address behind the host's name.
func remoteAddress(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return " by " + op.Addr.String()
	}
	return ""
}
