package controllers

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
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
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/revisions"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// runningController runs all programs of a controller.
type runningController struct {
	*compile.Compiled
	workers   []worker
	webhooks  *serving.Webhooks
	inFlight  *calls.InFlight
	endpoints *calls.Endpoints
	// deletions is the deletion guard of the programs of hooks.
	deletions *guard.Guard
	// assignment says which parents have moved to changed hooks; nil if all have.
	assignment *router.Assignment
	// moving is held while parents move, so that a status that was read earlier does not take them back.
	moving sync.Mutex
	// reported follows the versions in responses; nil without hooks.
	reported *router.Reported
	// outdatedLogic means that the version of the parents that have not moved is another one by now.
	outdatedLogic atomic.Bool
	cancel        context.CancelFunc
	stopped       chan struct{}
}

// worker runs one program.
type worker interface {
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
}

// workersOf returns the workers of a type.
func workersOf[T any](r *runningController) (all []T) {
	for _, w := range r.workers {
		if one, is := w.(T); is {
			all = append(all, one)
		}
	}
	return all
}

// newRunningController creates the workers and opens their watches, before those of a
// replaced controller are closed, so that both share them.
func (d *Dependencies) newRunningController(compiled *compile.Compiled, declared *object.Object) *runningController {
	r := &runningController{Compiled: compiled, webhooks: d.Webhooks, inFlight: d.InFlight,
		endpoints: d.Endpoints, cancel: func() {}, stopped: make(chan struct{})}
	if len(compiled.Programs) > 0 {
		r.deletions = guard.New(compiled.Programs[0].DeletionLimit, nil)
		r.allowDeletions(declared)
		r.reported = newReported(compiled, declared)
	}
	if compiled.Former() != "" {
		r.assignment = router.NewAssignment()
		r.setRollbackWhen(nil)
	}
	for _, program := range compiled.Programs {
		needs := composite.Dependencies{
			Dependencies: d.toolsFor(compiled.Account), DeletionGuard: r.deletions, Assignment: r.assignment, Reported: r.reported,
		}
		r.workers = append(r.workers, composite.New(d.InFlight.WrapProgram(program), needs))
	}
	for _, program := range compiled.Handlers {
		r.workers = append(r.workers, handler.New(d.InFlight.WrapHandlers(program), d.toolsFor(compiled.Account)))
	}
	if p := compiled.Admission; p != nil {
		r.workers = append(r.workers, admissionWorker{d.Webhooks, p.Name})
	}
	return r
}

// toolsFor returns the dependencies of programs that act as a ServiceAccount.
func (d *Dependencies) toolsFor(account identity.Account) controller.Dependencies {
	return controller.Dependencies{
		Store: d.Store, Writer: d.writer(), Access: d.Permissions.Accounts, Resolve: d.Resolver.Resolve, Known: d.Resolver.Known.Find,
		Observer: observer{d.Metrics, d.Events, account, d.History, d.Recorders}, Unrecorded: d.Unrecorded, Log: d.Log,
		Backends: d.Backends, Tracer: d.Tracer,
	}
}

// writer returns what writes as Setpoint itself.
func (d *Dependencies) writer() *apply.Writer {
	return apply.New(d.Client, apply.Options{Observe: d.Metrics.ObserveRequest})
}

// revisions returns what stores the versions of the logic of controllers.
func (d *Dependencies) revisions() *revisions.Store {
	return &revisions.Store{Writer: d.writer(), Namespace: d.Namespace}
}

// observer passes what controllers report to metrics, events and the history.
type observer struct {
	*serving.Metrics
	events  *events.Writer
	account identity.Account
	history *inspect.History
	// recorders are those of the process.
	recorders *recording.Recorders
}

// Event sends an event as the ServiceAccount.
func (o observer) Event(at *object.Object, event hook.Event) {
	o.events.EventAs(o.account.UserFor(at.Namespace()), at, event)
}

// OwnEvent sends an event as Setpoint.
func (o observer) OwnEvent(at *object.Object, event hook.Event) { o.events.Event(at, event) }

// Ran records a run.
func (o observer) Ran(run record.Run) {
	o.ObserveRun(&run)
	o.recorders.Ran(&run)
	o.history.Add(run)
}

// Deleted records a deletion, which is not counted as a run.
func (o observer) Deleted(deletion record.Run) { o.history.Add(deletion) }

// Handled counts a handler call.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.ObserveHandler(program, handler, reason, took, err)
	o.history.AddCall(program, handler, inspect.CallOutcome(err), took)
}

// launch runs the controller whenever this replica leads: after the replaced one has stopped,
// so that no two write to the same objects, and after first has returned.
func (r *runningController) launch(ctx context.Context, in *leader.Elector, first func(context.Context) bool) {
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.stopped)
		in.WhileLeading(ctx, func(ctx context.Context) {
			if !first(ctx) {
				return
			}
			var all sync.WaitGroup
			for _, controller := range r.workers {
				all.Go(func() { controller.Run(ctx) })
			}
			all.Wait()
		})
	}()
}

// shutdown stops the controller and waits for its runs.
func (r *runningController) shutdown() {
	r.cancel()
	<-r.stopped
	for _, controller := range r.workers {
		controller.Close()
	}
	r.Close()
}

// syncAll enqueues all objects.
func (r *runningController) syncAll(cause queue.Cause) {
	for _, w := range r.workers {
		w.SyncAll(cause)
	}
}

// health returns the health of all programs together.
func (r *runningController) health() controller.Health {
	sum := controller.Health{Synced: true, WatchErrors: map[string]error{}}
	for _, controller := range r.workers {
		addHealth(&sum, controller.Health())
	}
	if r.inFlight != nil {
		sum.Overdue, sum.OverdueMessage = r.inFlight.Overdue(r.Name())
	}
	if r.endpoints != nil {
		sum.HookDown, sum.HookUnreachable = r.endpoints.Failures(r.Name(), r.HookAddresses)
	}
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
	sum.ForbiddenNamespaces = append(sum.ForbiddenNamespaces, h.ForbiddenNamespaces...)
	slices.Sort(sum.ForbiddenNamespaces)
	sum.ForbiddenNamespaces = slices.Compact(sum.ForbiddenNamespaces)
	for priority, depth := range h.Queue.Depth {
		sum.Queue.Depth[priority] += depth
	}
	sum.Queue.Active += h.Queue.Active
	sum.Queue.Backoff += h.Queue.Backoff
	sum.Queue.Delayed += h.Queue.Delayed
	sum.Queue.OldestWait = max(sum.Queue.OldestWait, h.Queue.OldestWait)
}

// parentKinds returns the kinds of parents and of handled objects.
func (r *runningController) parentKinds() []compile.ResourceName {
	managed, _, _ := r.Resources()
	return lists.Map(managed, func(resource object.Resource) compile.ResourceName {
		return compile.ResourceName{APIVersion: resource.APIVersion(), Plural: resource.Plural}
	})
}

// usesCRD reports whether a CRD defines one of the controller's kinds.
func (r *runningController) usesCRD(definition string) bool {
	return slices.ContainsFunc(allKinds(r.Compiled), func(resource object.Resource) bool { return crds.NameOf(resource) == definition })
}

// allKinds returns all kinds of a controller.
func allKinds(c *compile.Compiled) []object.Resource {
	managed, written, read := c.Resources()
	return slices.Concat(c.AdmissionKinds, managed, written, read, c.Unserved)
}

// equivalent reports whether a controller with an unchanged object compiles to what already
// runs: its code is the same, its webhooks select the same changes, and its kinds are served as before, with the same
// status fields.
func (r *runningController) equivalent(compiled *compile.Compiled) bool {
	return r.Code.Digest == compiled.Code.Digest && r.rolloutEquivalent(compiled) &&
		slices.Equal(allKinds(r.Compiled), allKinds(compiled)) && r.Admission.SelectsAs(compiled.Admission) &&
		slices.EqualFunc(r.Programs, compiled.Programs, func(a, b composite.Program) bool {
			return a.Parent == b.Parent && a.Namespace == b.Namespace && slices.Equal(a.Namespaces, b.Namespaces) &&
				slices.EqualFunc(a.Children, b.Children, plan.Rule.Same) && reflect.DeepEqual(a.StatusOwners, b.StatusOwners)
		}) &&
		slices.EqualFunc(r.Handlers, compiled.Handlers, func(a, b handler.Program) bool {
			return slices.Equal(a.Namespaces, b.Namespaces) && a.Conditions == b.Conditions && a.HandledStatusKey == b.HandledStatusKey &&
				slices.Equal(a.FormerRecords, b.FormerRecords) // Those of merged controllers of an operator.
		})
}

// admissionWorker represents the reviews of a controller among its workers. The webhook server
// runs them in every replica.
type admissionWorker struct {
	webhooks *serving.Webhooks
	program  string
}

func (a admissionWorker) Run(ctx context.Context) { <-ctx.Done() }
func (admissionWorker) RetryNow()                 {}
func (admissionWorker) RetryWrites()              {}
func (admissionWorker) Close()                    {}

// SyncAll has no objects to enqueue. After a restart of the hook, earlier failures are void.
func (a admissionWorker) SyncAll(cause queue.Cause) {
	if cause.Kind == queue.HookChanged {
		a.webhooks.ClearFailures(a.program)
	}
}

func (a admissionWorker) Health() controller.Health { return a.webhooks.Health(a.program) }
