package host

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// running is a controller at work: all its programs.
type running struct {
	*compile.Compiled
	controllers []worker
	gate        *gate
	inFlight    *inFlight
	endpoints   *endpoints
	// deletions is the deletion guard of the programs that ask hooks what should be.
	deletions *engine.Deletions
	stop      context.CancelFunc
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
	Health() engine.Health
	// Close ends the watches, which are open before Run.
	Close()
}

// prepare makes what a controller runs and opens its watches: before those of a
// former one end, so that shared ones go on.
func (f *fleet) prepare(compiled *compile.Compiled, declared *object.Object) *running {
	r := &running{Compiled: compiled, gate: f.host.gate, inFlight: f.host.inFlight, endpoints: f.host.endpoints, stop: func() {}, stopped: make(chan struct{})}
	if len(compiled.Programs) > 0 {
		r.deletions = engine.NewDeletions(compiled.Programs[0].Guard, nil)
		r.allowDeletions(declared)
	}
	for _, program := range compiled.Programs {
		tools := f.host.tools()
		tools.Deletions = r.deletions
		r.controllers = append(r.controllers, engine.New(f.host.inFlight.program(program), tools))
	}
	for _, program := range compiled.Reactions {
		r.controllers = append(r.controllers, reacting{react.New(f.host.inFlight.reaction(program), f.host.reactTools())})
	}
	if p := compiled.Admission; p != nil {
		r.controllers = append(r.controllers, admitting{f.host.gate, p.Name})
	}
	return r
}

// launch sets it to work in every term: after a former one has ended, so that no
// two write to the same objects, and after what is to come first has been done.
func (r *running) launch(ctx context.Context, in *office, first func(context.Context) bool) {
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer close(r.stopped)
		in.during(ctx, func(ctx context.Context) {
			if first(ctx) {
				r.run(ctx)
			}
		})
	}()
}

// run works until the context ends and the last run has.
func (r *running) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, controller := range r.controllers {
		all.Go(func() { controller.Run(ctx) })
	}
	all.Wait()
}

// end stops a controller and waits for its last runs.
func (r *running) end() {
	r.stop()
	<-r.stopped
	for _, controller := range r.controllers {
		controller.Close()
	}
	r.Release()
}

// retryNow has what failed tried again at once.
func (r *running) retryNow() {
	for _, controller := range r.controllers {
		controller.RetryNow()
	}
}

// retryWrites retries what failed for want of the API server.
func (r *running) retryWrites() {
	for _, controller := range r.controllers {
		controller.RetryWrites()
	}
}

// syncAll has all parents synced for a cause.
func (r *running) syncAll(cause queue.CauseKind) {
	for _, controller := range r.controllers {
		controller.SyncAll(cause)
	}
}

// health is that of all its programs together.
func (r *running) health() engine.Health {
	sum := engine.Health{Synced: true, WatchErrors: map[string]error{}}
	for _, controller := range r.controllers {
		add(&sum, controller.Health())
	}
	if r.inFlight != nil {
		sum.Overdue, sum.OverdueMessage = r.inFlight.overdue(r.Name())
	}
	if r.endpoints != nil {
		sum.HookDown, sum.Unconnected = r.endpoints.find(r.Name(), r.HookAddresses)
	}
	return sum
}

// add adds the health of one more program.
func add(sum *engine.Health, h engine.Health) {
	sum.Synced = sum.Synced && h.Synced
	maps.Copy(sum.WatchErrors, h.WatchErrors)
	sum.Parents += h.Parents
	sum.Children += h.Children
	sum.Paused += h.Paused
	sum.Held.Deletions += h.Held.Deletions
	sum.Held.Parents += h.Held.Parents
	sum.Held.Value = cmp.Or(sum.Held.Value, h.Held.Value)
	sum.HeldUnknown = sum.HeldUnknown || h.HeldUnknown
	sum.Unsettled += h.Unsettled
	sum.Unrest = cmp.Or(sum.Unrest, h.Unrest)
	sum.InError += h.InError
	sum.HookFailing += h.HookFailing
	if sum.HookMessage == "" {
		sum.HookMessage = h.HookMessage
	}
	if h.Last.Time.After(sum.Last.Time) {
		sum.Last = h.Last
	}
	queued(&sum.Queue, h.Queue)
}

func queued(sum *queue.Stats, s queue.Stats) {
	for priority, depth := range s.Depth {
		sum.Depth[priority] += depth
	}
	sum.Held += s.Held
	sum.Backoff += s.Backoff
	sum.Delayed += s.Delayed
	sum.OldestWait = max(sum.OldestWait, s.OldestWait)
}

// resources are the kinds of its parents, and of the objects that have handlers.
func (r *running) resources() []compile.Named {
	var all []compile.Named
	add := func(resource object.Resource) {
		all = append(all, compile.Named{APIVersion: resource.APIVersion(), Plural: resource.Plural})
	}
	for _, p := range r.Programs {
		add(p.Parent)
	}
	for _, p := range r.Reactions {
		add(p.Resource)
	}
	return all
}

// uses says whether a CRD defines one of the controller's kinds.
func (r *running) uses(definition string) bool {
	return slices.ContainsFunc(kindsOf(r.Compiled), func(resource object.Resource) bool { return definitionOf(resource) == definition })
}

// kindsOf are all kinds that a controller deals with.
func kindsOf(c *compile.Compiled) []object.Resource {
	all := slices.Clone(c.Asked)
	for _, p := range c.Programs {
		all = append(all, p.Parent)
		for _, rule := range p.Children {
			all = append(all, rule.Resource)
		}
		all = append(all, p.Reads...)
	}
	for _, p := range c.Reactions {
		all = append(append(append(all, p.Resource), p.Owns...), p.Reads...)
		for _, w := range p.Writes {
			all = append(all, w.Resource)
		}
	}
	return all
}

// same says that a controller whose object has not changed would be what runs
// already: the kinds it names are served as before, with the same places in the
// status.
func (r *running) same(compiled *compile.Compiled) bool {
	return slices.Equal(kindsOf(r.Compiled), kindsOf(compiled)) &&
		slices.EqualFunc(r.Programs, compiled.Programs, func(a, b engine.Program) bool {
			return a.Parent == b.Parent && reflect.DeepEqual(a.Children, b.Children) && reflect.DeepEqual(a.StatusOwners, b.StatusOwners)
		}) &&
		slices.EqualFunc(r.Reactions, compiled.Reactions, func(a, b react.Program) bool {
			return a.Conditions == b.Conditions && a.StatusRecord == b.StatusRecord
		})
}
