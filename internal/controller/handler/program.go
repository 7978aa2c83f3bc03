// Package handler calls handlers when objects change, and writes their responses.
//
// The package decides which handlers to call, records what each has handled, runs timers and
// daemons, retries, and writes responses. It does not know how a hook is reached or what a
// controller's spec looks like. Package composite has the way from a parent to its children.
//
// The host makes a Controller of every Program; package compile and the SDK make Programs.
package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Program is one controller with handlers, ready to run.
type Program struct {
	// Name identifies the controller in logs and metrics.
	Name string
	// Object is the controller as handlers see it; nil for a Go program.
	Object json.RawMessage
	// Resource is the kind of the handled objects.
	Resource object.Resource
	// Labels and Fields are selectors that the API server applies; "" selects all.
	Labels, Fields string
	// Matches reports whether a selected object is handled; nil for all.
	Matches func(*object.Object) bool
	// Handlers are called in this order.
	Handlers []Handler
	// Namespaces limits the handled objects, and what is written for them; empty for all
	// namespaces. Cluster-scoped kinds are not limited.
	Namespaces []string
	// Owns are the kinds that the program applies and watches. It may also delete those that
	// the handled object controls.
	Owns []object.Resource
	// Related are other watched objects, whose changes call handlers with hook.ReasonRelated.
	Related []Related
	// Writes permits further objects. A response that exceeds both is rejected as a whole,
	// with a terminal error.
	Writes []WritePermission
	// Reads are the kinds that handlers may list, in Namespaces only if there are any.
	Reads []object.Resource
	// HandledAnnotation is the annotation with the record of handled states. HandledStatusKey,
	// if not empty, is the key of the record in the status, if the schema of the kind has
	// lasthandled.StatusField: one request writes both then.
	HandledAnnotation, HandledStatusKey string
	// FormerRecords are those of controllers whose handlers are now in this program. Its record takes
	// over their entries.
	FormerRecords []lasthandled.Location
	// Finalizer is the name of the finalizer that delays a deletion until Delete handlers and
	// daemons are done.
	Finalizer string
	// ReplacedFinalizers are finalizers of a former controller, removed from handled objects.
	ReplacedFinalizers []string
	// ReplacedAnnotation, if not empty, is on objects that a former controller has handled. Handlers
	// of updates and resumptions get them as created.
	ReplacedAnnotation string
	// Conditions means that the schema of the kind has status conditions. If unknown, existing
	// conditions show it.
	Conditions bool
	// Manager is the field manager of all writes.
	Manager string
	// Namespace has the revisions of cluster-scoped objects.
	Namespace string
	// Account is as which ServiceAccount the controller writes, and what handlers may read; zero for Setpoint's
	// own rights.
	Account identity.Account
	// Backend is the process of the handlers; zero for a Go program.
	Backend Backend
	// Workers is the maximum number of concurrent reconciles; 32 if zero.
	Workers int
}

// WritePermission permits responses to write objects of one kind.
type WritePermission struct {
	Resource object.Resource
	// Apply, Delete and Evict are the permitted verbs; only pods can be evicted.
	Apply, Delete, Evict bool
	// Namespace limits the permission; empty for all namespaces.
	Namespace string
	// Labels is a selector for the objects, by their desired labels for an apply and their
	// current ones for a deletion; "" selects all. A deletion by selector must match both.
	Labels string
}

// Handler is one handler and its triggers.
type Handler struct {
	// Name is unique in its program and stable across releases: the record has handlers by
	// name.
	Name string
	// DisplayName, if not empty, replaces the name in what users read.
	DisplayName string
	// FormerNames are earlier names of the handler, whose entries in records it takes over.
	FormerNames []string
	// On are the reasons for a call. Every and Schedule imply hook.ReasonTimer, and a Daemon
	// has no reason.
	On []hook.Reason
	// Fields are the watched fields, such as {"spec", "currency"}. If empty, the handler
	// watches the whole object except the status and system metadata: labels and annotations
	// count, managed fields and versions do not.
	Fields [][]string
	// IgnoredAnnotations are prefixes of annotations that the handler does not watch. They are the same
	// for all handlers of a program.
	IgnoredAnnotations []string
	// KeepPreviousState stores the handled state in a ControllerRevision, so that an update
	// has the previous state even after a restart. See ValidateKeepPreviousState.
	KeepPreviousState bool
	// When is the handler's condition; nil always matches. The old object is nil if it does
	// not exist or is unknown.
	When func(old, now *object.Object) bool
	// Expression is a further condition, which also has the reason of the call; nil for none. If it fails, that is
	// an error of the object, and the handler is not called.
	Expression func(reason hook.Reason, old, now *object.Object) (bool, error)
	// Conditional means that responses may be NotApplicable. If a deletion waits for the handler,
	// it is called with hook.ReasonMatch once per state of an object.
	Conditional bool
	// Every calls the handler at an interval, Schedule by a calendar. At most one is set.
	Every    time.Duration
	Schedule Schedule
	// FromFirstSeen counts Every from when the object is first seen, or begins to match, in this
	// process instead of its creation. InitialDelay is then the time to the first call, and Sharp
	// counts the next ones from the start of a call instead of its end.
	FromFirstSeen bool
	InitialDelay  time.Duration
	Sharp         bool
	// Idle delays a timer until no watched field has changed for this long.
	Idle time.Duration
	// Debounce delays an update until no watched field has changed for this long.
	Debounce time.Duration
	// Jitter spreads the times of a timer by up to this much.
	Jitter time.Duration
	// Daemon, if set, runs while the object exists and matches. Its context ends then.
	Daemon Daemon
	// StopTimeout is how long a deleted object waits for a daemon after its context ended;
	// DefaultStopTimeout if zero.
	StopTimeout time.Duration
	// Timeout limits one call through its context; 0 for no limit.
	Timeout time.Duration
	// Retries is the maximum number of retries of a failed call; no limit if zero, none if
	// negative. RetryTimeout limits their time.
	Retries      int
	RetryTimeout time.Duration
	// Backoff doubles from the first value to the second, with jitter; 1s and 5m if zero.
	Backoff, MaxBackoff time.Duration
	// Optional lets a deletion continue after this Delete handler gave up.
	Optional bool
	// Do is the handler to call; for a daemon nil, or what CallDaemon calls.
	Do hook.Handler
}

// title returns the name that users read.
func (h *Handler) title() string { return cmp.Or(h.DisplayName, h.Name) }

// Schedule is a calendar, such as a cron expression.
type Schedule interface {
	// Next returns the first time after t.
	Next(t time.Time) time.Time
}

// Daemon runs for one object until its context ends. The request has the object at the start;
// existing has it from then on, and writes. A daemon that returns nil is not restarted; one
// that fails is, after a backoff.
type Daemon func(ctx context.Context, n *hook.HandlerRequest, existing *Live) error

// Tools are the dependencies of a controller.
type Tools struct {
	Store  *cache.Cache
	Writer *apply.Writer
	// Access reviews what Accounts may read; not used without an Account.
	Access *identity.Reviewer
	// Backends are those of all controllers; nil for programs that do not run.
	Backends *backend.Backends
	Observer Observer
	// Unrecorded means that no history is kept: the Observer gets only the cause, the duration
	// and the outcome of runs.
	Unrecorded bool
	Log        *slog.Logger
	// Tracer is nil without traces.
	Tracer *trace.Tracer
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Queue has the clock of the queue, and the random numbers of all delays; those of queue.Options if nil.
	Queue queue.Options
}

// Observer receives what a controller does.
type Observer interface {
	controller.Observer
	// Handled receives each call of a handler; err is nil if it succeeded.
	Handled(program, handler string, reason hook.Reason, took time.Duration, err error)
}

// userFor is the user of the ServiceAccount for an object in a namespace; empty for Setpoint itself.
func (c *Controller) userFor(namespace string) string { return c.program.Account.UserFor(namespace) }

// writerFor writes, and reads from the API server, as the controller's ServiceAccount.
func (c *Controller) writerFor(namespace string) *apply.Writer {
	return c.tools.Writer.As(c.userFor(namespace))
}

// writer reads from the API server and writes to it.
type writer interface {
	Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error)
	List(ctx context.Context, resource object.Resource, namespace, selector string) ([]*object.Object, error)
	Ownership(ctx context.Context, resource object.Resource, namespace, name string) (*apply.Ownership, error)
	CreateFor(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error)
	Apply(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error)
	Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	Evict(ctx context.Context, resource object.Resource, pod *object.Object) error
	Patch(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error)
	PatchStatus(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error)
}

// writer writes as the controller's ServiceAccount. That of a dry run does not write.
func (r *run) writer() writer {
	if r.dry != nil {
		return r.dry
	}
	return r.writerFor(r.Stored.Namespace())
}

// checkReads returns an error unless the ServiceAccount may read the object and the kinds that it owns: the
// caches have what Setpoint itself may read.
func (r *run) checkReads(ctx context.Context) error {
	user := r.userFor(r.Stored.Namespace())
	if err := r.tools.Access.CheckRead(ctx, user, r.program.Resource, r.Stored.Namespace(), r.Stored.Name()); err != nil {
		return err
	}
	for _, owned := range r.program.Owns {
		if owned.Unserved {
			continue
		}
		namespaces := []string{r.Stored.Namespace()}
		if !r.program.Resource.Namespaced {
			namespaces = r.program.NamespacesOf(owned)
		}
		if err := r.tools.Access.CheckList(ctx, user, owned, namespaces...); err != nil {
			return err
		}
	}
	return nil
}

// holds evaluates the expression of a handler.
func (h *Handler) holds(reason hook.Reason, old, now *object.Object) (bool, error) {
	if h.Expression == nil {
		return true, nil
	}
	return h.Expression(reason, old, now)
}

// mayHold is true unless the expression is certainly false: a deletion waits until it is known.
func (h *Handler) mayHold(reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.holds(reason, old, now)
	return holds || err != nil
}

// mayHandle reports whether the handler may be called for an object, for any of its reasons.
func (h *Handler) mayHandle(o *object.Object) bool {
	reasons := h.On
	switch {
	case h.Expression == nil:
		return true
	case h.Daemon != nil:
		reasons = append(slices.Clip(reasons), hook.ReasonDaemon)
	case h.Every > 0 || h.Schedule != nil:
		reasons = append(slices.Clip(reasons), hook.ReasonTimer)
	}
	return slices.ContainsFunc(reasons, func(reason hook.Reason) bool { return h.mayHold(reason, nil, o) })
}

// mayBeCalled reports whether the handler would be called for an object that it has not seen before. An expression
// that fails without a former object is one about changes.
func (h *Handler) mayBeCalled(reason hook.Reason, o *object.Object) bool {
	if !h.matches(nil, o) {
		return false
	}
	holds, err := h.holds(reason, nil, o)
	return holds && err == nil
}

// lastReason is the reason for which a deletion waits for the handler.
func (h *Handler) lastReason() hook.Reason {
	if h.Daemon != nil {
		return hook.ReasonDaemon
	}
	return hook.ReasonDelete
}

// firstReason is the first of the handler's reasons that depend on what it has seen.
func (h *Handler) firstReason() hook.Reason {
	for _, reason := range changeReasons {
		if h.handles(reason) {
			return reason
		}
	}
	return hook.ReasonUpdate
}

// holds evaluates the expression of a handler before a call, and records its error.
func (r *run) holds(h *handlerMemory, reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.holds(reason, old, now)
	if err == nil {
		return holds
	}
	if !slices.Contains(r.failedExpressions, h) {
		r.failedExpressions = append(r.failedExpressions, h)
		h.expressionFailed = true
		r.recordError(h, failure.WithReason(ReasonExpressionFailed, fmt.Errorf("handler %s: %w", h.Name, err)))
	}
	return false
}

// clearExpressionFailure forgets the error of a handler's expression, unless it failed in this run too.
func (r *run) clearExpressionFailure(h *handlerMemory) (failed bool) {
	failed = slices.Contains(r.failedExpressions, h)
	if h.expressionFailed && !failed {
		h.failed, h.expressionFailed = nil, false
	}
	return failed
}

// ParseField parses the path of a field that a handler can watch.
func ParseField(text string) ([]string, error) {
	path, err := object.ParsePath(text)
	if err != nil {
		return nil, err
	}
	if isSystemField(path) {
		return nil, fmt.Errorf("%q never changes or changes with every write; use fields of spec or status, labels or annotations", text)
	}
	return path, nil
}

// isSystemField reports whether the API server maintains a field.
func isSystemField(path []string) bool {
	switch path[0] {
	case "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) == 1 || path[1] != "labels" && path[1] != "annotations" && path[1] != "ownerReferences"
	}
	return false
}
