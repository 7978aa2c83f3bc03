// Package running runs one controller: it calls its hooks and handlers by a worker for each of its programs, moves its
// parents to changed hooks, and tells its health. Which controllers run is up to package controllers.
package running

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Dependencies are what the running controllers of a process share.
type Dependencies struct {
	Log         *slog.Logger
	Client      rest.Interface
	Store       *cache.Cache
	Permissions *rbac.Access
	Resolver    *kinds.Resolver
	Webhooks    *serving.Webhooks
	InFlight    *calls.InFlight
	Endpoints   *calls.Endpoints
	Backends    *backend.Backends

	// Events, Metrics, History, Recorders and Tracer receive what controllers do. Unrecorded means that nothing could
	// use the steps of runs.
	Events     *events.Writer
	Metrics    *serving.Metrics
	History    *inspect.History
	Recorders  *recording.Recorders
	Tracer     *trace.Tracer
	Unrecorded bool
}

// Controller runs all programs of a controller. Its webhooks are served by every replica; all else is done by the leader.
type Controller struct {
	*compile.Compiled
	*Dependencies

	Workers []Worker
	// Deletions is the deletion guard of the programs of hooks; nil without hooks.
	Deletions *guard.Guard
	// Assignment says which parents have moved to changed hooks; nil if all have.
	Assignment *router.Assignment
	// Reported follows the versions in responses; nil without hooks.
	Reported *router.Reported
	// moving is held while parents move, so that a status that was read earlier does not take them back.
	moving sync.Mutex
	// policy guards Compiled.Rollout, which a user may edit while the controller runs.
	policy sync.Mutex
	// outdated means that the version of the parents that have not moved is another one by now.
	outdated atomic.Bool
	cancel   context.CancelFunc
	stopped  chan struct{}
}

// Worker runs one program.
type Worker interface {
	// Run runs until the context ends and all runs have ended.
	Run(ctx context.Context)
	// RetryNow retries failed objects now.
	RetryNow()
	// RetryWrites retries objects that failed because of the API server.
	RetryWrites()
	// SyncAll enqueues all objects.
	SyncAll(cause queue.Cause)
	Health() controller.Health
	// Close closes the watches, which are open before Run.
	Close()
	// Resource is the kind of the objects.
	Resource() object.Resource
	// ObjectStates returns the state of each object, ObjectState that of one.
	ObjectStates() []record.ObjectState
	ObjectState(key queue.Key) (record.ObjectState, bool)
	// Children returns the children of an object.
	Children(o *object.Object) []record.Child
}

// workersOf returns the workers of a type.
func workersOf[T any](c *Controller) (all []T) {
	for _, w := range c.Workers {
		if one, is := w.(T); is {
			all = append(all, one)
		}
	}
	return all
}

// New creates the workers of a controller, which an object declares unless it is one of a Go program, and opens their
// watches: before those of a replaced controller are closed, so that both share them.
func New(d *Dependencies, compiled *compile.Compiled, declared *object.Object) *Controller {
	c := &Controller{Compiled: compiled, Dependencies: d, cancel: func() {}, stopped: make(chan struct{})}
	tools := controller.Dependencies{
		Store: d.Store, Access: d.Permissions.Accounts, Resolve: d.Resolver.Resolve, Known: d.Resolver.Known.Find,
		Observer: observer{d, compiled.Account}, Unrecorded: d.Unrecorded, Log: d.Log, Backends: d.Backends, Tracer: d.Tracer,
	}
	if len(compiled.Programs) > 0 {
		c.Deletions = guard.New(compiled.Programs[0].DeletionLimit, nil)
		c.AllowDeletions(declared)
		c.Reported = newReported(compiled, declared)
	}
	if compiled.Former() != "" {
		c.Assignment = router.NewAssignment()
		c.setRollbackWhen(nil)
	}
	for _, program := range compiled.Programs {
		tools.Writer = d.Writer() // Each has a limit of concurrent requests of its own.
		c.Workers = append(c.Workers, composite.New(d.InFlight.WrapProgram(program), composite.Dependencies{
			Dependencies: tools, DeletionGuard: c.Deletions, Assignment: c.Assignment, Reported: c.Reported,
		}))
	}
	for _, program := range compiled.Handlers {
		tools.Writer = d.Writer()
		c.Workers = append(c.Workers, handler.New(d.InFlight.WrapHandlers(program), tools))
	}
	return c
}

// Writer returns what writes as Setpoint itself.
func (d *Dependencies) Writer() *apply.Writer {
	return apply.New(d.Client, apply.Options{Observe: d.Metrics.ObserveRequest})
}

// Launch runs the controller whenever this replica leads, after first has returned true. A replaced controller has
// stopped before, so that no two write to the same objects.
func (c *Controller) Launch(ctx context.Context, in *leader.Elector, first func(context.Context) bool) {
	ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		defer close(c.stopped)
		in.WhileLeading(ctx, func(ctx context.Context) {
			if !first(ctx) {
				return
			}
			var all sync.WaitGroup
			for _, w := range c.Workers {
				all.Go(func() { w.Run(ctx) })
			}
			all.Wait()
		})
	}()
}

// Shutdown stops the controller and waits for its runs.
func (c *Controller) Shutdown() {
	c.cancel()
	<-c.stopped
	for _, w := range c.Workers {
		w.Close()
	}
	c.Close()
}

// SyncAll enqueues all objects. After a restart of the hook, earlier failures of reviews are void.
func (c *Controller) SyncAll(cause queue.Cause) {
	for _, w := range c.Workers {
		w.SyncAll(cause)
	}
	if c.Admission != nil && cause.Kind == queue.HookChanged {
		c.Webhooks.ClearFailures(c.Admission.Name)
	}
}

// AllowDeletions confirms the held deletions of all parents, if the object that declares the controller says so.
func (c *Controller) AllowDeletions(declared *object.Object) {
	if c.Deletions != nil && declared != nil {
		c.Deletions.Allow(plan.Annotation(declared, setpoint.AnnotationAllowDeletions))
	}
}

// AllReplicas reports whether every replica does what the controller does: it has only webhooks.
func (c *Controller) AllReplicas() bool { return len(c.Programs)+len(c.Handlers) == 0 }

// ParentKinds returns the kinds of parents and of handled objects.
func (c *Controller) ParentKinds() []compile.ResourceName {
	managed, _, _ := c.Resources()
	return lists.Map(managed, func(resource object.Resource) compile.ResourceName {
		return compile.ResourceName{APIVersion: resource.APIVersion(), Plural: resource.Plural}
	})
}

// RelatedKinds returns the kinds of the related objects that the controller watches.
func (c *Controller) RelatedKinds() []object.Resource {
	return lists.FlatMap(workersOf[*composite.Controller](c), (*composite.Controller).RelatedKinds)
}

// UsesCRD reports whether a CRD defines one of the controller's kinds.
func (c *Controller) UsesCRD(definition string) bool {
	return slices.ContainsFunc(KindsOf(c.Compiled), func(resource object.Resource) bool { return crds.NameOf(resource) == definition })
}

// KindsOf returns all kinds of a controller.
func KindsOf(c *compile.Compiled) []object.Resource {
	managed, written, read := c.Resources()
	return slices.Concat(c.AdmissionKinds, managed, written, read, c.Unserved)
}

// Equivalent reports whether a controller with an unchanged object compiles to what already runs: its code is the same,
// its webhooks select the same changes, and its kinds are served as before, with the same status fields.
func (c *Controller) Equivalent(compiled *compile.Compiled) bool {
	return c.Code.Digest == compiled.Code.Digest && c.rolloutEquivalent(compiled) &&
		slices.Equal(KindsOf(c.Compiled), KindsOf(compiled)) && c.Admission.SelectsAs(compiled.Admission) &&
		slices.EqualFunc(c.Programs, compiled.Programs, func(a, b composite.Program) bool {
			return a.Parent == b.Parent && a.Namespace == b.Namespace && slices.Equal(a.Namespaces, b.Namespaces) &&
				slices.EqualFunc(a.Children, b.Children, plan.Rule.Same) && reflect.DeepEqual(a.StatusOwners, b.StatusOwners)
		}) &&
		slices.EqualFunc(c.Handlers, compiled.Handlers, func(a, b handler.Program) bool {
			return slices.Equal(a.Namespaces, b.Namespaces) && a.Conditions == b.Conditions && a.Record.StatusKey == b.Record.StatusKey &&
				slices.Equal(a.PreviousRecords, b.PreviousRecords) // Those of merged controllers of an operator.
		})
}

// observer passes what workers report to metrics, events and the history.
type observer struct {
	*Dependencies
	account identity.Account
}

// Event sends an event as the ServiceAccount.
func (o observer) Event(at *object.Object, event hook.Event) {
	o.Events.EventAs(o.account.UserFor(at.Namespace()), at, event)
}

// OwnEvent sends an event as Setpoint.
func (o observer) OwnEvent(at *object.Object, event hook.Event) { o.Events.Event(at, event) }

// Ran records a run.
func (o observer) Ran(run record.Run) {
	o.Metrics.ObserveRun(&run)
	o.Recorders.Ran(&run)
	o.History.Add(run)
}

// Deleted records a deletion, which is not counted as a run.
func (o observer) Deleted(deletion record.Run) { o.History.Add(deletion) }

// Handled counts a handler call.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.Metrics.ObserveHandler(program, handler, reason, took, err)
	o.History.AddCall(program, handler, inspect.CallOutcome(err), took)
}

// Health returns the health of all programs and webhooks together.
func (c *Controller) Health() controller.Health {
	sum := controller.Health{Synced: true, WatchErrors: map[string]error{}}
	for _, w := range c.Workers {
		addHealth(&sum, w.Health())
	}
	if c.Admission != nil {
		addHealth(&sum, c.Webhooks.Health(c.Admission.Name))
	}
	sum.Overdue, sum.OverdueMessage = c.InFlight.Overdue(c.Name())
	sum.HookDown, sum.HookUnreachable = c.Endpoints.Failures(c.Name(), c.HookAddresses)
	return sum
}

// addHealth adds the health of one more program.
func addHealth(sum *controller.Health, h controller.Health) {
	sum.Synced = sum.Synced && h.Synced
	maps.Copy(sum.WatchErrors, h.WatchErrors)
	sum.Parents += h.Parents
	sum.Children += h.Children
	sum.Paused += h.Paused
	sum.Held.Count += h.Held.Count
	sum.Held.Parents += h.Held.Parents
	sum.Held.Value = cmp.Or(sum.Held.Value, h.Held.Value)
	sum.HeldUnknown = sum.HeldUnknown || h.HeldUnknown
	sum.Conflicting += h.Conflicting
	sum.ConflictMessage = cmp.Or(sum.ConflictMessage, h.ConflictMessage)
	sum.IndexMessage = cmp.Or(sum.IndexMessage, h.IndexMessage)
	sum.StreamMessage = cmp.Or(sum.StreamMessage, h.StreamMessage)
	sum.Failing += h.Failing
	sum.HookFailing += h.HookFailing
	sum.HookMessage = cmp.Or(sum.HookMessage, h.HookMessage)
	if h.LastError.Time.After(sum.LastError.Time) {
		sum.LastError = h.LastError
	}
	sum.RelatedMissing += h.RelatedMissing
	sum.Invalid += h.Invalid
	sum.InvalidMessage = cmp.Or(sum.InvalidMessage, h.InvalidMessage)
	sum.RelatedMessage = cmp.Or(sum.RelatedMessage, h.RelatedMessage)
	sum.Forbidden += h.Forbidden
	sum.ForbiddenMessage = cmp.Or(sum.ForbiddenMessage, h.ForbiddenMessage)
	sum.ForbiddenNamespaces = lists.Union(sum.ForbiddenNamespaces, h.ForbiddenNamespaces)
	slices.Sort(sum.ForbiddenNamespaces)
	for priority, depth := range h.Queue.Depth {
		sum.Queue.Depth[priority] += depth
	}
	sum.Queue.Active += h.Queue.Active
	sum.Queue.Backoff += h.Queue.Backoff
	sum.Queue.Delayed += h.Queue.Delayed
	sum.Queue.OldestWait = max(sum.Queue.OldestWait, h.Queue.OldestWait)
}
