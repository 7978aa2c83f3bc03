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
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// controllerSet is all controllers: one member per controller object, started, stopped
// and replaced as the objects change, or one for each of a Go program's own. It is
// itself a small controller, whose keys are the objects: the namespace of a key is
// the name of the kind, and empty for those that have no object.
type controllerSet struct {
	manager *Manager
	kinds   map[string]*controllerKind
	// crdWatches are the watches of CRDs that concern a Go program's own controllers.
	crdWatches map[string]*cache.View
	queue      *queue.Queue
	// releaseQueue holds the objects whose finalizers are to be released.
	releaseQueue *queue.Queue
	// enqueueing says that changes are queued, and begun that what was there
	// before has been looked at.
	enqueueing, started atomic.Bool

	mu      sync.Mutex
	entries map[queue.Key]*controllerEntry
}

type controllerKind struct {
	compile.Kind
	view *cache.View
}

// controllerEntry is one controller and what runs for it.
type controllerEntry struct {
	kind string
	controllerState
	lastReported reportedStatus
}

// controllerState is what has become of a controller.
type controllerState struct {
	// object declares it; nil for a Go program's own.
	object *object.Object
	// rank orders rivals: the elder one has the lesser rank.
	rank string
	// refusal is why nothing runs, unless suspended is.
	refusal   error
	suspended bool
	// kinds and children are what a controller that is suspended is about.
	kinds, children, historyKinds []model.Kind
	// releasing says what is done, or in the way, while the object is being
	// deleted and its finalizers are released; empty otherwise.
	releasing string
	// notes are what a user should know although the spec is accepted, and unstored
	// is as in compile.Compiled.
	notes    []string
	unstored string
	running  *runningController
}

// refused says that nothing runs for a reason.
func (s controllerState) refused(reason string) bool {
	refusal, ok := errors.AsType[*compile.Refusal](s.refusal)
	return ok && refusal.Reason == reason
}

// String tells states apart that are worth a line in the log.
func (s controllerState) String() string { return fmt.Sprint(s.suspended, errorText(s.refusal)) }

// minRetryDelay is the first delay before a controller that could not be started
// is tried again.
const minRetryDelay = 100 * time.Millisecond

func newControllerSet(m *Manager) *controllerSet {
	backoff := queue.Options{BaseDelay: minRetryDelay, MaxDelay: 10 * time.Second}
	return &controllerSet{
		manager:      m,
		kinds:        map[string]*controllerKind{},
		crdWatches:   map[string]*cache.View{},
		queue:        queue.New(backoff),
		releaseQueue: queue.New(backoff),
		entries:      map[queue.Key]*controllerEntry{},
	}
}

// run watches the controller objects and runs their controllers until the
// context ends.
func (cs *controllerSet) run(ctx context.Context) error {
	if len(cs.manager.options.GoControllers) > 0 {
		return cs.runGoControllers(ctx)
	}
	for _, kind := range compile.Kinds() {
		view := cs.manager.store.Watch(cache.Selection{Resource: kind.Resource, Labels: cs.manager.options.Selector, Managed: true}, cs.controllerChanged(kind))
		cs.kinds[kind.Name] = &controllerKind{Kind: kind, view: view}
	}
	cs.manager.store.Watch(cache.Selection{Resource: crdResource, Metadata: true}, cs.crdChanged)
	defer cs.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { cs.processQueue(ctx); return nil })
	group.Go(func() error { cs.watchMetacontrollers(ctx); return nil })
	group.Go(func() error { cs.manager.leadership.whileLeading(ctx, cs.reportStatuses); return nil })
	group.Go(func() error { cs.manager.leadership.whileLeading(ctx, cs.manager.crdDrift.work); return nil })
	group.Go(func() error { cs.manager.leadership.whileLeading(ctx, cs.releaseFinalizers); return nil })
	return group.Wait()
}

// controllerChanged queues a controller object that a user edited. What is there at the
// start is looked at in an order of its own: see begin.
func (cs *controllerSet) controllerChanged(kind compile.Kind) func(cache.Event) {
	return func(e cache.Event) {
		if !cs.enqueueing.Load() {
			return
		}
		if e.New == nil {
			cs.queue.Add(queue.Key{Namespace: kind.Name, Name: e.Old.Name()}, queue.Cause{Kind: queue.ParentChanged})
			return
		}
		if e.Old == nil || e.Old.UID() != e.New.UID() || e.Old.IntentDigest() != e.New.IntentDigest() {
			cs.queue.Add(queue.Key{Namespace: kind.Name, Name: e.New.Name()}, queue.Cause{Kind: queue.ParentChanged})
		}
	}
}

// crdChanged looks again at every controller that a CRD may concern: one
// that waits for its kind, and one whose kind is defined in another way now. A
// CRD that merely appears here was there when what runs was compiled.
func (cs *controllerSet) crdChanged(e cache.Event) {
	name := changedName(e)
	cs.manager.crdDrift.changed(e)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, entry := range cs.entries {
		if entry.running == nil || e.Old != nil && entry.running.usesCRD(name) {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: crdResource.Kind, Object: queue.Key{Name: name}})
		}
	}
}

func changedName(e cache.Event) string {
	if e.New == nil {
		return e.Old.Name()
	}
	return e.New.Name()
}

// processQueue starts, replaces and stops controllers, one at a time.
func (cs *controllerSet) processQueue(ctx context.Context) {
	go cs.signalReady(ctx)
	cs.startAll(ctx)
	cs.queue.Work(ctx, func(ctx context.Context, item queue.Item) queue.Outcome { return cs.reconcile(ctx, item.Key) })
}

// startAll starts what is declared at the start, the eldest first: of two rivals
// the younger one must not run until it is found out.
func (cs *controllerSet) startAll(ctx context.Context) {
	if !cs.awaitListed(ctx) {
		return
	}
	// What changed before this moment is in the caches.
	cs.enqueueing.Store(true)
	for _, key := range cs.declaredKeys() {
		if cs.reconcile(ctx, key) != queue.NoRequeue() {
			cs.queue.AddAfter(key, queue.Cause{Kind: queue.Start}, minRetryDelay)
		}
	}
	cs.started.Store(true)
	cs.manager.webhooks.initialSyncDone()
}

// declaredKeys are the keys of what is declared, the eldest first.
func (cs *controllerSet) declaredKeys() []queue.Key {
	ranks := map[queue.Key]string{}
	for i, own := range cs.manager.options.GoControllers {
		ranks[goControllerKey(own.Name)] = goControllerRank(i)
	}
	for _, kind := range cs.kinds {
		for o := range kind.view.All() {
			ranks[queue.Key{Namespace: kind.Name, Name: o.Name()}] = rankOf(o)
		}
	}
	return slices.SortedFunc(maps.Keys(ranks), func(a, b queue.Key) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// awaitListed waits until all controller objects are known. A kind that Setpoint may
// not watch, or that is not installed, is not waited for: the others go on.
func (cs *controllerSet) awaitListed(ctx context.Context) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, kind := range cs.kinds {
		for !kind.view.Synced() && !isForbiddenOrNotFound(kind.view.Err()) {
			select {
			case <-kind.view.Ready():
			case <-ticker.C:
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// admissionControllersListed says that all controllers with reviews that are declared are known. One
// that is not listed, since the API server does not serve or allow it now, may have some.
func (cs *controllerSet) admissionControllersListed() bool {
	for _, kind := range cs.kinds {
		if kind.Resource.Kind == setpoint.AdmissionControllerKind && !kind.view.Synced() {
			return false
		}
	}
	return true
}

// isForbiddenOrNotFound says that the API server has answered, and that asking again is of no
// use before somebody grants or installs something.
func isForbiddenOrNotFound(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// signalReady closes the host's ready channel once everything that was there at
// the start is synced.
func (cs *controllerSet) signalReady(ctx context.Context) {
	if !cs.awaitListed(ctx) {
		return
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for cs.checkSynced() != nil || cs.manager.webhooks.registering() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	cs.manager.readyOnce.Do(func() { close(cs.manager.ready) })
}

// checkSynced says which accepted controller is not synced, if any.
func (cs *controllerSet) checkSynced() error {
	if stats := cs.queue.Stats(); !cs.started.Load() || stats.Queued()+stats.Active > 0 {
		return errors.New("controllers are being started")
	}
	for name, health := range cs.health() {
		if !health.Synced && len(health.WatchErrors) == 0 {
			return fmt.Errorf("%s: caches are not synced", name)
		}
	}
	return nil
}

// health is the health of all that runs, by name.
func (cs *controllerSet) health() map[string]compose.Health {
	all := map[string]compose.Health{}
	for _, r := range cs.runningControllers() {
		all[r.Name()] = r.health()
	}
	return all
}

// redactedError is why a controller does not run; nil if it is not refused.
func (cs *controllerSet) refusalOf(key queue.Key) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if e := cs.entries[key]; e != nil {
		return e.refusal
	}
	return nil
}

// runningControllers are the controllers that run.
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

// hookRestarted syncs the parents of the controllers behind an address.
func (cs *controllerSet) hookRestarted(address string) {
	behind := func(full string) bool { return sameHost(full, address) }
	for _, r := range cs.runningControllers() {
		if slices.ContainsFunc(r.HookAddresses, behind) {
			r.syncAll(queue.HookChanged)
		}
	}
}

// credentialsRenewed has a controller try again what has failed.
func (cs *controllerSet) credentialsRenewed(name string) {
	for _, r := range cs.runningControllers() {
		if r.Name() == name {
			r.retryNow()
		}
	}
}

// recordEvent records an event at a controller, if an object declares it.
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
	cs.manager.crdDrift.queue.Close()
	for _, r := range cs.runningControllers() {
		r.shutdown()
	}
}
