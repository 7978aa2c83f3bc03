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

// checkConflict refuses a controller that would undo the work of an older one, and be undone. Beside
// those that are older and have the same parents, without that, it leaves the status to them.
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

// olderControllers are the older controllers at work whose parents a controller has too, the eldest
// first. The caller has locked.
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

// yieldStatus has a controller leave the status of parents to the older ones that have
// them, and notes it for the user. The caller has locked.
func (cs *controllerSet) yieldStatus(key queue.Key, rank string, compiled *compile.Compiled) {
	for i := range compiled.Programs {
		p := &compiled.Programs[i]
		if p.StatusOwners = cs.statusOwners(key, rank, p); len(p.StatusOwners) > 0 {
			compiled.Notes = append(slices.Clone(compiled.Notes), fmt.Sprintf(
				"%s is the older controller of %s and stores their status; the status in responses of this one is ignored", p.StatusOwners[0].Name, p.Parent))
		}
	}
}

// statusOwners are the older controllers that store the status of a program's parents.
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

// activeStatusOwners are those to which a controller at work leaves the status, for another
// program of it.
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

// stopYounger ends the younger controllers that a starting one is the rival of, before it
// writes anything. Those that only have to leave the status to it start again.
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

// youngerConflicting are the younger controllers at work that cannot go on beside a starting
// one as they do.
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

// statusOwnersChanged says that a controller at work stores a status that it has to leave to
// others now, or leaves one to others than before. The caller has locked.
func (cs *controllerSet) statusOwnersChanged(key queue.Key, e *controllerEntry) bool {
	return slices.ContainsFunc(e.running.Programs, func(p compose.Program) bool {
		return !reflect.DeepEqual(p.StatusOwners, cs.statusOwners(key, e.rank, &p))
	})
}

// conflictRefusal is the refusal of a controller because of an older one.
func conflictRefusal(older queue.Key, found controllerConflict) error {
	advice := "give each a parentResource.labelSelector that leaves the other's out, or delete one"
	if older.Namespace == "" {
		advice = "give each a label selector that leaves the other's out, or leave one out"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; %s; %s", older, found.parent, found.reason, advice)}
}

// overlaps says that two controllers have the same parents. Two different selectors are
// taken to be meant apart. Decorators get along with each other and with composites: each
// knows its attachments by its own mark.
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

// controllerConflict is what two controllers of the same parents would undo of each other.
type controllerConflict struct {
	parent object.Resource
	reason string
}

// findConflict finds what two controllers would undo of each other, if anything: the children of
// a kind that both declare, or the revisions of a parent. The status is no such thing:
// the younger one leaves it to the older.
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

// conflictReason says what two programs with the same parents would both write; empty for
// nothing.
func conflictReason(a, b *compose.Program) string {
	for _, rule := range a.Children {
		if _, both := b.Children.For(rule.Resource.GroupKind()); both {
			return fmt.Sprintf("both declare %s as children", rule.Resource)
		}
	}
	switch {
	case a.Children.Rolling() && b.Children.Rolling():
		return "both keep revisions of them for rolling updates"
	case a.Fields != b.Fields:
		// Which parents that are is known to the API server alone, so the owner of a status
		// cannot be told.
		return "one selects them by fields, the other does not"
	}
	return ""
}

// selectionText says which parents a program selects; nothing if all.
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

// rankOf orders controller objects by their creation, and by name within a second.
func rankOf(o *object.Object) string {
	return string(o.Field("metadata", "creationTimestamp")) + " " + o.APIVersion() + o.Name()
}

// requeueConflicting looks again at controllers that a change of this one may have made
// rivals, or freed.
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

// affects says whether a change of one controller is another's concern: one that was
// refused for a rival may be free now, one that leaves the status to it may have to store
// it, one that runs may have met an older one.
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

// yieldsStatusTo says that another controller stores the status of parents of this one.
func (r *runningController) yieldsStatusTo(name string) bool {
	return slices.ContainsFunc(r.Programs, func(p compose.Program) bool {
		return slices.ContainsFunc(p.StatusOwners, func(o compose.StatusOwner) bool { return o.Name == name })
	})
}
