package manager

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// runningController is a controller at work: all its programs.
type runningController struct {
	*compile.Compiled
	workers   []worker
	webhooks  *webhookServer
	inFlight  *inFlight
	endpoints *endpoints
	// deletions is the deletion guard of the programs that ask hooks what should be.
	deletions *compose.DeletionGuard
	cancel    context.CancelFunc
	stopped   chan struct{}
}

// worker is one program at work, of whichever sort.
type worker interface {
	// Run works until the context ends and the last run has.
	Run(ctx context.Context)
	// RetryNow has what failed tried again at once.
	RetryNow()
	// RetryWrites retries what failed for want of the API server.
	RetryWrites()
	// SyncAll has all objects looked at for a cause.
	SyncAll(cause queue.CauseKind)
	Health() compose.Health
	// Close ends the watches, which are open before Run.
	Close()
}

// newRunningController makes what a controller runs and opens its watches: before those of a
// former one end, so that shared ones go on.
func (cs *controllerSet) newRunningController(compiled *compile.Compiled, declared *object.Object) *runningController {
	r := &runningController{Compiled: compiled, webhooks: cs.manager.webhooks, inFlight: cs.manager.inFlight, endpoints: cs.manager.endpoints, cancel: func() {}, stopped: make(chan struct{})}
	if len(compiled.Programs) > 0 {
		r.deletions = compose.NewDeletionGuard(compiled.Programs[0].DeletionLimit, nil)
		r.allowDeletions(declared)
	}
	for _, program := range compiled.Programs {
		tools := cs.manager.composeTools()
		tools.DeletionGuard = r.deletions
		r.workers = append(r.workers, compose.New(cs.manager.inFlight.wrapProgram(program), tools))
	}
	for _, program := range compiled.Handlers {
		r.workers = append(r.workers, handlerWorker{handle.New(cs.manager.inFlight.wrapHandlers(program), cs.manager.handlerTools())})
	}
	if p := compiled.Admission; p != nil {
		r.workers = append(r.workers, admissionWorker{cs.manager.webhooks, p.Name})
	}
	return r
}

// launch sets it to work in every term: after a former one has ended, so that no
// two write to the same objects, and after what is to come first has been done.
func (r *runningController) launch(ctx context.Context, in *leadership, first func(context.Context) bool) {
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.stopped)
		in.whileLeading(ctx, func(ctx context.Context) {
			if first(ctx) {
				r.run(ctx)
			}
		})
	}()
}

// run works until the context ends and the last run has.
func (r *runningController) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, controller := range r.workers {
		all.Go(func() { controller.Run(ctx) })
	}
	all.Wait()
}

// shutdown stops a controller and waits for its last runs.
func (r *runningController) shutdown() {
	r.cancel()
	<-r.stopped
	for _, controller := range r.workers {
		controller.Close()
	}
	r.Release()
}

// retryNow has what failed tried again at once.
func (r *runningController) retryNow() {
	for _, controller := range r.workers {
		controller.RetryNow()
	}
}

// retryWrites retries what failed for want of the API server.
func (r *runningController) retryWrites() {
	for _, controller := range r.workers {
		controller.RetryWrites()
	}
}

// syncAll has all parents synced for a cause.
func (r *runningController) syncAll(cause queue.CauseKind) {
	for _, controller := range r.workers {
		controller.SyncAll(cause)
	}
}

// health is that of all its programs together.
func (r *runningController) health() compose.Health {
	sum := compose.Health{Synced: true, WatchErrors: map[string]error{}}
	for _, controller := range r.workers {
		addHealth(&sum, controller.Health())
	}
	if r.inFlight != nil {
		sum.Overdue, sum.OverdueMessage = r.inFlight.overdue(r.Name())
	}
	if r.endpoints != nil {
		sum.HookDown, sum.HookUnreachable = r.endpoints.failures(r.Name(), r.HookAddresses)
	}
	return sum
}

// addHealth adds the health of one more program.
func addHealth(sum *compose.Health, h compose.Health) {
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
	sum.Failing += h.Failing
	sum.HookFailing += h.HookFailing
	if sum.HookMessage == "" {
		sum.HookMessage = h.HookMessage
	}
	if h.LastError.Time.After(sum.LastError.Time) {
		sum.LastError = h.LastError
	}
	addQueueStats(&sum.Queue, h.Queue)
}

func addQueueStats(sum *queue.Stats, s queue.Stats) {
	for priority, depth := range s.Depth {
		sum.Depth[priority] += depth
	}
	sum.Active += s.Active
	sum.Backoff += s.Backoff
	sum.Delayed += s.Delayed
	sum.OldestWait = max(sum.OldestWait, s.OldestWait)
}

// parentKinds are the kinds of its parents, and of the objects that have handlers.
func (r *runningController) parentKinds() []compile.ResourceName {
	var all []compile.ResourceName
	add := func(resource object.Resource) {
		all = append(all, compile.ResourceName{APIVersion: resource.APIVersion(), Plural: resource.Plural})
	}
	for _, p := range r.Programs {
		add(p.Parent)
	}
	for _, p := range r.Handlers {
		add(p.Resource)
	}
	return all
}

// usesCRD says whether a CRD defines one of the controller's kinds.
func (r *runningController) usesCRD(definition string) bool {
	return slices.ContainsFunc(allKinds(r.Compiled), func(resource object.Resource) bool { return crdNameOf(resource) == definition })
}

// allKinds are all kinds that a controller deals with.
func allKinds(c *compile.Compiled) []object.Resource {
	all := slices.Clone(c.AdmissionKinds)
	for _, p := range c.Programs {
		all = append(all, p.Parent)
		for _, rule := range p.Children {
			all = append(all, rule.Resource)
		}
		all = append(all, p.Reads...)
	}
	for _, p := range c.Handlers {
		all = append(append(append(all, p.Resource), p.Owns...), p.Reads...)
		for _, w := range p.Writes {
			all = append(all, w.Resource)
		}
	}
	return all
}

// equivalent says that a controller whose object has not changed would be what runs
// already: the kinds it names are served as before, with the same places in the
// status.
func (r *runningController) equivalent(compiled *compile.Compiled) bool {
	return slices.Equal(allKinds(r.Compiled), allKinds(compiled)) &&
		slices.EqualFunc(r.Programs, compiled.Programs, func(a, b compose.Program) bool {
			return a.Parent == b.Parent && reflect.DeepEqual(a.Children, b.Children) && reflect.DeepEqual(a.StatusOwners, b.StatusOwners)
		}) &&
		slices.EqualFunc(r.Handlers, compiled.Handlers, func(a, b handle.Program) bool {
			return a.Conditions == b.Conditions && a.HandledStatusKey == b.HandledStatusKey
		})
}
