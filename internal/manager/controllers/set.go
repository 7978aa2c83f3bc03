// Package controllers runs the controllers of a process: one for each controller object, or those of a Go program. It
// compiles, starts, replaces and stops them, and reports on each in its status and events. How a controller works is in
// the packages below internal/controller; what one may not run beside is in package conflicts.
package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Set starts, stops and replaces controllers: one per controller object, or the
// controllers of a Go program. It is itself a controller of controller objects. The
// namespace of its keys is the kind's name, empty for controllers of a Go program.
type Set struct {
	Dependencies

	declared *declarations
	queue    *queue.Queue
	// started is set when the controllers listed at the start have been reconciled once.
	started atomic.Bool

	// ready is closed when all controllers found at the start are synced.
	ready chan struct{}

	registry *registry
	*changes
	*inspection
	*reporter
	compilation *compilation
	ownership   *ownership
	releaser    *releaser
	rollouts    *rollouts
}

// Dependencies are what the controllers of a process share.
type Dependencies struct {
	// Process is the name of the program.
	Process string
	Log     *slog.Logger
	Client  rest.Interface
	Store   *cache.Cache
	// Leader decides which replica runs controllers, and Owners which Setpoint.
	Leader *leader.Elector
	Owners *conflicts.Owners
	// Others are the controllers of the cluster in a dev run.
	Others          *conflicts.Others
	Metacontrollers *conflicts.Detector
	Permissions     *rbac.Access
	Finalizers      *finalizers.Cluster
	Resolver        *kinds.Resolver
	CRDs            *crds.Installer
	Webhooks        *serving.Webhooks
	InFlight        *calls.InFlight
	Endpoints       *calls.Endpoints
	Backends        *backend.Backends

	// Events, Metrics, History, Recorders and Tracer receive what controllers do. Unrecorded means that nothing could
	// use the steps of runs.
	Events     *events.Writer
	Metrics    *serving.Metrics
	History    *inspect.History
	Recorders  *recording.Recorders
	Tracer     *trace.Tracer
	Unrecorded bool

	// Environment returns what controllers are compiled with. Inline compiles the code of inline hooks; nil if this
	// process does not run any.
	Environment func() compile.Environment
	Inline      func(ctx context.Context, script call.Script) (call.Program, error)
	// Selector is the label selector of controller objects. With GoControllers these are ignored.
	Selector      string
	GoControllers []GoController
	// Namespace is that of Setpoint itself.
	Namespace string
}

// minRetryDelay is the first delay before a controller is started again.
const minRetryDelay = 100 * time.Millisecond

// retryUntil calls a function again, more and more seldom, until it is done. It returns false if the context ends first.
func retryUntil(ctx context.Context, done func(context.Context) bool) bool {
	backoff := wait.Backoff{Duration: minRetryDelay, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	return backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) { return done(ctx), nil }) == nil
}

// prepare makes a step without which a controller does not run, as retryUntil does, and logs each new error.
func prepare(ctx context.Context, log *slog.Logger, key queue.Key, step func(context.Context) error) bool {
	logged := ""
	return retryUntil(ctx, func(ctx context.Context) bool {
		err := step(ctx)
		if err != nil && !apierrors.IsConflict(err) && err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			log.Warn("controller does not start yet; retrying", "controller", key.String(), "error", logged)
		}
		return err == nil
	})
}

// New returns a Set that runs nothing yet.
func New(d Dependencies) *Set {
	backoff := queue.Options{BaseDelay: minRetryDelay, MaxDelay: 10 * time.Second}
	cs := &Set{
		Dependencies: d,
		declared:     &declarations{client: d.Client, kinds: map[string]*controllerKind{}},
		queue:        queue.New(backoff),
		ready:        make(chan struct{}),
		registry:     &registry{entries: map[queue.Key]*controllerEntry{}},
	}
	cs.changes = &changes{Dependencies: &cs.Dependencies, declared: cs.declared, registry: cs.registry, queue: cs.queue}
	// For a controller of a Go program, a changed CRD resets the backoff.
	changed := func(e cache.Event) { cs.enqueueUsers(e, queue.ParentChanged) }
	cs.compilation = &compilation{Dependencies: &cs.Dependencies, declared: cs.declared, registry: cs.registry, queue: cs.queue,
		readers: map[queue.Key]*configmap.Reader{}, crdWatches: &crdWatches{store: d.Store, changed: changed,
			views: map[string]*cache.View{}}}
	cs.ownership = &ownership{Dependencies: &cs.Dependencies, declared: cs.declared, registry: cs.registry, queue: cs.queue}
	cs.rollouts = &rollouts{&cs.Dependencies, cs.declared, cs.registry, cs.queue}
	cs.inspection = &inspection{&cs.Dependencies, cs.declared, cs.registry}
	cs.reporter = &reporter{&cs.Dependencies, cs.declared, cs.registry, cs.ownership, cs.rollouts}
	cs.releaser = &releaser{Dependencies: &cs.Dependencies, declared: cs.declared, registry: cs.registry, ownership: cs.ownership,
		queue: queue.New(backoff), outside: map[queue.Key]string{}}
	if d.Inline != nil {
		cs.compilation.inline = calls.NewCompiler(d.Inline, cs.compilation.codeCompiled)
	}
	return cs
}

// Run watches controller objects and runs their controllers until the context ends.
func (cs *Set) Run(ctx context.Context) error {
	if len(cs.GoControllers) > 0 {
		return cs.runGoControllers(ctx)
	}
	for _, kind := range compile.Kinds() {
		view := cs.Store.Watch(cache.Selection{Resource: kind.Resource, Labels: cs.Selector,
			Managed: true, Optional: cs.Others.DevRun != ""}, cs.controllerChanged(kind))
		cs.declared.kinds[kind.Name] = &controllerKind{Kind: kind, view: view}
	}
	cs.Store.Watch(cache.Selection{Resource: crds.Resource, Metadata: true}, cs.crdChanged)
	defer cs.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { cs.processQueue(ctx); return nil })
	group.Go(func() error { cs.watchMetacontrollers(ctx); return nil })
	group.Go(func() error { cs.watchOthers(ctx); return nil })
	group.Go(func() error { cs.watchPermissions(ctx); return nil })
	group.Go(func() error { cs.Leader.WhileLeading(ctx, cs.reportStatuses); return nil })
	group.Go(func() error { cs.Leader.WhileLeading(ctx, cs.CRDs.Correct); return nil })
	group.Go(func() error { cs.Leader.WhileLeading(ctx, cs.releaser.run); return nil })
	return group.Wait()
}

// processQueue starts, replaces and stops controllers, one at a time.
func (cs *Set) processQueue(ctx context.Context) {
	go cs.signalReady(ctx)
	cs.startAll(ctx)
	cs.queue.Work(ctx, 1, func(ctx context.Context, item queue.Item) queue.Outcome {
		if item.Causes.Only(queue.Retrying) && cs.stillMissing(ctx, item.Key) {
			return queue.Retry()
		}
		return cs.reconcile(ctx, item.Key)
	})
}

// startAll starts the controllers that are listed at the start, oldest first: of two that
// conflict, the younger one must not run before the conflict is detected.
func (cs *Set) startAll(ctx context.Context) {
	if !cs.awaitListed(ctx) {
		return
	}
	// Earlier changes are in the caches.
	cs.enqueueing.Store(true)
	for _, key := range cs.declaredKeys() {
		if cs.reconcile(ctx, key) != queue.NoRequeue() {
			cs.queue.AddAfter(key, queue.Cause{Kind: queue.Start}, minRetryDelay)
		}
	}
	cs.started.Store(true)
	cs.Backends.SetKnown()
	cs.Webhooks.Publish()
}

// declaredKeys returns the keys of all controllers, oldest first.
func (cs *Set) declaredKeys() []queue.Key {
	ranks := map[queue.Key]string{}
	for i, own := range cs.GoControllers {
		ranks[goControllerKey(own.Name)] = goControllerRank(i)
	}
	for key, o := range cs.declared.all() {
		ranks[key] = conflicts.Rank(o)
	}
	return slices.SortedFunc(maps.Keys(ranks), func(a, b queue.Key) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// listedInterval is the interval of looking whether the start is complete.
const listedInterval = 20 * time.Millisecond

// awaitListed waits until all controller objects are known.
func (cs *Set) awaitListed(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, listedInterval, true, func(context.Context) (bool, error) {
		return cs.declared.listed(), nil
	}) == nil
}

// AdmissionControllersListed reports whether all AdmissionControllers are known.
// They are not while the API server does not serve the kind or forbids the list.
func (cs *Set) AdmissionControllersListed() bool {
	for _, kind := range cs.declared.kinds {
		if kind.Resource.Kind == setpoint.AdmissionControllerKind && !kind.view.Synced() {
			return false
		}
	}
	return true
}

// signalReady closes the ready channel when all controllers listed at the start are synced.
func (cs *Set) signalReady(ctx context.Context) {
	if !cs.awaitListed(ctx) {
		return
	}
	err := wait.PollUntilContextCancel(ctx, listedInterval, true, func(context.Context) (bool, error) {
		return cs.checkSynced() == nil && !cs.Webhooks.Registering(), nil
	})
	if err == nil {
		close(cs.ready)
	}
}

// Ready is closed when all controllers found at the start are synced, and the API server calls their webhooks.
func (cs *Set) Ready() <-chan struct{} { return cs.ready }

// Started reports whether all controllers found at the start have been reconciled once.
func (cs *Set) Started() bool { return cs.started.Load() }

// CheckReady returns why not all controllers work: one starts, or one of a Go program is refused, although the caches are
// synced. Kinds that are not served yet do not count.
func (cs *Set) CheckReady() error {
	if err := cs.checkSynced(); err != nil {
		return err
	}
	states := cs.registry.states()
	for _, own := range cs.GoControllers {
		s := states[goControllerKey(own.Name)]
		if s.refusal != nil && !s.refused(setpoint.ReasonResourceNotFound) {
			return fmt.Errorf("%s: %w", own.Name, s.refusal)
		}
	}
	return nil
}

// checkSynced returns an error while a controller starts or its caches are not synced.
func (cs *Set) checkSynced() error {
	if stats := cs.queue.Stats(); !cs.started.Load() || stats.Queued()+stats.Active > 0 {
		return errors.New("controllers are starting")
	}
	for name, health := range cs.Health() {
		if !health.Synced && len(health.WatchErrors) == 0 {
			return fmt.Errorf("%s: caches are not synced", name)
		}
	}
	return nil
}

// RefusalOf returns why a controller of a Go program does not run; nil if it is not refused.
func (cs *Set) RefusalOf(name string) error { return cs.registry.state(goControllerKey(name)).refusal }

// RecordEvent records an event on a controller object, if there is one.
func (cs *Set) RecordEvent(key queue.Key, event hook.Event) {
	if declared := cs.registry.state(key).object; declared != nil {
		cs.Events.Event(declared, event)
	}
}

func (cs *Set) stopAll() {
	cs.queue.Close()
	cs.releaser.queue.Close()
	cs.CRDs.Close()
	for _, r := range cs.registry.running() {
		r.shutdown()
	}
}
