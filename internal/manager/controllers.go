package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// controllerSet starts, stops and replaces controllers: one per controller object, or the
// controllers of a Go program. It is itself a controller of controller objects. The
// namespace of its keys is the kind's name, empty for controllers of a Go program.
type controllerSet struct {
	manager *Manager
	kinds   map[string]*controllerKind
	// crdWatches are the watches of the CRDs that controllers of a Go program need.
	crdWatches map[string]*cache.View
	// readers read the code of inline hooks, by controller. Only the worker of the queue uses them.
	readers map[queue.Key]*configmap.Reader
	// compiler compiles that code; nil if this process does not run inline hooks.
	compiler *calls.Compiler
	queue    *queue.Queue
	// releaseQueue holds the controller objects whose finalizers are to be removed.
	releaseQueue *queue.Queue
	// releasedOutside are the generations of controllers whose parents outside of their namespaces are released. Only
	// the worker of releaseQueue uses it.
	releasedOutside map[queue.Key]string
	// enqueueing is set when changes are enqueued; started, when the controllers listed
	// at the start have been reconciled once.
	enqueueing, started atomic.Bool
	// unselected is set when controller objects may have left the selection.
	unselected atomic.Bool

	mu      sync.Mutex
	entries map[queue.Key]*controllerEntry
}

type controllerKind struct {
	compile.Kind
	view *cache.View
}

// controllerEntry is one controller and what was reported of it.
type controllerEntry struct {
	kind string
	controllerState
	lastReported reportedStatus
	// taken is the UID of the object of which this process has stored itself as the owner.
	taken string
}

// controllerState is the observed state of a controller.
type controllerState struct {
	// object declares the controller; nil for one of a Go program.
	object *object.Object
	// rank orders conflicting controllers: the older one has the lesser rank.
	rank string
	// refusal is why the controller does not run, unless it is suspended.
	refusal   error
	suspended bool
	// incomplete is why a running controller does not run in some namespaces; nil if it does.
	incomplete *compile.Refusal
	// outdated is why a running controller uses older code of a ConfigMap; nil if it does not.
	outdated *compile.Refusal
	// absent are those of its namespaces that do not exist.
	absent []string
	// kinds are those of a suspended controller.
	kinds controllerKinds
	// releasing is the progress, or the error, of removing finalizers while the object
	// is being deleted; "" otherwise.
	releasing string
	// notes are warnings about an accepted spec; unstored is that of compile.Compiled.
	notes    []string
	unstored string
	running  *runningController
}

// health returns the health of a controller, if it runs.
func (s *controllerState) health() (health controller.Health, runs bool) {
	if s.running == nil {
		return controller.Health{}, false
	}
	return s.running.health(), true
}

// refused reports whether the controller is refused for a reason.
func (s controllerState) refused(reason string) bool {
	refusal, ok := errors.AsType[*compile.Refusal](s.refusal)
	return ok && refusal.Reason == reason
}

// String identifies states that are logged once each.
func (s controllerState) String() string {
	return fmt.Sprint(s.suspended, failure.Text(s.problem()), failure.Text(s.outdatedError()))
}

// outdatedError returns outdated as an error, nil if it is nil.
func (s controllerState) outdatedError() error {
	if s.outdated == nil {
		return nil
	}
	return s.outdated
}

// problem returns why the controller does not run, or not in all namespaces.
func (s *controllerState) problem() error {
	if s.refusal == nil && s.incomplete != nil {
		return s.incomplete
	}
	return s.refusal
}

// minRetryDelay is the first delay before a controller is started again.
const minRetryDelay = 100 * time.Millisecond

func newControllerSet(m *Manager) *controllerSet {
	backoff := queue.Options{BaseDelay: minRetryDelay, MaxDelay: 10 * time.Second}
	cs := &controllerSet{
		manager:    m,
		kinds:      map[string]*controllerKind{},
		crdWatches: map[string]*cache.View{},
		readers:    map[queue.Key]*configmap.Reader{},

		releasedOutside: map[queue.Key]string{},

		queue:        queue.New(backoff),
		releaseQueue: queue.New(backoff),
		entries:      map[queue.Key]*controllerEntry{},
	}
	if m.options.Inline != nil {
		cs.compiler = calls.NewCompiler(m.options.Inline, cs.codeCompiled)
	}
	return cs
}

// run watches controller objects and runs their controllers until the context ends.
func (cs *controllerSet) run(ctx context.Context) error {
	if len(cs.manager.options.GoControllers) > 0 {
		return cs.runGoControllers(ctx)
	}
	for _, kind := range compile.Kinds() {
		view := cs.manager.store.Watch(cache.Selection{Resource: kind.Resource, Labels: cs.manager.options.controllerSelector(),
			Managed: true, Optional: cs.manager.options.DevRun != ""}, cs.controllerChanged(kind))
		cs.kinds[kind.Name] = &controllerKind{Kind: kind, view: view}
	}
	cs.manager.store.Watch(cache.Selection{Resource: crds.Resource, Metadata: true}, cs.crdChanged)
	defer cs.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { cs.processQueue(ctx); return nil })
	group.Go(func() error { cs.watchMetacontrollers(ctx); return nil })
	group.Go(func() error { cs.watchOthers(ctx); return nil })
	group.Go(func() error { cs.watchPermissions(ctx); return nil })
	group.Go(func() error { cs.manager.leader.WhileLeading(ctx, cs.reportStatuses); return nil })
	group.Go(func() error { cs.manager.leader.WhileLeading(ctx, cs.manager.crds.Correct); return nil })
	group.Go(func() error { cs.manager.leader.WhileLeading(ctx, cs.releaseFinalizers); return nil })
	return group.Wait()
}

// controllerChanged returns a handler that enqueues controller objects with user edits.
// What is listed at the start is reconciled by startAll, in the order of age.
func (cs *controllerSet) controllerChanged(kind compile.Kind) func(cache.Event) {
	return func(e cache.Event) {
		if !cs.enqueueing.Load() {
			return
		}
		if e.Old == nil || e.New == nil || !unchanged(e.New, e.Old) {
			cs.queue.Add(queue.Key{Namespace: kind.Name, Name: e.Object().Name()}, queue.Cause{Kind: queue.ParentChanged})
		}
	}
}

// crdChanged enqueues the controllers that use a changed CRD, and all that do not run. The
// running ones were compiled with the CRDs that appear in the first list.
func (cs *controllerSet) crdChanged(e cache.Event) {
	cs.manager.crds.Changed(e)
	cs.enqueueUsers(e, queue.RelatedChanged)
}

func (cs *controllerSet) enqueueUsers(e cache.Event, cause queue.CauseKind) {
	name := e.Object().Name()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, entry := range cs.entries {
		if entry.running == nil || (e.Old != nil || len(entry.running.Unserved) > 0) && entry.running.usesCRD(name) {
			cs.queue.Add(key, queue.Cause{Kind: cause, Detail: crds.Resource.Kind, Object: queue.Key{Name: name}})
		}
	}
}

// enqueueUsersOf enqueues the running controllers of objects that use a resource.
func (cs *controllerSet) enqueueUsersOf(resource object.Resource) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, entry := range cs.entries {
		if entry.object != nil && entry.running != nil && slices.Contains(allKinds(entry.running.Compiled), resource) {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: resource.Kind})
		}
	}
}

// enqueueReadersOf enqueues the running controllers whose code a watch reads; with recovered, those that use
// older code.
func (cs *controllerSet) enqueueReadersOf(selection cache.Selection, recovered bool) {
	read := selection.Resource.Ref(selection.Namespace, selection.Name)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, entry := range cs.entries {
		r := entry.running
		if r == nil || recovered && entry.outdated == nil || r.Account.UserFor("") != selection.User {
			continue
		}
		if slices.ContainsFunc(r.Code.ConfigMaps, func(ref object.Ref) bool { return ref.Identity() == read.Identity() }) {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: object.ConfigMaps.Kind})
		}
	}
}

// processQueue starts, replaces and stops controllers, one at a time.
func (cs *controllerSet) processQueue(ctx context.Context) {
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
func (cs *controllerSet) startAll(ctx context.Context) {
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
	cs.manager.backends.SetKnown()
	cs.manager.webhooks.Publish()
}

// declaredKeys returns the keys of all controllers, oldest first.
func (cs *controllerSet) declaredKeys() []queue.Key {
	ranks := map[queue.Key]string{}
	for i, own := range cs.manager.options.GoControllers {
		ranks[goControllerKey(own.Name)] = goControllerRank(i)
	}
	for _, kind := range cs.kinds {
		for o := range kind.view.All() {
			ranks[queue.Key{Namespace: kind.Name, Name: o.Name()}] = conflicts.Rank(o)
		}
	}
	return slices.SortedFunc(maps.Keys(ranks), func(a, b queue.Key) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// listedInterval is the interval of looking whether the start is complete.
const listedInterval = 20 * time.Millisecond

// awaitListed waits until all controller objects are listed. It skips kinds that are not
// installed or that Setpoint may not watch.
func (cs *controllerSet) awaitListed(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, listedInterval, true, func(context.Context) (bool, error) {
		for _, kind := range cs.kinds {
			if !kind.view.Synced() && !request.IsForbiddenOrNotFound(kind.view.Err()) {
				return false, nil
			}
		}
		return true, nil
	}) == nil
}

// admissionControllersListed reports whether all AdmissionControllers are known. They are
// not while the API server does not serve the kind or forbids the list.
func (cs *controllerSet) admissionControllersListed() bool {
	for _, kind := range cs.kinds {
		if kind.Resource.Kind == setpoint.AdmissionControllerKind && !kind.view.Synced() {
			return false
		}
	}
	return true
}

// signalReady closes the ready channel when all controllers listed at the start are synced.
func (cs *controllerSet) signalReady(ctx context.Context) {
	if !cs.awaitListed(ctx) {
		return
	}
	err := wait.PollUntilContextCancel(ctx, listedInterval, true, func(context.Context) (bool, error) {
		return cs.checkSynced() == nil && !cs.manager.webhooks.Registering(), nil
	})
	if err == nil {
		close(cs.manager.ready)
	}
}

// checkSynced returns an error while a controller starts or its caches are not synced.
func (cs *controllerSet) checkSynced() error {
	if stats := cs.queue.Stats(); !cs.started.Load() || stats.Queued()+stats.Active > 0 {
		return errors.New("controllers are starting")
	}
	for name, health := range cs.health() {
		if !health.Synced && len(health.WatchErrors) == 0 {
			return fmt.Errorf("%s: caches are not synced", name)
		}
	}
	return nil
}

// health returns the health of the running controllers by name.
func (cs *controllerSet) health() map[string]controller.Health {
	all := map[string]controller.Health{}
	for _, r := range cs.runningControllers() {
		all[r.Name()] = r.health()
	}
	return all
}

// refusalOf returns why a controller does not run; nil if it is not refused.
func (cs *controllerSet) refusalOf(key queue.Key) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if e := cs.entries[key]; e != nil {
		return e.refusal
	}
	return nil
}

// runningControllers returns the controllers that run.
func (cs *controllerSet) runningControllers() []*runningController {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var all []*runningController
	for _, e := range cs.entries {
		if e.running != nil {
			all = append(all, e.running)
		}
	}
	return all
}

// hookRestarted syncs all parents of the controllers with a hook at an address.
func (cs *controllerSet) hookRestarted(address string) {
	behind := func(full string) bool { return calls.SameHost(full, address) }
	for _, r := range cs.runningControllers() {
		if slices.ContainsFunc(r.HookAddresses, behind) {
			r.syncAll(queue.Cause{Kind: queue.HookChanged})
		}
	}
}

// credentialsRenewed retries the failed objects of a controller.
func (cs *controllerSet) credentialsRenewed(name string) {
	for _, r := range cs.runningControllers() {
		if r.Name() == name {
			r.retryNow()
		}
	}
}

// recordEvent records an event on a controller object, if there is one.
func (cs *controllerSet) recordEvent(key queue.Key, event hook.Event) {
	cs.mu.Lock()
	e := cs.entries[key]
	cs.mu.Unlock()
	if e != nil && e.object != nil {
		cs.manager.events.Event(e.object, event)
	}
}

func (cs *controllerSet) stopAll() {
	cs.queue.Close()
	cs.releaseQueue.Close()
	cs.manager.crds.Close()
	for _, r := range cs.runningControllers() {
		r.shutdown()
	}
}
