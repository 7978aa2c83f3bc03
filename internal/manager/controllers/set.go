// Package controllers runs the controllers of a process: one for each controller object, or those of a Go program. It
// compiles, starts, replaces and stops them, and reports on each in its status and events. How a controller works is in
// the packages below internal/controller; what one may not run beside is in package conflicts.
package controllers

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

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Set starts, stops and replaces controllers: one per controller object, or the controllers of a Go program. It is itself
// a controller of controller objects. The namespace of its keys is the kind's name, empty for controllers of a Go program.
type Set struct {
	shared

	// started is set when the controllers listed at the start have been reconciled once.
	started atomic.Bool
	// ready is closed when all controllers found at the start are synced.
	ready chan struct{}

	*changes
	*inspection
	*reconciler
	*reporter
}

// NewSet returns a Set that runs nothing yet.
func NewSet(d Dependencies) *Set {
	backoff := queue.Options{BaseDelay: minRetryDelay, MaxDelay: 10 * time.Second}
	all := shared{
		Dependencies: &d, declared: declared.New(d.Client),
		registry: &registry{entries: entries{}}, queue: queue.New(backoff),
	}
	changed, owned, rolled := &changes{shared: all}, &ownership{shared: all}, &rollouts{all}
	compiled := &compilation{shared: all, readers: map[queue.Key]*configmap.Reader{}, crdWatches: &crdWatches{
		// For a controller of a Go program, a changed CRD resets the backoff.
		changed: func(e cache.Event) { changed.enqueueUsers(e, queue.ParentChanged) },
		store:   d.Store, views: map[string]*cache.View{},
	}}
	if d.Inline != nil {
		compiled.inline = calls.NewCompiler(d.Inline, compiled.codeCompiled)
	}
	released := &releaser{shared: all, ownership: owned, releases: queue.New(backoff), outside: map[queue.Key]string{}}
	return &Set{
		shared: all, ready: make(chan struct{}), changes: changed, inspection: &inspection{all},
		reporter: &reporter{all, owned, rolled}, reconciler: &reconciler{all, changed, compiled, owned, released, rolled},
	}
}

// Run watches controller objects and runs their controllers until the context ends.
func (cs *Set) Run(ctx context.Context) {
	defer cs.stopAll()
	if len(cs.GoControllers) > 0 {
		cs.runGoControllers(ctx)
		return
	}
	for _, kind := range compile.Kinds() {
		view := cs.Store.Watch(cache.Selection{Resource: kind.Resource, Labels: cs.Selector,
			Managed: true, Optional: cs.Others.DevRun != ""}, cs.controllerChanged(kind))
		cs.declared.Add(kind, view)
	}
	cs.Store.Watch(cache.Selection{Resource: crds.Resource, Metadata: true}, cs.crdChanged)
	leading := func(do func(context.Context)) func(context.Context) {
		return func(ctx context.Context) { cs.Leader.WhileLeading(ctx, do) }
	}
	runAll(ctx, cs.processQueue, cs.watchMetacontrollers, cs.watchOthers, cs.watchPermissions,
		leading(cs.reportStatuses), leading(cs.CRDs.Correct), leading(cs.releaser.releaseAll))
}

// runAll calls functions at once, and returns when all have.
func runAll(ctx context.Context, all ...func(context.Context)) {
	var running sync.WaitGroup
	for _, run := range all {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
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
	for key, o := range cs.declared.All() {
		ranks[key] = conflicts.Rank(o)
	}
	return slices.SortedFunc(maps.Keys(ranks), func(a, b queue.Key) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// listedInterval is the interval of looking whether the start is complete.
const listedInterval = 20 * time.Millisecond

// awaitListed waits until all controller objects are known.
func (cs *Set) awaitListed(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, listedInterval, true, func(context.Context) (bool, error) {
		return cs.declared.Listed(), nil
	}) == nil
}

// AdmissionControllersListed reports whether all AdmissionControllers are known. They are not while the API server does not
// serve the kind or forbids the list.
func (cs *Set) AdmissionControllersListed() bool {
	return cs.declared.Synced(setpoint.AdmissionControllerKind)
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
	for _, own := range cs.GoControllers {
		if s := cs.registry.get(goControllerKey(own.Name)); s.refusal != nil && !s.refused(setpoint.ReasonResourceNotFound) {
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
	for name, health := range cs.Healths() {
		if !health.Synced && len(health.WatchErrors) == 0 {
			return fmt.Errorf("%s: caches are not synced", name)
		}
	}
	return nil
}

// RefusalOf returns why a controller of a Go program does not run; nil if it is not refused.
func (cs *Set) RefusalOf(name string) error { return cs.registry.get(goControllerKey(name)).refusal }

func (cs *Set) stopAll() {
	cs.queue.Close()
	cs.releaser.releases.Close()
	cs.CRDs.Close()
	for _, r := range cs.registry.running() {
		r.Shutdown()
	}
}

// runGoControllers runs the controllers of a Go program until the context ends.
func (cs *Set) runGoControllers(ctx context.Context) {
	for _, name := range cs.CRDs.Names() {
		cs.compilation.crdWatches.watch(name)
	}
	all := []func(context.Context){cs.processQueue, cs.logGoControllers, cs.watchPermissions}
	for _, own := range cs.GoControllers {
		all = append(all, func(ctx context.Context) { cs.compileAgain(ctx, own) })
	}
	runAll(ctx, all...)
}

// logGoControllers logs the conditions of a Go program's controllers when they change, since they have no status.
func (cs *Set) logGoControllers(ctx context.Context) {
	logged := map[queue.Key]conditionState{}
	wait.UntilWithContext(ctx, func(context.Context) {
		for key, e := range cs.registry.all() {
			health, _ := e.health()
			now := e.overallCondition(health)
			before := logged[key]
			logged[key] = now
			// Messages of running controllers may change with every object.
			if now.ok != before.ok || now.reason != before.reason || e.running == nil && now.message != before.message {
				cs.logCondition(key, now)
			}
		}
	}, reportEvery)
}

func (cs *Set) logCondition(key queue.Key, now conditionState) {
	switch {
	case now.ok:
		cs.Log.Info("controller ready", "controller", key.String())
	case now.reason == setpoint.ReasonStarting:
		cs.Log.Info("controller starting", "controller", key.String(), "message", now.message)
	default:
		cs.Log.Warn("controller not ready", "controller", key.String(), "reason", now.reason, "message", now.message)
	}
}
