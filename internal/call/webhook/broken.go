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

// partial is a reply that stopped in the middle.
type partial struct {
	got int
	err error
}

func (p *partial) Error() string { return fmt.Sprintf("reply ended after %d bytes: %v", p.got, p.err) }
func (p *partial) Unwrap() error { return p.err }

// reworded says what happened in our words and remembers it in theirs.
type reworded struct {
	text string
	err  error
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }

// broken finds the words for an exchange that did not come to its end. asked is
// the caller's context, limited the same with the timeout.
func (w *Webhook) broken(asked, limited context.Context, err error) error {
	var malformed *hook.MalformedError
	switch {
	case errors.As(err, &malformed):
		return err
	case asked.Err() != nil:
		return asked.Err()
	case limited.Err() != nil:
		return &hook.UnreachableError{Err: w.late(err)}
	}
	return &hook.UnreachableError{Err: reword(err)}
}

// late is the timeout. It is no context.DeadlineExceeded: the caller's time is
// not up.
func (w *Webhook) late(err error) error {
	// The address behind a name may have gone without closing its
	// connections: the next calls had better dial anew.
	w.links.hangUp()
	if p, ok := errors.AsType[*partial](err); ok {
		return &LateError{fmt.Sprintf("no complete answer within %v, only %d bytes", w.timeout, p.got)}
	}
	return &LateError{fmt.Sprintf("no answer within %v", w.timeout)}
}

func reword(err error) error {
	var p *partial
	var dns *net.DNSError
	switch {
	case errors.As(err, &p):
		return &reworded{fmt.Sprintf("connection closed in the middle of the answer, after %d bytes", p.got), err}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &reworded{"no such host: " + dns.Name + after(dns, err), err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &reworded{"connection refused" + by(err), err}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &reworded{"connection closed without an answer", err}
	}
	return &reworded{strings.TrimPrefix(err.Error(), preamble), err}
}

// after is what the errors around another one say after its text: the dialer may
// know which hosts exist.
func after(inner, err error) string {
	_, rest, _ := strings.Cut(err.Error(), inner.Error())
	return rest
}

// preamble is what net/http puts before some of its errors.
const preamble = "net/http: HTTP/1.x transport connection broken: "

// by names the address behind the host's name.
func by(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return " by " + op.Addr.String()
	}
	return ""
}
