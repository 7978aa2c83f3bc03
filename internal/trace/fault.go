package trace

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Fault is what failed, as far as the types of an error say. It is told where those are
// lost: what helps follows from it.
type Fault struct {
	What What `json:"what"`
	// Code is the HTTP status that a hook answered with, Said the beginning of what it
	// said then.
	Code int    `json:"code,omitempty"`
	Said string `json:"said,omitempty"`
	// Path is the field of a reply, or of an object, that is not as it should be.
	Path string `json:"path,omitempty"`
}

// What is a kind of fault.
type What string

// The faults of hooks, and of the way to them.
const (
	HookUnknown     What = "hook-unknown-host"
	HookAbsent      What = "hook-absent"
	HookUntrusted   What = "hook-tls"
	HookLate        What = "hook-timeout"
	HookBroken      What = "hook-broken-off"
	HookStatus      What = "hook-status"
	HookReply       What = "hook-reply"
	HookCredentials What = "hook-credentials"
	HookFailed      What = "hook"
	HandlerFailed   What = "handler"
)

// The faults that the API server tells of, and others.
const (
	Forbidden   What = "forbidden"
	Invalid     What = "invalid"
	Conflicting What = "conflict"
	Terminating What = "namespace-terminating"
	Refused     What = "refused"
	Unanswered  What = "api-server"
	TimedOut    What = "timeout"
	Panicked    What = "panic"
)

// FaultOf is what an error is about; nil where no more is known than its text.
func FaultOf(err error) *Fault {
	if err == nil {
		return nil
	}
	if failure.OfPanic(err) {
		return &Fault{What: Panicked}
	}
	if asked, is := errors.AsType[*webhook.Error](err); is {
		return ofHook(asked)
	}
	if reply, is := errors.AsType[*hook.MalformedError](err); is {
		return &Fault{What: HookReply, Path: shortPath(reply.Path)}
	}
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		// What whoever was asked has tried to write is theirs, but for the rights, which
		// are those of the process.
		if failure.Blamed(err) == "" || apierrors.IsForbidden(status) {
			return ofRefusal(status)
		}
	}
	return ofOthers(err)
}

// ofHook is about a question that was sent somewhere.
func ofHook(err *webhook.Error) *Fault {
	if reply, is := errors.AsType[*hook.MalformedError](err); is {
		return &Fault{What: HookReply, Path: shortPath(reply.Path)}
	}
	if status, is := errors.AsType[*webhook.StatusError](err); is {
		return &Fault{What: HookStatus, Code: status.Code, Said: status.Said}
	}
	return &Fault{What: onTheWay(err)}
}

func onTheWay(err error) What {
	dialled, ofNet := errors.AsType[*net.OpError](err)
	switch {
	case is[*webhook.CredentialsError](err):
		return HookCredentials
	case is[*webhook.LateError](err):
		return HookLate
	case is[*net.DNSError](err):
		return HookUnknown
	case untrusted(err):
		return HookUntrusted
	case errors.Is(err, syscall.ECONNREFUSED), ofNet && dialled.Op == "dial":
		return HookAbsent
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case hook.Unreachable(err):
		return HookBroken
	}
	return HookFailed
}

// untrusted says that the two ends could not agree on TLS. Of what the other end does not
// like, the package tls says no more than which operation failed.
func untrusted(err error) bool {
	if is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err) {
		return true
	}
	shaking, ofNet := errors.AsType[*net.OpError](err)
	return ofNet && slices.Contains([]string{"remote error", "local error"}, shaking.Op)
}

// ofRefusal is about an answer of the API server. A lack of rights, a quota and a policy
// are all the same to it.
func ofRefusal(err *apierrors.StatusError) *Fault {
	switch {
	case apply.Terminating(err):
		return &Fault{What: Terminating}
	case apierrors.IsForbidden(err):
		return &Fault{What: Forbidden}
	case apierrors.IsInvalid(err):
		return &Fault{What: Invalid, Path: shortPath(fieldOf(err))}
	case apierrors.IsConflict(err):
		return &Fault{What: Conflicting}
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err):
		return &Fault{What: Unanswered}
	}
	return &Fault{What: Refused}
}

// fieldOf is the first field that an object was refused for.
func fieldOf(err *apierrors.StatusError) string {
	if details := err.ErrStatus.Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" {
				return cause.Field
			}
		}
	}
	return ""
}

// ofOthers is about what neither a hook elsewhere nor the API server has answered.
func ofOthers(err error) *Fault {
	by := failure.Blamed(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Fault{What: TimedOut}
	case by == failure.Hook:
		return &Fault{What: HookFailed}
	case by == failure.Handler:
		return &Fault{What: HandlerFailed}
	case is[net.Error](err):
		return &Fault{What: Unanswered}
	}
	return nil
}

func is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// longestPath is how many bytes of a path are told: its names are somebody else's.
const longestPath = 300

func shortPath(path string) string {
	if len(path) <= longestPath {
		return path
	}
	return strings.ToValidUTF8(path[:longestPath], "") + "…"
}
