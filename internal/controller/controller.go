// Package controller is what every controller does, whatever its loop: it watches objects,
// queues them, runs workers, and reports how each object is doing.
//
// Package composite drives objects to a desired state and package handler calls handlers for
// what happens to objects; both embed a Base. What to write is not decided here.
package controller

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Base is the part of a controller that does not depend on its loop.
type Base struct {
	Dependencies
	Owned

	Queue    *queue.Queue
	Memories *Memories

	loop    Loop
	options Options
	// objects are the views of the reconciled objects, watches all watches.
	objects []*cache.View
	watches []Watch
	// watching is closed once all watches are set: event handlers run in other goroutines and may run before that.
	watching  chan struct{}
	startedAt time.Time
	running   atomic.Bool
}

// Loop is what one type of controller knows of its objects.
type Loop interface {
	// PhaseOf returns the phase of an object.
	PhaseOf(o *object.Object) Phase
	// NewMemory returns an empty memory.
	NewMemory() Remembered
	// Drop drops what the loop knows of an object that is gone, apart from the memory.
	Drop(key queue.Key)
	// Describe adds what the loop knows of an object.
	Describe(o *object.Object, state *record.ObjectState)
}

// Options describe a controller.
type Options struct {
	Name string
	// Resource is the kind of the reconciled objects.
	Resource object.Resource
	// Workers is the maximum number of concurrent reconciles; 32 if zero.
	Workers int
	// Filtered means that the API server leaves out objects by a selector of labels or
	// fields: an object that stops matching looks deleted.
	Filtered bool
	// Owns are the kinds of objects that a reconciled object may control, NamespacesOf returns those of a kind, "" for all.
	Owns         []object.Resource
	NamespacesOf func(object.Resource) []string
	// Account is as which ServiceAccount the controller writes; zero for Setpoint's own rights.
	Account identity.Account
}

// Dependencies are what a controller needs.
type Dependencies struct {
	Store  *cache.Cache
	Writer *apply.Writer
	// Access reviews what Accounts may read; not used without an Account.
	Access *identity.Reviewer
	// Resolve finds the resource that a customize hook names.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// Known returns a kind that Resolve has found before; may be nil.
	Known func(apiVersion, plural string) (object.Resource, bool)
	// Backends are those of all controllers; nil for programs that do not run.
	Backends *backend.Backends
	Observer Observer
	// Unrecorded means that no history is kept: the Observer gets no steps of runs.
	Unrecorded bool
	Log        *slog.Logger
	// Tracer is nil without traces.
	Tracer *trace.Tracer
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// QueueOptions has the clock of the queue, and the random numbers of all delays; those of queue.Options if nil.
	QueueOptions queue.Options
	// Sequential makes the calls of one run one after another, so that a run can be repeated exactly.
	Sequential bool

	account identity.Account
}

// UserFor is the user of the ServiceAccount for an object in a namespace; empty for Setpoint itself.
func (d *Dependencies) UserFor(namespace string) string { return d.account.UserFor(namespace) }

// WriterFor writes, and reads from the API server, as the ServiceAccount.
func (d *Dependencies) WriterFor(namespace string) *apply.Writer {
	return d.Writer.As(d.UserFor(namespace))
}

// New returns the Base of a loop, without watches.
func New(loop Loop, options Options, d Dependencies) *Base {
	options.Workers, d.account = cmp.Or(options.Workers, 32), options.Account
	d.Log = d.Log.With("controller", options.Name)
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.QueueOptions.Random == nil {
		d.QueueOptions.Random = rand.Float64
	}
	return &Base{
		Dependencies: d,
		Queue:        queue.New(d.QueueOptions),
		Memories:     NewMemories(loop.NewMemory),
		loop:         loop,
		options:      options,
		watching:     make(chan struct{}),
	}
}

// Run runs the workers until the context ends. It calls start when the caches have synced
// and stop when the last worker has returned.
func (b *Base) Run(ctx context.Context, reconcile func(context.Context, queue.Item) queue.Outcome, start, stop func()) {
	if !b.WaitForSync(ctx) {
		return
	}
	b.startedAt = b.Now()
	start()
	b.Log.Info("controller started", "objects", b.Len(), "workers", b.options.Workers)
	b.running.Store(true)
	defer b.running.Store(false)
	b.Queue.Work(ctx, b.options.Workers, reconcile)
	stop()
	b.Log.Info("controller stopped")
}

// Running reports whether the workers run, which they do in the leader only.
func (b *Base) Running() bool { return b.running.Load() }

// waited is how long an item waited for a worker. Time before Run does not count.
func (b *Base) waited(item queue.Item) time.Duration {
	return min(item.Waited, b.Since(b.startedAt))
}

// Since is the time since t by the controller's clock.
func (b *Base) Since(t time.Time) time.Duration { return b.Now().Sub(t) }

// SyncAll queues every managed object.
func (b *Base) SyncAll(cause queue.Cause) {
	for o := range b.Managed() {
		b.Queue.Add(KeyOf(o), cause)
	}
}

// Managed are the objects that the controller manages, in no order.
func (b *Base) Managed() iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		for _, view := range b.objects {
			for o := range view.All() {
				if b.manages(o) && !yield(o) {
					return
				}
			}
		}
	}
}

// Objects are the managed objects, sorted by namespace and name.
func (b *Base) Objects() []*object.Object {
	return slices.SortedFunc(b.Managed(), func(x, y *object.Object) int {
		return cmp.Or(cmp.Compare(x.Namespace(), y.Namespace()), cmp.Compare(x.Name(), y.Name()))
	})
}

// Len is the number of objects in the cache of the reconciled kind.
func (b *Base) Len() int {
	n := 0
	for _, view := range b.objects {
		n += view.Len()
	}
	return n
}

// Get returns the object of a key, or nil.
func (b *Base) Get(key queue.Key) *object.Object {
	for _, view := range b.objects {
		if o := view.Get(key.Namespace, key.Name); o != nil {
			return o
		}
	}
	return nil
}

func (b *Base) manages(o *object.Object) bool { return b.loop.PhaseOf(o) != PhaseIgnored }

// Resource is the kind of the reconciled objects.
func (b *Base) Resource() object.Resource { return b.options.Resource }

// ObjectID identifies an object among those of controllers that share state.
type ObjectID struct {
	Base *Base
	Key  queue.Key
}

// ID identifies an object of this controller.
func (b *Base) ID(key queue.Key) ObjectID { return ObjectID{b, key} }

// KeyOf is the queue's key of an object.
func KeyOf(o *object.Object) queue.Key {
	return queue.Key{Namespace: o.Namespace(), Name: o.Name()}
}

// Logic is one version of the hooks of a controller.
type Logic struct {
	// Version names it; empty if the controller has no rollouts.
	Version string
	// Moved means that a rollout has moved the object to it from the version before.
	Moved          bool
	Sync, Finalize hook.Hook
	Customize      hook.Customizer
}

// Phase is what a controller has to do with an object.
type Phase int

const (
	// PhaseIgnored means that the controller does not manage the object.
	PhaseIgnored Phase = iota
	// PhaseManaged calls the hook or the handlers.
	PhaseManaged
	// PhaseFinalizing calls the finalize hook.
	PhaseFinalizing
	// PhaseReleasing only removes the controller's finalizer.
	PhaseReleasing
	// PhasePaused leaves the object alone until the user resumes it.
	PhasePaused
)

// PhaseOf returns the phase of an object that the controller selects, or that has its finalizer.
func PhaseOf(o *object.Object, selected, finalizer bool) Phase {
	switch {
	case !selected && !finalizer:
		return PhaseIgnored
	case plan.Annotation(o, setpoint.AnnotationPaused) == "true":
		return PhasePaused
	case !selected:
		return PhaseReleasing
	}
	return PhaseManaged
}

// SkipReason says why nothing is called in the phase; empty if something may be.
func (p Phase) SkipReason() string {
	return map[Phase]string{
		PhaseIgnored:   "not managed by this controller: its labels or annotations do not match, or it is being deleted",
		PhasePaused:    "paused by its annotation",
		PhaseReleasing: "only the finalizer of this controller would be removed",
	}[p]
}
