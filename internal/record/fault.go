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

// Fault classifies an error by type. It is derived before the types are lost, so that
// user interfaces can suggest a remedy.
type Fault struct {
	Kind FaultKind `json:"what"`
	// Code is the HTTP status of a hook, Body the beginning of the response body.
	Code int    `json:"code,omitempty"`
	Body string `json:"said,omitempty"`
	// Path is the invalid field of a response or object.
	Path string `json:"path,omitempty"`
}

// FaultKind classifies faults.
type FaultKind string

// Faults of hooks and of the connection to them.
const (
	HookUnknownHost     FaultKind = "hook-unknown-host"
	HookUnreachable     FaultKind = "hook-absent"
	HookTLS             FaultKind = "hook-tls"
	HookTimeout         FaultKind = "hook-timeout"
	HookDisconnected    FaultKind = "hook-broken-off"
	HookStatus          FaultKind = "hook-status"
	HookInvalidResponse FaultKind = "hook-response"
	HookCredentials     FaultKind = "hook-credentials"
	HookFailed          FaultKind = "hook"
	HandlerFailed       FaultKind = "handler"
)

// Faults reported by the API server, and others.
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

// FaultOf classifies an error. It returns nil if only its text is known.
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
	if malformed, is := errors.AsType[*hook.MalformedError](err); is {
		return &Fault{Kind: HookInvalidResponse, Path: truncatePath(malformed.Path)}
	}
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		// An invalid object is the hook's fault, missing permissions are Setpoint's.
		if failure.SourceOf(err) == "" || apierrors.IsForbidden(status) {
			return apiFault(status)
		}
	}
	return otherFault(err)
}

// hookFault classifies an error of a webhook call.
func hookFault(err *webhook.Error) *Fault {
	if malformed, is := errors.AsType[*hook.MalformedError](err); is {
		return &Fault{Kind: HookInvalidResponse, Path: truncatePath(malformed.Path)}
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

// apiFault classifies an error of the API server, which reports missing permissions,
// exceeded quotas and policies all as Forbidden.
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

// fieldOf returns the first invalid field.
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

// otherFault classifies errors of neither webhooks nor the API server.
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

// maxPath limits the bytes of a path, which may contain names that a hook chose.
const maxPath = 300

func truncatePath(path string) string {
	if len(path) <= maxPath {
		return path
	}
	return strings.ToValidUTF8(path[:maxPath], "") + "…"
}
