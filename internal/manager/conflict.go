package manager

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// checkConflict refuses a controller that conflicts with an older one. If both only share
// parents, it yields their status to the older one.
func (cs *controllerSet) checkConflict(key queue.Key, rank string, compiled *compile.Compiled) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, older := range cs.olderControllers(key, rank, compiled) {
		if found, conflicts := findConflict(cs.entries[older].running.Compiled, compiled); conflicts {
			return conflictRefusal(older, found)
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
		if other != key && e.running != nil && e.rank < rank && overlaps(e.running.Compiled, compiled) {
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
				"%s is the older controller of %s and stores their status; the status in responses of this one is ignored", p.StatusOwners[0].Name, p.Parent))
		}
	}
}

// statusOwners returns the older controllers that store the status of a program's parents.
func (cs *controllerSet) statusOwners(key queue.Key, rank string, p *compose.Program) []compose.StatusOwner {
	var owners []compose.StatusOwner
	for _, older := range cs.olderControllers(key, rank, &compile.Compiled{Programs: []compose.Program{*p}}) {
		for _, theirs := range cs.entries[older].running.Programs {
			if sameParents(&theirs, p) {
				owners = append(owners, compose.StatusOwner{Name: older.String(), Selections: theirs.Selections, Namespace: theirs.Namespace})
			}
		}
	}
	return owners
}

// activeStatusOwners returns the status owners of the running program that p is a copy of.
func (cs *controllerSet) activeStatusOwners(p *compose.Program) []compose.StatusOwner {
	for _, r := range cs.runningControllers() {
		for _, working := range r.Programs {
			if working.Name == p.Name && working.Parent == p.Parent {
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
		found, conflicts := findConflict(e.running.Compiled, next.Compiled)
		e.running.shutdown()
		cs.recordStopped(other, e.object)
		cs.mu.Lock()
		e.running = nil
		if conflicts {
			e.refusal = conflictRefusal(key, found)
		}
		cs.mu.Unlock()
		if !conflicts {
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
		if other == key || e.running == nil || e.rank <= rank || !overlaps(e.running.Compiled, next.Compiled) {
			continue
		}
		if _, conflicts := findConflict(e.running.Compiled, next.Compiled); conflicts || cs.statusOwnersChanged(other, e) {
			younger[other] = e
		}
	}
	return younger
}

// statusOwnersChanged reports whether a running controller has other status owners now.
// The caller holds the lock.
func (cs *controllerSet) statusOwnersChanged(key queue.Key, e *controllerEntry) bool {
	return slices.ContainsFunc(e.running.Programs, func(p compose.Program) bool {
		return !reflect.DeepEqual(p.StatusOwners, cs.statusOwners(key, e.rank, &p))
	})
}

// conflictRefusal refuses a controller because of an older one.
func conflictRefusal(older queue.Key, found controllerConflict) error {
	advice := "give each a parentResource.labelSelector that excludes the other's parents, or delete one"
	if older.Namespace == "" {
		advice = "give each a label selector that excludes the other's objects, or remove one"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; %s; %s", older, found.parent, found.reason, advice)}
}

// overlaps reports whether two controllers share parents. Two different selectors count
// as disjoint. Decorators never conflict: each marks its own attachments.
func overlaps(a, b *compile.Compiled) bool {
	return slices.ContainsFunc(a.Programs, func(one compose.Program) bool {
		return slices.ContainsFunc(b.Programs, func(other compose.Program) bool { return sameParents(&one, &other) })
	})
}

func sameParents(a, b *compose.Program) bool {
	if a.Mark != (plan.Mark{}) || b.Mark != (plan.Mark{}) {
		return false
	}
	if a.Parent.GroupKind() != b.Parent.GroupKind() || a.Namespace != b.Namespace && a.Namespace != "" && b.Namespace != "" {
		return false
	}
	left, right := selectionText(a), selectionText(b)
	return left == right || left == "" || right == ""
}

// controllerConflict is what two controllers of the same parents would both write.
type controllerConflict struct {
	parent object.Resource
	reason string
}

// findConflict returns what two controllers would both write: children of one kind, or the
// revisions of a parent. The status is no conflict: the younger controller yields it.
func findConflict(a, b *compile.Compiled) (controllerConflict, bool) {
	for i := range a.Programs {
		for j := range b.Programs {
			if !sameParents(&a.Programs[i], &b.Programs[j]) {
				continue
			}
			if over := conflictReason(&a.Programs[i], &b.Programs[j]); over != "" {
				return controllerConflict{parent: b.Programs[j].Parent, reason: over}, true
			}
		}
	}
	return controllerConflict{}, false
}

// conflictReason returns what two programs with the same parents would both write; "" for
// nothing.
func conflictReason(a, b *compose.Program) string {
	for _, rule := range a.Children {
		if _, both := b.Children.For(rule.Resource.GroupKind()); both {
			return fmt.Sprintf("both declare %s as children", rule.Resource)
		}
	}
	switch {
	case a.Children.Rolling() && b.Children.Rolling():
		return "both store revisions of them for rolling updates"
	case a.Fields != b.Fields:
		// Only the API server knows which parents a field selector matches, so the status
		// owner of a parent is unknown.
		return "only one of the two selects them by fields"
	}
	return ""
}

// selectionText returns the selectors of a program; "" if it selects all parents.
func selectionText(p *compose.Program) string {
	var all []string
	for _, s := range p.Selections {
		all = append(all, s.String())
	}
	if p.Fields != "" {
		all = append(all, "fields "+p.Fields)
	}
	return strings.Join(all, "; ")
}

// rankOf orders controller objects by creation time, then by name.
func rankOf(o *object.Object) string {
	return string(o.Field("metadata", "creationTimestamp")) + " " + o.APIVersion() + o.Name()
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
	return changed != nil && changed.running != nil && overlaps(changed.running.Compiled, other.running.Compiled)
}

// yieldsStatusTo reports whether another controller stores the status of this one's parents.
func (r *runningController) yieldsStatusTo(name string) bool {
	return slices.ContainsFunc(r.Programs, func(p compose.Program) bool {
		return slices.ContainsFunc(p.StatusOwners, func(o compose.StatusOwner) bool { return o.Name == name })
	})
}
