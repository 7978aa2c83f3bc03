package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// checkConflict refuses a controller that conflicts with an older one. If both only share
// parents, it yields their status to the older one. Here and below the rank decides which one is
// older: see rankOf.
func (cs *controllerSet) checkConflict(key queue.Key, rank string, compiled *compile.Compiled) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, older := range cs.olderControllers(key, rank, compiled) {
		if found, conflicting := conflicts.Find(cs.entries[older].running.Compiled, compiled); conflicting {
			return found.Refusal(older)
		}
	}
	cs.yieldStatus(key, rank, compiled)
	return nil
}

// olderControllers returns the running controllers that are older and share parents,
// oldest first. The caller holds the lock.
func (cs *controllerSet) olderControllers(key queue.Key, rank string, compiled *compile.Compiled) []queue.Key {
	var olderKeys []queue.Key
	for other, e := range cs.entries {
		if other != key && e.running != nil && e.rank < rank && conflicts.Overlap(e.running.Compiled, compiled) {
			olderKeys = append(olderKeys, other)
		}
	}
	slices.SortFunc(olderKeys, func(a, b queue.Key) int { return cmp.Compare(cs.entries[a].rank, cs.entries[b].rank) })
	return olderKeys
}

// yieldStatus makes older controllers the owners of the parents' status, with a note for
// the user. The caller holds the lock.
func (cs *controllerSet) yieldStatus(key queue.Key, rank string, compiled *compile.Compiled) {
	for i := range compiled.Programs {
		p := &compiled.Programs[i]
		if p.StatusOwners = cs.statusOwners(key, rank, p); len(p.StatusOwners) > 0 {
			compiled.Notes = append(slices.Clone(compiled.Notes), fmt.Sprintf(
				"%s takes precedence for %s and stores their status; the status in responses of this one is ignored",
				p.StatusOwners[0].Name, p.Parent))
		}
	}
	compiled.Notes = slices.Compact(compiled.Notes) // One for each kind, not for each namespace.
}

// statusOwners returns the older controllers that store the status of a program's parents.
func (cs *controllerSet) statusOwners(key queue.Key, rank string, p *composite.Program) []composite.StatusOwner {
	var owners []composite.StatusOwner
	for _, older := range cs.olderControllers(key, rank, &compile.Compiled{Programs: []composite.Program{*p}}) {
		for _, theirs := range cs.entries[older].running.Programs {
			if conflicts.SameParents(&theirs, p) {
				owners = append(owners, composite.StatusOwner{Name: older.String(), Selections: theirs.Selections,
					Namespace: theirs.Namespace})
			}
		}
	}
	return owners
}

// activeStatusOwners returns the status owners of the running program that p is a copy of.
func (cs *controllerSet) activeStatusOwners(p *composite.Program) []composite.StatusOwner {
	for _, r := range cs.runningControllers() {
		for _, working := range r.Programs {
			if working.Name == p.Name && working.Parent == p.Parent && working.Namespace == p.Namespace {
				return working.StatusOwners
			}
		}
	}
	return nil
}

// stopYounger stops the younger controllers that conflict with a starting one, before it
// writes anything. Those that only have to yield the status restart.
func (cs *controllerSet) stopYounger(key queue.Key, rank string, next *runningController) {
	for other, e := range cs.youngerConflicting(key, rank, next) {
		found, conflicting := conflicts.Find(e.running.Compiled, next.Compiled)
		e.running.shutdown()
		cs.recordStopped(other, e.object)
		cs.mu.Lock()
		e.running = nil
		if conflicting {
			e.refusal = found.Refusal(key)
		}
		cs.mu.Unlock()
		if !conflicting {
			cs.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
			continue
		}
		cs.logAcceptance(other, e.controllerState)
	}
}

// youngerConflicting returns the younger running controllers that must stop or restart
// because of a starting one.
func (cs *controllerSet) youngerConflicting(key queue.Key, rank string, next *runningController) map[queue.Key]*controllerEntry {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	younger := map[queue.Key]*controllerEntry{}
	for other, e := range cs.entries {
		if other == key || e.running == nil || e.rank <= rank || !conflicts.Overlap(e.running.Compiled, next.Compiled) {
			continue
		}
		if _, conflicting := conflicts.Find(e.running.Compiled, next.Compiled); conflicting || cs.statusOwnersChanged(other, e) {
			younger[other] = e
		}
	}
	return younger
}

// statusOwnersChanged reports whether a running controller has other status owners now.
// The caller holds the lock.
func (cs *controllerSet) statusOwnersChanged(key queue.Key, e *controllerEntry) bool {
	return slices.ContainsFunc(e.running.Programs, func(p composite.Program) bool {
		return !reflect.DeepEqual(p.StatusOwners, cs.statusOwners(key, e.rank, &p))
	})
}

// rankOf orders conflicting controller objects: those of all namespaces come before those limited to some,
// then the older ones, then by name. A tenant who may run a controller in one namespace thus neither blocks a
// cluster-wide controller nor takes a namespace out of it.
func rankOf(o *object.Object) string {
	return scopeRank(o) + string(o.Field("metadata", "creationTimestamp")) + " " + o.APIVersion() + o.Name()
}

// youngestRank is the rank of a controller object that is not stored yet.
func youngestRank(o *object.Object) string { return scopeRank(o) + "~" }

// scopeRank orders controller objects by whether they are limited to namespaces.
func scopeRank(o *object.Object) string {
	var namespaces []string
	if field := o.Field("spec", "parentResource", "namespaces"); field != nil && json.Unmarshal(field, &namespaces) == nil &&
		len(namespaces) > 0 {
		return "limited "
	}
	return "all "
}

// requeueConflicting enqueues controllers that conflict with this one, or did before it
// changed.
func (cs *controllerSet) requeueConflicting(key queue.Key) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	changed := cs.entries[key]
	for other, e := range cs.entries {
		if other != key && affects(key, changed, e) {
			cs.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
		}
	}
}

// affects reports whether a change of one controller concerns another: a refused one may
// now run, one that yields its status may have to store it, a running one may conflict.
func affects(key queue.Key, changed, other *controllerEntry) bool {
	switch {
	case other.refusal != nil:
		return other.refused(setpoint.ReasonConflictingController)
	case other.running == nil:
		return false
	case other.running.yieldsStatusTo(key.String()):
		return true
	}
	return changed != nil && changed.running != nil && conflicts.Overlap(changed.running.Compiled, other.running.Compiled)
}

// yieldsStatusTo reports whether another controller stores the status of this one's parents.
func (r *runningController) yieldsStatusTo(name string) bool {
	return slices.ContainsFunc(r.Programs, func(p composite.Program) bool {
		return slices.ContainsFunc(p.StatusOwners, func(o composite.StatusOwner) bool { return o.Name == name })
	})
}

// A run of `setpoint dev --context` has controllers of its own, which every other Setpoint ignores. So it is the
// run that must see controllers of others with the same objects, and yield to them.

const (
	// otherInterval is how often a dev run looks for controllers of others.
	otherInterval = 5 * time.Second
	// notRunningInterval is how often one that does not run is compiled again.
	notRunningInterval = time.Minute
)

// otherController is a controller object that is not of this dev run.
type otherController struct {
	*compile.Compiled
	managedBy string
	// run is that of another `setpoint dev --context`; "" for the controllers of the cluster.
	run, rank string
}

// refusal says what to do about a controller of the same objects.
func (c otherController) refusal() *compile.Refusal {
	by, remedy := "the cluster has", "suspend that one (spec.suspend: true) or delete it"
	if c.managedBy != "" {
		by = "the Setpoint with the Lease " + c.managedBy + " manages"
	}
	if c.run != "" {
		by = "another run of setpoint dev, with the ConfigMap and the Lease " + c.managedBy + ", has created"
		remedy = "stop that run and remove what it created (setpoint dev --context NAME --cleanup), also if it was killed"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController,
		Err: fmt.Errorf("%s the controller %s of the same objects, and both would reconcile them: %s, "+
			"give each a labelSelector that excludes the other's objects, or use another cluster or namespace", by, c.Name(), remedy)}
}

// otherControllers returns the compiled controllers of the cluster, those that are suspended aside. Kinds
// that are not installed, or that the user may not list, have none.
func (m *Manager) otherControllers(ctx context.Context) ([]otherController, error) {
	var all []otherController
	seen := map[string]*compiledOther{}
	for _, kind := range compile.Kinds() {
		stored, err := apply.New(m.client, apply.Options{DryRun: true}).List(ctx, kind.Resource, "", "")
		if request.IsForbiddenOrNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range stored {
			id := fmt.Sprint(o.UID(), o.Generation(), o.Labels().Get(setpoint.LabelDevRun), storedStatus(o).ManagedBy)
			if seen[id] = m.others.known[id]; seen[id] == nil || seen[id].isDue() {
				seen[id] = &compiledOther{at: time.Now()}
				seen[id].controller, seen[id].runs = m.otherController(ctx, kind, o)
			}
			if seen[id].runs && !m.ignores(o) {
				all = append(all, seen[id].controller)
			}
		}
	}
	m.others.known = seen
	return all, nil
}

// compiledOther is the result of compiling a controller of others, which takes requests to the API server.
type compiledOther struct {
	controller otherController
	runs       bool
	at         time.Time
}

// isDue reports whether to compile it again. One that does not run may do so once its kinds are served.
func (c *compiledOther) isDue() bool { return !c.runs && time.Since(c.at) > notRunningInterval }

// ignores reports whether a controller object is of this run, or goes.
func (m *Manager) ignores(o *object.Object) bool {
	run := o.Labels().Get(setpoint.LabelDevRun)
	return run != "" && run == m.options.DevRun || o.Deleting()
}

func (m *Manager) otherController(ctx context.Context, kind compile.Kind, o *object.Object) (otherController, bool) {
	other := otherController{run: o.Labels().Get(setpoint.LabelDevRun), rank: rankOf(o)}
	if m.ignores(o) {
		return other, false
	}
	env, managedBy := m.compileEnvironment(), storedStatus(o).ManagedBy
	env.Namespaces, env.Store = nil, nil // It is only compared: its code may be what another Setpoint cannot read now.
	if managedBy != nil {
		other.managedBy, env.Namespaces = managedBy.Lease, managedBy.Namespaces
	}
	compiled, err := kind.Compile(ctx, o, env)
	if err != nil {
		return other, false // It does not run either.
	}
	compiled.Release()
	other.Compiled = compiled
	return other, !compiled.Suspended
}

// otherControllers are those that a dev run has seen last.
type otherControllers struct {
	// known are compiled controllers by what they were compiled from. One goroutine uses them.
	known map[string]*compiledOther

	mu  sync.Mutex
	all []otherController
}

func (o *otherControllers) set(all []otherController) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = all
}

// check refuses a controller of a dev run if others have the same objects. Of two runs, the older controller goes
// on; all others do not know of those of runs.
func (o *otherControllers) check(rank string, compiled *compile.Compiled) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.all, func(other otherController) bool {
		return (other.run == "" || other.rank < rank) && conflicts.Overlap(other.Compiled, compiled)
	})
	if i < 0 {
		return nil
	}
	return o.all[i].refusal()
}

// watchOthers looks for the controllers of others in a dev run, and enqueues its own that have to yield, or need
// not any more.
func (cs *controllerSet) watchOthers(ctx context.Context) {
	if cs.manager.options.DevRun == "" {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		all, err := cs.manager.otherControllers(ctx)
		if err != nil {
			cs.manager.log.Debug("controllers of others not listed", "error", failure.Text(err))
			return
		}
		cs.manager.others.set(all)
		for _, key := range cs.affectedByOthers() {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController"})
		}
	}, otherInterval)
}

// affectedByOthers returns the running controllers that must yield, and those that yield now.
func (cs *controllerSet) affectedByOthers() []queue.Key {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var keys []queue.Key
	for key, e := range cs.entries {
		if e.refused(setpoint.ReasonConflictingController) || e.running != nil &&
			cs.manager.others.check(e.rank, e.running.Compiled) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// metacontrollerInterval is the interval of detection while a controller is refused because
// of a Metacontroller.
const metacontrollerInterval = 5 * time.Second

// watchMetacontrollers detects Metacontrollers periodically while there are controllers that
// they could run, and enqueues these when the result changes.
func (cs *controllerSet) watchMetacontrollers(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		concerned, waiting := cs.metacontrollerKeys()
		if len(concerned) == 0 || !waiting && !cs.manager.metacontrollers.IsDue() {
			return
		}
		if !cs.manager.metacontrollers.RefreshChanged(ctx) {
			return
		}
		for _, key := range concerned {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: conflicts.MetacontrollerName})
		}
	}, metacontrollerInterval)
}

// metacontrollerKeys returns the controllers that Metacontroller could run too, and whether
// one of them is refused because of it.
func (cs *controllerSet) metacontrollerKeys() (keys []queue.Key, waiting bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, e := range cs.entries {
		if !cs.kinds[key.Namespace].Metacontroller() {
			continue
		}
		keys = append(keys, key)
		waiting = waiting || e.refused(setpoint.ReasonConflictingMetacontroller)
	}
	return keys, waiting
}
