package preview

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
)

// problem puts an error into the report, with what to do about it.
func problem(err error) *Problem {
	p := &Problem{Message: err.Error(), Hint: hint(err)}
	if reply, ok := errors.AsType[*hook.MalformedError](err); ok {
		p.Path = reply.Path
	}
	return p
}

// delayOf is after which time a handler that failed wants to be told again; 0 where
// it does not say.
func delayOf(err error) time.Duration {
	after, _ := hook.Postponed(err)
	return after
}

// hint is what to do about an error; empty where it says so itself.
func hint(err error) string {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		return "the hook is behind a Service of the cluster, which cannot be reached from here; run " +
			"`kubectl port-forward` to it, or the hook itself on this machine, and say where with --hook HOST:PORT"
	}
	if hook.Malformed(err) {
		return "correct the reply of the hook; nothing of such a reply is acted upon"
	}
	if _, ok := errors.AsType[*compile.Refusal](err); ok {
		return "the controller is not accepted as it is, and would do nothing"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; is the hook running? --hook HOST:PORT names another place"
	case errors.Is(err, context.DeadlineExceeded):
		return "--timeout gives more time"
	case apply.Conflict(err):
		return "the object has changed meanwhile; run the command again"
	case apierrors.IsForbidden(err):
		return "the API server's dry run takes the same permissions as the write itself"
	}
	return ""
}
