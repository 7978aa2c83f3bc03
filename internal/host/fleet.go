package host

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
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// fleet is all controllers: one member per controller object, started, stopped
// and replaced as the objects change, or one for each of a Go program's own. It is
// itself a small controller, whose keys are the objects: the namespace of a key is
// the name of the kind, and empty for those that have no object.
type fleet struct {
	host  *Host
	kinds map[string]*fleetKind
	// awaited are the watches of CRDs that concern a Go program's own controllers.
	awaited map[string]*store.View
	queue   *queue.Queue
	// releases holds the objects whose finalizers are to be released.
	releases *queue.Queue
	// listening says that changes are queued, and begun that what was there
	// before has been looked at.
	listening, begun atomic.Bool

	mu      sync.Mutex
	members map[queue.Key]*member
}

type fleetKind struct {
	compile.Kind
	view *store.View
}

// member is one controller and what runs for it.
type member struct {
	kind string
	state
	reported reported
}

// state is what has become of a controller.
type state struct {
	// object declares it; nil for a Go program's own.
	object *object.Object
	// rank orders rivals: the elder one has the lesser rank.
	rank string
	// refusal is why nothing runs, unless suspended is.
	refusal   error
	suspended bool
	// kinds and children are what a controller that is suspended is about.
	kinds, children, keeps []inspect.Kind
	// leaving says what is done, or in the way, while the object is being
	// deleted and its finalizers are released; empty otherwise.
	leaving string
	// notes are what a user should know although the spec is accepted, and unstored
	// is as in compile.Compiled.
	notes    []string
	unstored string
	running  *running
}

// refused says that nothing runs for a reason.
func (s state) refused(reason string) bool {
	refusal, ok := errors.AsType[*compile.Refusal](s.refusal)
	return ok && refusal.Reason == reason
}

// String tells states apart that are worth a line in the log.
func (s state) String() string { return fmt.Sprint(s.suspended, textOf(s.refusal)) }

// firstRetry is the first delay before a controller that could not be started
// is tried again.
const firstRetry = 100 * time.Millisecond

func newFleet(h *Host) *fleet {
	backoff := queue.Options{BaseDelay: firstRetry, MaxDelay: 10 * time.Second}
	return &fleet{
		host:     h,
		kinds:    map[string]*fleetKind{},
		awaited:  map[string]*store.View{},
		queue:    queue.New(backoff),
		releases: queue.New(backoff),
		members:  map[queue.Key]*member{},
	}
}

// run watches the controller objects and runs their controllers until the
// context ends.
func (f *fleet) run(ctx context.Context) error {
	if len(f.host.options.Own) > 0 {
		return f.runOwn(ctx)
	}
	for _, kind := range compile.Kinds() {
		view := f.host.store.Watch(store.Selection{Resource: kind.Resource, Labels: f.host.options.Selector, Managed: true}, f.changed(kind))
		f.kinds[kind.Name] = &fleetKind{Kind: kind, view: view}
	}
	f.host.store.Watch(store.Selection{Resource: definitions, Metadata: true}, f.definitionChanged)
	defer f.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { f.work(ctx); return nil })
	group.Go(func() error { f.watchNeighbours(ctx); return nil })
	group.Go(func() error { f.host.office.during(ctx, f.report); return nil })
	group.Go(func() error { f.host.office.during(ctx, f.host.upkeep.work); return nil })
	group.Go(func() error { f.host.office.during(ctx, f.release); return nil })
	return group.Wait()
}

// changed queues a controller object that a user edited. What is there at the
// start is looked at in an order of its own: see begin.
func (f *fleet) changed(kind compile.Kind) func(store.Event) {
	return func(e store.Event) {
		if !f.listening.Load() {
			return
		}
		if e.New == nil {
			f.queue.Add(queue.Key{Namespace: kind.Name, Name: e.Old.Name()}, queue.Cause{Kind: queue.ParentChanged})
			return
		}
		if e.Old == nil || e.Old.UID() != e.New.UID() || e.Old.Intent() != e.New.Intent() {
			f.queue.Add(queue.Key{Namespace: kind.Name, Name: e.New.Name()}, queue.Cause{Kind: queue.ParentChanged})
		}
	}
}

// definitionChanged looks again at every controller that a CRD may concern: one
// that waits for its kind, and one whose kind is defined in another way now. A
// CRD that merely appears here was there when what runs was compiled.
func (f *fleet) definitionChanged(e store.Event) {
	name := definitionName(e)
	f.host.upkeep.changed(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, m := range f.members {
		if m.running == nil || e.Old != nil && m.running.uses(name) {
			f.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: definitions.Kind, Object: queue.Key{Name: name}})
		}
	}
}

func definitionName(e store.Event) string {
	if e.New == nil {
		return e.Old.Name()
	}
	return e.New.Name()
}

// work starts, replaces and stops controllers, one at a time.
func (f *fleet) work(ctx context.Context) {
	go f.announce(ctx)
	f.begin(ctx)
	f.queue.Work(ctx, func(ctx context.Context, item queue.Item) queue.Outcome { return f.reconcile(ctx, item.Key) })
}

// begin starts what is declared at the start, the eldest first: of two rivals
// the younger one must not run until it is found out.
func (f *fleet) begin(ctx context.Context) {
	if !f.listed(ctx) {
		return
	}
	// What changed before this moment is in the caches.
	f.listening.Store(true)
	for _, key := range f.declared() {
		if f.reconcile(ctx, key) != queue.Settled() {
			f.queue.AddAfter(key, queue.Cause{Kind: queue.Start}, firstRetry)
		}
	}
	f.begun.Store(true)
	f.host.gate.settled()
}

// declared are the keys of what is declared, the eldest first.
func (f *fleet) declared() []queue.Key {
	ranks := map[queue.Key]string{}
	for i, own := range f.host.options.Own {
		ranks[ownKey(own.Name)] = ownRank(i)
	}
	for _, kind := range f.kinds {
		for o := range kind.view.All() {
			ranks[queue.Key{Namespace: kind.Name, Name: o.Name()}] = rankOf(o)
		}
	}
	return slices.SortedFunc(maps.Keys(ranks), func(a, b queue.Key) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// listed waits until all controller objects are known. A kind that Setpoint may
// not watch, or that is not installed, is not waited for: the others go on.
func (f *fleet) listed(ctx context.Context) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, kind := range f.kinds {
		for !kind.view.Synced() && !barred(kind.view.Err()) {
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

// knowsReviews says that all controllers with reviews that are declared are known. One
// that is not listed, since the API server does not serve or allow it now, may have some.
func (f *fleet) knowsReviews() bool {
	for _, kind := range f.kinds {
		if kind.Resource.Kind == setpoint.AdmissionControllerKind && !kind.view.Synced() {
			return false
		}
	}
	return true
}

// barred says that the API server has answered, and that asking again is of no
// use before somebody grants or installs something.
func barred(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// announce closes the host's ready channel once everything that was there at
// the start is synced.
func (f *fleet) announce(ctx context.Context) {
	if !f.listed(ctx) {
		return
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for f.unsynced() != nil || f.host.gate.opening() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	f.host.once.Do(func() { close(f.host.ready) })
}

// unsynced says which accepted controller is not synced, if any.
func (f *fleet) unsynced() error {
	if stats := f.queue.Stats(); !f.begun.Load() || stats.Queued()+stats.Held > 0 {
		return errors.New("controllers are being started")
	}
	for name, health := range f.health() {
		if !health.Synced && len(health.WatchErrors) == 0 {
			return fmt.Errorf("%s: caches are not synced", name)
		}
	}
	return nil
}

// health is the health of all that runs, by name.
func (f *fleet) health() map[string]engine.Health {
	all := map[string]engine.Health{}
	for _, r := range f.atWork() {
		all[r.Name()] = r.health()
	}
	return all
}

// refusalOf is why a controller does not run; nil if it is not refused.
func (f *fleet) refusalOf(key queue.Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[key]; m != nil {
		return m.refusal
	}
	return nil
}

// atWork are the controllers that run.
func (f *fleet) atWork() []*running {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*running
	for _, m := range f.members {
		if m.running != nil {
			all = append(all, m.running)
		}
	}
	return all
}

// hookRestarted syncs the parents of the controllers behind an address.
func (f *fleet) hookRestarted(address string) {
	behind := func(full string) bool { return sameHost(full, address) }
	for _, r := range f.atWork() {
		if slices.ContainsFunc(r.HookAddresses, behind) {
			r.syncAll(queue.HookChanged)
		}
	}
}

// credentialsRenewed has a controller try again what has failed.
func (f *fleet) credentialsRenewed(name string) {
	for _, r := range f.atWork() {
		if r.Name() == name {
			r.retryNow()
		}
	}
}

// tellController records an event at a controller, if an object declares it.
func (f *fleet) tellController(key queue.Key, event hook.Event) {
	f.mu.Lock()
	m := f.members[key]
	f.mu.Unlock()
	if m != nil && m.object != nil {
		f.host.events.Tell(m.object, event)
	}
}

func (f *fleet) stopAll() {
	f.queue.Close()
	f.releases.Close()
	f.host.upkeep.queue.Close()
	for _, r := range f.atWork() {
		r.end()
	}
}
