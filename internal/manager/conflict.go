package manager

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
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
