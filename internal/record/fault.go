package record

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
	Kind FaultKind `json:"what"`
	// Code is the HTTP status that a hook answered with, Said the beginning of what it
	// said then.
	Code int    `json:"code,omitempty"`
	Body string `json:"said,omitempty"`
	// Path is the field of a reply, or of an object, that is not as it should be.
	Path string `json:"path,omitempty"`
}

// FaultKind is a kind of fault.
type FaultKind string

// The faults of hooks, and of the way to them.
const (
	HookUnknownHost     FaultKind = "hook-unknown-host"
	HookUnreachable     FaultKind = "hook-absent"
	HookTLS             FaultKind = "hook-tls"
	HookTimeout         FaultKind = "hook-timeout"
	HookDisconnected    FaultKind = "hook-broken-off"
	HookStatus          FaultKind = "hook-status"
	HookInvalidResponse FaultKind = "hook-reply"
	HookCredentials     FaultKind = "hook-credentials"
	HookFailed          FaultKind = "hook"
	HandlerFailed       FaultKind = "handler"
)

// The faults that the API server tells of, and others.
const (
	Forbidden            FaultKind = "forbidden"
	Invalid              FaultKind = "invalid"
	Conflict             FaultKind = "conflict"
	Terminating          FaultKind = "namespace-terminating"
	Rejected             FaultKind = "refused"
	APIServerUnavailable FaultKind = "api-server"
	TimedOut             FaultKind = "timeout"
	Panicked             FaultKind = "panic"
)

// FaultOf is what an error is about; nil where no more is known than its text.
func FaultOf(err error) *Fault {
	if err == nil {
		return nil
	}
	if failure.IsPanic(err) {
		return &Fault{Kind: Panicked}
	}
	if called, is := errors.AsType[*webhook.Error](err); is {
		return hookFault(called)
	}
	if reply, is := errors.AsType[*hook.MalformedError](err); is {
		return &Fault{Kind: HookInvalidResponse, Path: truncatePath(reply.Path)}
	}
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		// What whoever was asked has tried to write is theirs, but for the rights, which
		// are those of the process.
		if failure.SourceOf(err) == "" || apierrors.IsForbidden(status) {
			return apiFault(status)
		}
	}
	return otherFault(err)
}

// hookFault is about a question that was sent somewhere.
func hookFault(err *webhook.Error) *Fault {
	if reply, is := errors.AsType[*hook.MalformedError](err); is {
		return &Fault{Kind: HookInvalidResponse, Path: truncatePath(reply.Path)}
	}
	if status, is := errors.AsType[*webhook.StatusError](err); is {
		return &Fault{Kind: HookStatus, Code: status.Code, Body: status.Body}
	}
	return &Fault{Kind: transportFault(err)}
}

func transportFault(err error) FaultKind {
	opErr, isOpError := errors.AsType[*net.OpError](err)
	switch {
	case isType[*webhook.CredentialsError](err):
		return HookCredentials
	case isType[*webhook.TimeoutError](err):
		return HookTimeout
	case isType[*net.DNSError](err):
		return HookUnknownHost
	case isTLSError(err):
		return HookTLS
	case errors.Is(err, syscall.ECONNREFUSED), isOpError && opErr.Op == "dial":
		return HookUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case hook.IsUnreachable(err):
		return HookDisconnected
	}
	return HookFailed
}

// isTLSError says that the two ends could not agree on TLS. Of what the other end does not
// like, the package tls says no more than which operation failed.
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

// apiFault is about an answer of the API server. A lack of rights, a quota and a policy
// are all the same to it.
func apiFault(err *apierrors.StatusError) *Fault {
	switch {
	case apply.Terminating(err):
		return &Fault{Kind: Terminating}
	case apierrors.IsForbidden(err):
		return &Fault{Kind: Forbidden}
	case apierrors.IsInvalid(err):
		return &Fault{Kind: Invalid, Path: truncatePath(fieldOf(err))}
	case apierrors.IsConflict(err):
		return &Fault{Kind: Conflict}
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err):
		return &Fault{Kind: APIServerUnavailable}
	}
	return &Fault{Kind: Rejected}
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

// otherFault is about what neither a hook elsewhere nor the API server has answered.
func otherFault(err error) *Fault {
	by := failure.SourceOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Fault{Kind: TimedOut}
	case by == failure.Hook:
		return &Fault{Kind: HookFailed}
	case by == failure.Handler:
		return &Fault{Kind: HandlerFailed}
	case isType[net.Error](err):
		return &Fault{Kind: APIServerUnavailable}
	}
	return nil
}

func isType[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// maxPath is how many bytes of a path are told: its names are somebody else's.
const maxPath = 300

func truncatePath(path string) string {
	if len(path) <= maxPath {
		return path
	}
	return strings.ToValidUTF8(path[:maxPath], "") + "…"
}
