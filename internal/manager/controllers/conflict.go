package controllers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// checkConflict refuses a controller that conflicts with an older one. If both only share
// parents, it yields their status to the older one. Here and below the rank decides which one is
// older: see conflicts.Rank.
func (cs *Set) checkConflict(key queue.Key, rank string, compiled *compile.Compiled) error {
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
func (cs *Set) olderControllers(key queue.Key, rank string, compiled *compile.Compiled) []queue.Key {
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
func (cs *Set) yieldStatus(key queue.Key, rank string, compiled *compile.Compiled) {
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
func (cs *Set) statusOwners(key queue.Key, rank string, p *composite.Program) []composite.StatusOwner {
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

// ActiveStatusOwners returns the status owners of the running program that p is a copy of.
func (cs *Set) ActiveStatusOwners(p *composite.Program) []composite.StatusOwner {
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
func (cs *Set) stopYounger(key queue.Key, rank string, next *runningController) {
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
func (cs *Set) youngerConflicting(key queue.Key, rank string, next *runningController) map[queue.Key]*controllerEntry {
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
func (cs *Set) statusOwnersChanged(key queue.Key, e *controllerEntry) bool {
	return slices.ContainsFunc(e.running.Programs, func(p composite.Program) bool {
		return !reflect.DeepEqual(p.StatusOwners, cs.statusOwners(key, e.rank, &p))
	})
}

// requeueConflicting enqueues controllers that conflict with this one, or did before it
// changed.
func (cs *Set) requeueConflicting(key queue.Key) {
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

// otherInterval is how often a dev run looks for controllers of others.
const otherInterval = 5 * time.Second

// watchOthers looks for the controllers of others in a dev run, and enqueues its own that have to yield, or need
// not any more.
func (cs *Set) watchOthers(ctx context.Context) {
	if cs.Others.DevRun == "" {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := cs.Others.Refresh(ctx); err != nil {
			cs.Log.Debug("controllers of others not listed", "error", failure.Text(err))
			return
		}
		for _, key := range cs.affectedByOthers() {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController"})
		}
	}, otherInterval)
}

// affectedByOthers returns the running controllers that must yield, and those that yield now.
func (cs *Set) affectedByOthers() []queue.Key {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var keys []queue.Key
	for key, e := range cs.entries {
		if e.refused(setpoint.ReasonConflictingController) || e.running != nil &&
			cs.Others.Check(e.rank, e.running.Compiled) != nil {
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
func (cs *Set) watchMetacontrollers(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		concerned, waiting := cs.metacontrollerKeys()
		if len(concerned) == 0 || !waiting && !cs.Metacontrollers.IsDue() {
			return
		}
		if !cs.Metacontrollers.RefreshChanged(ctx) {
			return
		}
		for _, key := range concerned {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: conflicts.MetacontrollerName})
		}
	}, metacontrollerInterval)
}

// metacontrollerKeys returns the controllers that Metacontroller could run too, and whether
// one of them is refused because of it.
func (cs *Set) metacontrollerKeys() (keys []queue.Key, waiting bool) {
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
