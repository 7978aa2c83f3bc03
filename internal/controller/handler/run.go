package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

type run struct {
	*subject

	// object writes the object itself, dependents what it owns.
	object     *objectWriter
	dependents *dependents
	calls      int
	// failure is the error of the run as a whole, handlerFailing means that a handler failed.
	failure        error
	handlerFailing bool
	// conflicted means that an object changed during the run.
	conflicted bool
}

// subject is the handled object, with what all share that read and write for it in a run.
type subject struct {
	*Controller
	*controller.Run

	// writer writes as the ServiceAccount. In a dry run it is dry, which is nil otherwise.
	writer writer
	dry    *dryRun
	// memory is empty outside of the worker of the object. The pass, which decides what to do, is nil there: there is no
	// record then.
	memory *memory
	pass   *trigger.Pass
}

// memory is what the controller remembers of one object between runs. It belongs to the worker that holds the object's
// key.
type memory struct {
	controller.Memory

	trigger.States

	// writeAttempt counts failed writes of the object itself.
	writeAttempt trigger.Attempt
	// stateRemovals counts how often another client removed the record recently.
	stateRemovals trigger.Attempt
	// conditions means that responses have had conditions.
	conditions bool
	// prunedStatus are the fields of the status that the API server did not store, to be written again at prunedNext; nil
	// for none.
	prunedStatus map[string]any
	prunedNext   time.Time
	applied      applied
	// evictions has the handlers whose evictions were refused.
	evictions map[*trigger.State]evictionWait
	daemons   []*daemonState
}

// dependents are the objects that a handled object owns. They are written, and so is what else a response applies or
// deletes.
type dependents struct {
	*subject

	// byKind are those that were observed, by kind in the order of the program, and now those after our writes.
	byKind [][]*object.Object
	now    []*object.Object
	// written means that one was written, and stale that it was since they were observed.
	written, stale bool
}

// objectWriter writes the handled object: what responses change in it, the record, the condition and the finalizer.
type objectWriter struct {
	*subject

	dependents *dependents
	// writing is the response in progress, and sent what was sent of it.
	writing *trigger.Response
	sent    map[string]any
	// written means that the object was written, and stale that it was since it was observed.
	written, stale bool
	// resolved means that a conflict ended.
	resolved bool
}

// applied is what responses have applied of what an object owns.
type applied struct {
	// digests are those of the objects after the latest apply.
	digests []appliedDigests
	// names says by short names which owned objects responses have applied, and which not; nil without Drift handlers.
	names map[string]bool
}

// appliedDigests are digests of an owned object, as it was applied and as it was stored.
type appliedDigests struct{ applied, stored uint64 }

// daemonState is what is remembered of the daemon of one object.
type daemonState struct {
	*trigger.State

	// running is nil unless the daemon runs; finished means that it has completed, and lost that its process may run
	// it although a call failed. connection is the latest connection to the process that the daemon has seen.
	running        *daemonRun
	finished, lost bool
	connection     uint64
}

// daemonRun is a running daemon of one object, which is a function of Go or what another process runs. It reads and writes
// the object outside of the runs of the object.
type daemonRun struct {
	*Controller

	handler *trigger.Handler
	key     queue.Key
	uid     string
	// ctx is that of the daemon. controllerCtx ends when Setpoint stops: daemons in other processes outlive the first.
	ctx, controllerCtx context.Context //nolint:containedctx // Writes end with the daemon's context.
	stop               context.CancelFunc
	started            time.Time
	changed            chan struct{}
	// notified receives when the process of the handler named the object.
	notified chan struct{}
	// done is closed when the daemon has returned err, after refused writes at some locations.
	done    chan struct{}
	err     error
	refused []record.Location
	// stopped means that the context was cancelled, deadline is until when a deleted object
	// waits, and stuck means that the missed deadline was reported.
	stopped  bool
	deadline time.Time
	stuck    bool

	mu sync.Mutex
	// seen is the object as the daemon last saw it.
	seen *object.Object
}

// dryRun is what a run has in place of the API server when it writes nothing.
type dryRun struct {
	*apply.DryWriter

	skipCalls bool
	calls     []DryRunCall
	// notApplied is why the response to the latest call could not be applied.
	notApplied error
}

// DryRunCall is a call that would be made, and its result.
type DryRunCall struct {
	Handler string
	Reason  hook.Reason
	// Since is since when the call is pending; zero if unknown.
	Since time.Time
	// Debounce is how long the object must not change before the call.
	Debounce time.Duration
	Attempt  int
	// Changes are the changed fields in the request.
	Changes []hook.FieldChange
	// Response is nil if the handler was not called, or failed with Err.
	Response *hook.HandlerResponse
	Err      error
	// GaveUp means that a failed call would not be retried.
	GaveUp bool
	// Writes are those of other objects.
	Writes []plan.Action
}

// NewMemory returns an empty memory.
func (c *Controller) NewMemory() controller.Remembered { return new(memory) }

func (m *memory) Release() {
	for _, d := range m.daemons {
		if d.running != nil {
			d.running.stop()
		}
	}
}

// evictionWait records since when budgets refuse the evictions of a handler, and whether an event was sent.
type evictionWait struct {
	since    time.Time
	reported bool
}

// writer reads from the API server and writes to it, as the controller's ServiceAccount. That of a dry run does not write.
type writer interface {
	Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error)
	List(ctx context.Context, resource object.Resource, namespace, selector string) ([]*object.Object, error)
	Ownership(ctx context.Context, resource object.Resource, namespace, name string) (*apply.Ownership, error)
	Create(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error)
	Apply(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error)
	Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	Evict(ctx context.Context, resource object.Resource, pod *object.Object) error
	Patch(ctx context.Context, resource object.Resource, o *object.Object, patch []byte, part string) (*object.Object, error)
}

// errGone ends a run whose object was deleted. The watch delivers the deletion soon.
var errGone = errors.New("the object is gone")

func (m *memory) firstError() *trigger.Failure {
	return cmp.Or(lists.Map(m.Handlers, func(h *trigger.State) *trigger.Failure { return h.Failed })...)
}

// newRequest returns a request with the object and what it owns, by kind. Who makes the call adds the Reader.
func (c *Controller) newRequest(h *trigger.Handler, o *object.Object, owned [][]*object.Object) *hook.HandlerRequest {
	n := &hook.HandlerRequest{
		Controller: c.program.Object, Handler: h.Name, Object: o.JSON(), Namespace: o.Namespace(), Name: o.Name(),
		Owned: make([]hook.Group, len(c.program.Owns)),
	}
	for i, resource := range c.program.Owns {
		n.Owned[i] = hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind}
		if i < len(owned) {
			n.Owned[i].Objects = entriesOf(owned[i])
		}
	}
	return n
}

func (r *run) recordError(h *trigger.State, err error) {
	err = r.Secrets.Error(err)
	if h != nil {
		h.Failed = r.failed(err)
	}
	r.Record.Failed(err)
	r.handlerFailing = true
	r.ReportFailure(err, controller.EventOf(err), false)
}

func (r *run) failed(err error) *trigger.Failure {
	return &trigger.Failure{
		Reason: controller.ReasonOf(err), Message: failure.OneLine(err), Fault: record.FaultOf(err), Refused: r.Record.Refused(),
	}
}

// newDetached returns a run outside of the worker of the object, which has no memory.
func (c *Controller) newDetached(of *controller.Run) *run {
	s := &subject{Controller: c, Run: of, writer: c.WriterFor(of.Stored.Namespace()), memory: &memory{}}
	owned := &dependents{subject: s}
	return &run{subject: s, dependents: owned, object: &objectWriter{subject: s, dependents: owned}}
}

// fail records a failure of the run as a whole, which is retried with backoff. A conflict is no failure.
func (r *run) fail(err error) {
	err = r.Secrets.Error(err)
	switch {
	case errors.Is(err, controller.ErrConflict):
		r.conflicted = true
		r.Record.Failed(err)
	case err != nil:
		r.failure = err
		r.Record.Failed(err)
		r.memory.writeAttempt.Failed(r.Now(), r.QueueOptions.Random)
		r.ReportFailure(err, controller.EventOf(err), false)
	}
}

// reader lists objects for handlers, limited to what the program declares.
type reader struct {
	controller *Controller
	// namespace is that of the handled object.
	namespace string
	// values are those of the Secrets that the caller knows, and that were read.
	values *redact.Values
}

// List calls the API server: rare reads are not worth a watch.
func (r reader) List(ctx context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
	group := hook.Group{APIVersion: apiVersion, Kind: kind}
	p := &r.controller.program
	if limits := p.Namespaces; p.Resource.Namespaced && len(limits) > 0 && !slices.Contains(limits, namespace) {
		return group, &hook.TerminalError{Err: fmt.Errorf("may not list %s in the namespace %q: the controller is limited to %v",
			kind, namespace, limits)}
	}
	i := slices.IndexFunc(p.Reads, func(resource object.Resource) bool { return permit.MatchesKind(resource, apiVersion, kind) })
	switch {
	case i < 0:
		return group, permit.Undeclared("list", false, apiVersion, kind)
	case p.Reads[i].Unserved:
		return group, nil
	}
	found, err := r.controller.WriterFor(r.namespace).List(ctx, p.Reads[i], namespace, selector)
	if err != nil {
		return group, fmt.Errorf("list %s: %w", p.Reads[i], err)
	}
	group.Objects = entriesOf(found)
	controller.SeeObjects(r.values, found)
	r.values.Found() // It reads them: a daemon lists as long as it runs.
	return group, nil
}

// recordedRequest returns a request in the form that records keep. It must not reference the
// controller, which would keep it in memory.
func recordedRequest(n *hook.HandlerRequest) record.Request {
	kept := *n
	kept.Reader = nil
	return record.Request{Handler: &kept}
}

func withWholeNumbers(response *hook.HandlerResponse) *hook.HandlerResponse {
	whole := *response
	whole.Patch, whole.Status = object.WholeNumbers(whole.Patch), object.WholeNumbers(whole.Status)
	whole.Apply = slices.Clone(whole.Apply)
	for i := range whole.Apply {
		whole.Apply[i].Object = object.WholeNumbers(whole.Apply[i].Object)
	}
	return &whole
}

func logAttrs(n *hook.HandlerRequest, h *trigger.Handler) []any {
	return []any{"handler", h.Name, "namespace", n.Namespace, "name", n.Name}
}
