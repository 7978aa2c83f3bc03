package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// registry has what is known of each controller. One goroutine, the worker of the queue, starts and stops controllers;
// the lock is for those that read meanwhile, and get copies.
type registry struct {
	mu      sync.Mutex
	entries entries
}

// entries are controllers at one moment.
type entries map[queue.Key]controllerEntry

// get returns what is known of a controller; the zero value if there is none.
func (g *registry) get(key queue.Key) controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entries[key]
}

// named returns what is known of a controller by its name. One of a program has a slash in it, too, and none in its key.
func (g *registry) named(name string) (controllerEntry, bool) {
	for key, e := range g.all() {
		if key.String() == name {
			return e, true
		}
	}
	return controllerEntry{}, false
}

// all returns what is known of all controllers.
func (g *registry) all() entries {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.entries)
}

// running returns the controllers that run.
func (g *registry) running() (all []*running.Controller) {
	for _, e := range g.all() {
		if e.running != nil {
			all = append(all, e.running)
		}
	}
	return all
}

// set sets the state of a controller, which may be a new one.
func (g *registry) set(now controllerState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[now.key]
	e.controllerState = now
	g.entries[now.key] = e
}

// change changes what is known of a controller, if there still is one, and returns it.
func (g *registry) change(key queue.Key, change func(*controllerEntry)) controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, exists := g.entries[key]
	if exists {
		change(&e)
		g.entries[key] = e
	}
	return e
}

// remove removes a controller and returns what was known of it.
func (g *registry) remove(key queue.Key) controllerEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[key]
	delete(g.entries, key)
	return e
}

// checkConflict refuses a controller that conflicts with an older one. If both only share parents, it yields their status
// to the older one. Here and below the rank decides which one is older: see conflicts.Rank.
func (all entries) checkConflict(key queue.Key, rank string, compiled *compile.Compiled) error {
	for _, older := range all.olderThan(key, rank, compiled) {
		if found, conflicting := conflicts.Find(older.running.Compiled, compiled); conflicting {
			return found.Refusal(older.key)
		}
	}
	for i := range compiled.Programs {
		p := &compiled.Programs[i]
		if p.StatusOwners = all.statusOwners(key, rank, p); len(p.StatusOwners) > 0 {
			compiled.Notes = append(slices.Clone(compiled.Notes), fmt.Sprintf(
				"%s takes precedence for %s and stores their status; the status in responses of this one is ignored",
				p.StatusOwners[0].Name, p.Parent))
		}
	}
	compiled.Notes = slices.Compact(compiled.Notes) // One for each kind, not for each namespace.
	return nil
}

// olderThan returns the running controllers that are older than one and share parents with it, oldest first.
func (all entries) olderThan(key queue.Key, rank string, compiled *compile.Compiled) []controllerEntry {
	var older []controllerEntry
	for _, e := range all {
		if e.key != key && e.running != nil && e.rank < rank && conflicts.Overlap(e.running.Compiled, compiled) {
			older = append(older, e)
		}
	}
	slices.SortFunc(older, func(a, b controllerEntry) int { return cmp.Compare(a.rank, b.rank) })
	return older
}

// statusOwners returns the older controllers that store the status of a program's parents.
func (all entries) statusOwners(key queue.Key, rank string, p *composite.Program) []composite.StatusOwner {
	var owners []composite.StatusOwner
	for _, older := range all.olderThan(key, rank, &compile.Compiled{Programs: []composite.Program{*p}}) {
		for _, theirs := range older.running.Programs {
			if conflicts.SameParents(&theirs, p) {
				owners = append(owners, composite.StatusOwner{Name: older.key.String(), Selections: theirs.Selections,
					Namespace: theirs.Namespace})
			}
		}
	}
	return owners
}

// youngerConflicting returns the younger running controllers that must stop or restart because of a starting one.
func (all entries) youngerConflicting(next controllerState) []controllerEntry {
	var younger []controllerEntry
	for _, e := range all {
		if e.key == next.key || e.running == nil || e.rank <= next.rank || !conflicts.Overlap(e.running.Compiled, next.running.Compiled) {
			continue
		}
		_, conflicting := conflicts.Find(e.running.Compiled, next.running.Compiled)
		if conflicting || slices.ContainsFunc(e.running.Programs, func(p composite.Program) bool {
			return !reflect.DeepEqual(p.StatusOwners, all.statusOwners(e.key, e.rank, &p))
		}) {
			younger = append(younger, e)
		}
	}
	return younger
}

// controllerEntry is one controller and what was reported of it.
type controllerEntry struct {
	controllerState
	lastReported declared.Reported
	// taken is the UID of the object of which this process has stored itself as the owner: the schema of an older CRD
	// prunes the field.
	taken string
}

// controllerState is the observed state of a controller.
type controllerState struct {
	key queue.Key
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
	// releasing is the progress, or the error, of removing finalizers while the object is being deleted; "" otherwise.
	releasing string
	// notes are warnings about an accepted spec; unstored is that of compile.Compiled.
	notes    []string
	unstored string
	running  *running.Controller
}

// accept sets what the compiler says of an accepted spec.
func (s *controllerState) accept(c *compile.Compiled) {
	s.refusal, s.suspended, s.notes, s.unstored = nil, c.Suspended, c.Notes, c.StatusWarning
	s.incomplete, s.absent, s.outdated = c.Incomplete, c.Absent, c.Code.Outdated
}

// health returns the health of a controller, if it runs.
func (s *controllerState) health() (health controller.Health, runs bool) {
	if s.running == nil {
		return controller.Health{}, false
	}
	return s.running.Health(), true
}

// refused reports whether the controller is refused for a reason.
func (s *controllerState) refused(reason string) bool {
	refusal, ok := errors.AsType[*compile.Refusal](s.refusal)
	return ok && refusal.Reason == reason
}

// logged identifies states that are logged once each.
func (s *controllerState) logged() string {
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

// controllerKinds are the kinds of a controller's objects, those of the children and other objects that it may write, and
// those of owned objects in which it stores history.
type controllerKinds struct{ managed, written, history []object.Kind }
