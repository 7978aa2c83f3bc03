package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// registry has what is known of each controller. One goroutine, the worker of the queue, starts and stops controllers;
// the lock is for those that read meanwhile.
type registry struct {
	mu      sync.Mutex
	entries map[queue.Key]*controllerEntry
}

// entry returns the entry of a key, and creates it if needed.
func (g *registry) entry(key queue.Key) *controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[key]
	if e == nil {
		e = &controllerEntry{kind: key.Namespace}
		g.entries[key] = e
	}
	return e
}

// find returns the entry of a key; nil if there is none.
func (g *registry) find(key queue.Key) *controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entries[key]
}

// remove removes a controller and returns its entry; nil if there is none.
func (g *registry) remove(key queue.Key) *controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[key]
	delete(g.entries, key)
	return e
}

// change changes an entry.
func (g *registry) change(e *controllerEntry, change func(*controllerEntry)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(e)
}

// state returns the state of a controller; the zero value if there is none.
func (g *registry) state(key queue.Key) controllerState {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[key]; e != nil {
		return e.controllerState
	}
	return controllerState{}
}

// states returns the states of all controllers.
func (g *registry) states() map[queue.Key]controllerState {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[queue.Key]controllerState, len(g.entries))
	for key, e := range g.entries {
		all[key] = e.controllerState
	}
	return all
}

// all returns all entries. They may change meanwhile: see copyOf.
func (g *registry) all() map[queue.Key]*controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.entries)
}

// copyOf returns an entry as it is now.
func (g *registry) copyOf(e *controllerEntry) controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *e
}

// running returns the controllers that run.
func (g *registry) running() []*runningController {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*runningController
	for _, e := range g.entries {
		if e.running != nil {
			all = append(all, e.running)
		}
	}
	return all
}

// policy returns the rollout that the spec of a running controller declares; nil for none.
func (g *registry) policy(r *runningController) *compile.Rollout {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.Rollout
}

// keys returns the controllers that are selected.
func (g *registry) keys(selects func(queue.Key, *controllerEntry) bool) []queue.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []queue.Key
	for key, e := range g.entries {
		if selects(key, e) {
			all = append(all, key)
		}
	}
	return all
}

// hasTaken reports whether this process has stored itself as the owner of an object. The schema of
// an older CRD prunes the field.
func (g *registry) hasTaken(key queue.Key, o *object.Object) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[key]
	return e != nil && e.taken == o.UID()
}

// setTaken records that this process has stored itself as the owner of an object.
func (g *registry) setTaken(key queue.Key, o *object.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[key]; e != nil {
		e.taken = strings.Clone(o.UID())
	}
}

// checkConflict refuses a controller that conflicts with an older one. If both only share
// parents, it yields their status to the older one. Here and below the rank decides which one is
// older: see conflicts.Rank.
func (g *registry) checkConflict(key queue.Key, rank string, compiled *compile.Compiled) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, older := range g.olderControllers(key, rank, compiled) {
		if found, conflicting := conflicts.Find(g.entries[older].running.Compiled, compiled); conflicting {
			return found.Refusal(older)
		}
	}
	g.yieldStatus(key, rank, compiled)
	return nil
}

// olderControllers returns the running controllers that are older and share parents,
// oldest first. The caller holds the lock.
func (g *registry) olderControllers(key queue.Key, rank string, compiled *compile.Compiled) []queue.Key {
	var olderKeys []queue.Key
	for other, e := range g.entries {
		if other != key && e.running != nil && e.rank < rank && conflicts.Overlap(e.running.Compiled, compiled) {
			olderKeys = append(olderKeys, other)
		}
	}
	slices.SortFunc(olderKeys, func(a, b queue.Key) int { return cmp.Compare(g.entries[a].rank, g.entries[b].rank) })
	return olderKeys
}

// yieldStatus makes older controllers the owners of the parents' status, with a note for
// the user. The caller holds the lock.
func (g *registry) yieldStatus(key queue.Key, rank string, compiled *compile.Compiled) {
	for i := range compiled.Programs {
		p := &compiled.Programs[i]
		if p.StatusOwners = g.statusOwners(key, rank, p); len(p.StatusOwners) > 0 {
			compiled.Notes = append(slices.Clone(compiled.Notes), fmt.Sprintf(
				"%s takes precedence for %s and stores their status; the status in responses of this one is ignored",
				p.StatusOwners[0].Name, p.Parent))
		}
	}
	compiled.Notes = slices.Compact(compiled.Notes) // One for each kind, not for each namespace.
}

// statusOwners returns the older controllers that store the status of a program's parents.
func (g *registry) statusOwners(key queue.Key, rank string, p *composite.Program) []composite.StatusOwner {
	var owners []composite.StatusOwner
	for _, older := range g.olderControllers(key, rank, &compile.Compiled{Programs: []composite.Program{*p}}) {
		for _, theirs := range g.entries[older].running.Programs {
			if conflicts.SameParents(&theirs, p) {
				owners = append(owners, composite.StatusOwner{Name: older.String(), Selections: theirs.Selections,
					Namespace: theirs.Namespace})
			}
		}
	}
	return owners
}

// youngerConflicting returns the younger running controllers that must stop or restart
// because of a starting one.
func (g *registry) youngerConflicting(key queue.Key, rank string, next *runningController) map[queue.Key]*controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	younger := map[queue.Key]*controllerEntry{}
	for other, e := range g.entries {
		if other == key || e.running == nil || e.rank <= rank || !conflicts.Overlap(e.running.Compiled, next.Compiled) {
			continue
		}
		if _, conflicting := conflicts.Find(e.running.Compiled, next.Compiled); conflicting || g.statusOwnersChanged(other, e) {
			younger[other] = e
		}
	}
	return younger
}

// statusOwnersChanged reports whether a running controller has other status owners now.
// The caller holds the lock.
func (g *registry) statusOwnersChanged(key queue.Key, e *controllerEntry) bool {
	return slices.ContainsFunc(e.running.Programs, func(p composite.Program) bool {
		return !reflect.DeepEqual(p.StatusOwners, g.statusOwners(key, e.rank, &p))
	})
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
	outdated := ""
	if s.outdated != nil {
		outdated = s.outdated.Error()
	}
	return fmt.Sprint(s.suspended, failure.Text(s.problem()), outdated)
}

// problem returns why the controller does not run, or not in all namespaces.
func (s *controllerState) problem() error {
	if s.refusal == nil && s.incomplete != nil {
		return s.incomplete
	}
	return s.refusal
}
