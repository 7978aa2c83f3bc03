package record

import (
	"context"
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// FaultOf classifies an error. It returns nil if only its text is known. Its texts have no values of Secrets that the
// error may quote.
func FaultOf(err error) *failure.Fault {
	fault := classify(err)
	if quoting, is := errors.AsType[interface {
		error
		Redact(text string) string
	}](err); is && fault != nil {
		kind := fault.Kind
		fault = new(redact.EachText(*fault, quoting.Redact, nil))
		fault.Kind = kind
	}
	return fault
}

func classify(err error) *failure.Fault {
	if err == nil {
		return nil
	}
	if failure.IsPanic(err) {
		return &failure.Fault{Kind: failure.Panicked}
	}
	if malformed, is := errors.AsType[*hook.MalformedError](err); is {
		return &failure.Fault{Kind: failure.HookInvalidResponse, Path: failure.Truncate(malformed.Path, maxPath)}
	}
	if call, is := errors.AsType[interface {
		error
		Fault() *failure.Fault
	}](err); is {
		return call.Fault()
	}
	if errors.Is(err, identity.ErrForbidden) {
		return &failure.Fault{Kind: failure.Forbidden}
	}
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		// An invalid object is the hook's fault, missing permissions are Setpoint's.
		if failure.SourceOf(err) == "" || apierrors.IsForbidden(status) {
			return apiFault(status)
		}
	}
	return otherFault(err)
}

// apiFault classifies an error of the API server, which reports missing permissions,
// exceeded quotas and policies all as Forbidden.
func apiFault(err *apierrors.StatusError) *failure.Fault {
	switch {
	case apply.Terminating(err):
		return &failure.Fault{Kind: failure.Terminating}
	case apierrors.IsForbidden(err):
		return &failure.Fault{Kind: failure.Forbidden}
	case apierrors.IsInvalid(err) && fieldOf(err) != "": // Admission webhooks refuse objects as invalid without a field.
		return &failure.Fault{Kind: failure.Invalid, Path: failure.Truncate(fieldOf(err), maxPath)}
	case apierrors.IsConflict(err):
		return &failure.Fault{Kind: failure.Conflict}
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err):
		return &failure.Fault{Kind: failure.APIServerUnavailable}
	}
	return &failure.Fault{Kind: failure.Rejected}
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
func otherFault(err error) *failure.Fault {
	by := failure.SourceOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &failure.Fault{Kind: failure.TimedOut}
	case by == failure.Hook:
		return &failure.Fault{Kind: failure.HookFailed}
	case by == failure.Handler:
		return &failure.Fault{Kind: failure.HandlerFailed}
	}
	if _, is := errors.AsType[net.Error](err); is {
		return &failure.Fault{Kind: failure.APIServerUnavailable}
	}
	return nil
}

// maxPath limits the bytes of a path, which may contain names that a hook chose.
const maxPath = 300
