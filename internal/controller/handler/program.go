// Package handler calls handlers when objects change, and writes their responses.
//
// The package decides which handlers to call, records what each has handled, runs timers and
// daemons, retries, and writes responses. It does not know how a hook is reached or what a
// controller's spec looks like. Package composite has the way from a parent to its children.
//
// The host makes a Controller of every Program; package compile and the SDK make Programs.
package handler

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
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
	Handlers []trigger.Handler
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
	Writes []permit.Write
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
	// Conditions show it.
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

// writer reads from the API server and writes to it, as the controller's ServiceAccount. That of a dry run does not write.
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

// rules returns what decides about the handlers. Its functions are those of the program.
func (p *Program) rules() *trigger.Rules {
	return &trigger.Rules{
		Resource: p.Resource, Matches: p.Matches, Handlers: p.Handlers,
		Record:        lasthandled.Location{Annotation: p.HandledAnnotation, StatusKey: p.HandledStatusKey},
		FormerRecords: p.FormerRecords, Finalizer: p.Finalizer, ReplacedFinalizers: p.ReplacedFinalizers,
		ReplacedAnnotation: p.ReplacedAnnotation,
	}
}
