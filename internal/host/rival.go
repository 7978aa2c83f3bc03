package host

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// rival refuses a controller that would undo the work of an older one, and be undone. Beside
// those that are older and have the same parents, without that, it leaves the status to them.
func (f *fleet) rival(key queue.Key, rank string, compiled *compile.Compiled) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, elder := range f.elders(key, rank, compiled) {
		if found, clash := clashOf(f.members[elder].running.Compiled, compiled); clash {
			return conflict(elder, found)
		}
	}
	f.leaveStatus(key, rank, compiled)
	return nil
}

// elders are the older controllers at work whose parents a controller has too, the eldest
// first. The caller has locked.
func (f *fleet) elders(key queue.Key, rank string, compiled *compile.Compiled) []queue.Key {
	var elders []queue.Key
	for other, m := range f.members {
		if other != key && m.running != nil && m.rank < rank && overlap(m.running.Compiled, compiled) {
			elders = append(elders, other)
		}
	}
	slices.SortFunc(elders, func(a, b queue.Key) int { return cmp.Compare(f.members[a].rank, f.members[b].rank) })
	return elders
}

// leaveStatus has a controller leave the status of parents to the older ones that have
// them, and notes it for the user. The caller has locked.
func (f *fleet) leaveStatus(key queue.Key, rank string, compiled *compile.Compiled) {
	for i := range compiled.Programs {
		p := &compiled.Programs[i]
		if p.StatusOwners = f.statusOwners(key, rank, p); len(p.StatusOwners) > 0 {
			compiled.Notes = append(slices.Clone(compiled.Notes), fmt.Sprintf(
				"%s is the older controller of %s and stores their status; the status in responses of this one is ignored", p.StatusOwners[0].Name, p.Parent))
		}
	}
}

// statusOwners are the older controllers that store the status of a program's parents.
func (f *fleet) statusOwners(key queue.Key, rank string, p *engine.Program) []engine.StatusOwner {
	var owners []engine.StatusOwner
	for _, elder := range f.elders(key, rank, &compile.Compiled{Programs: []engine.Program{*p}}) {
		for _, theirs := range f.members[elder].running.Programs {
			if compete(&theirs, p) {
				owners = append(owners, engine.StatusOwner{Name: elder.String(), Selections: theirs.Selections, Namespace: theirs.Namespace})
			}
		}
	}
	return owners
}

// ownersBeside are those to which a controller at work leaves the status, for another
// program of it.
func (f *fleet) ownersBeside(p *engine.Program) []engine.StatusOwner {
	for _, r := range f.atWork() {
		for _, working := range r.Programs {
			if working.Name == p.Name && working.Parent == p.Parent {
				return working.StatusOwners
			}
		}
	}
	return nil
}

// displace ends the younger controllers that a starting one is the rival of, before it
// writes anything. Those that only have to leave the status to it start again.
func (f *fleet) displace(key queue.Key, rank string, next *running) {
	for other, m := range f.youngerRivals(key, rank, next) {
		found, clash := clashOf(m.running.Compiled, next.Compiled)
		m.running.end()
		f.tellStopped(other, m.object)
		f.mu.Lock()
		m.running = nil
		if clash {
			m.refusal = conflict(key, found)
		}
		f.mu.Unlock()
		if !clash {
			f.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
			continue
		}
		f.logDeclared(other, m.state)
	}
}

// youngerRivals are the younger controllers at work that cannot go on beside a starting
// one as they do.
func (f *fleet) youngerRivals(key queue.Key, rank string, next *running) map[queue.Key]*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	younger := map[queue.Key]*member{}
	for other, m := range f.members {
		if other == key || m.running == nil || m.rank <= rank || !overlap(m.running.Compiled, next.Compiled) {
			continue
		}
		if _, clash := clashOf(m.running.Compiled, next.Compiled); clash || f.takesStatus(other, m) {
			younger[other] = m
		}
	}
	return younger
}

// takesStatus says that a controller at work stores a status that it has to leave to
// others now, or leaves one to others than before. The caller has locked.
func (f *fleet) takesStatus(key queue.Key, m *member) bool {
	return slices.ContainsFunc(m.running.Programs, func(p engine.Program) bool {
		return !reflect.DeepEqual(p.StatusOwners, f.statusOwners(key, m.rank, &p))
	})
}

// conflict is the refusal of a controller because of an older one.
func conflict(elder queue.Key, found clash) error {
	advice := "give each a parentResource.labelSelector that leaves the other's out, or delete one"
	if elder.Namespace == "" {
		advice = "give each a label selector that leaves the other's out, or leave one out"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; %s; %s", elder, found.parent, found.over, advice)}
}

// overlap says that two controllers have the same parents. Two different selectors are
// taken to be meant apart. Decorators get along with each other and with composites: each
// knows its attachments by its own mark.
func overlap(a, b *compile.Compiled) bool {
	return slices.ContainsFunc(a.Programs, func(one engine.Program) bool {
		return slices.ContainsFunc(b.Programs, func(other engine.Program) bool { return compete(&one, &other) })
	})
}

func compete(a, b *engine.Program) bool {
	if a.Mark != (plan.Mark{}) || b.Mark != (plan.Mark{}) {
		return false
	}
	if a.Parent.GroupKind() != b.Parent.GroupKind() || a.Namespace != b.Namespace && a.Namespace != "" && b.Namespace != "" {
		return false
	}
	left, right := selected(a), selected(b)
	return left == right || left == "" || right == ""
}

// clash is what two controllers of the same parents would undo of each other.
type clash struct {
	parent object.Resource
	over   string
}

// clashOf finds what two controllers would undo of each other, if anything: the children of
// a kind that both declare, or the revisions of a parent. The status is no such thing:
// the younger one leaves it to the older.
func clashOf(a, b *compile.Compiled) (clash, bool) {
	for i := range a.Programs {
		for j := range b.Programs {
			if !compete(&a.Programs[i], &b.Programs[j]) {
				continue
			}
			if over := contested(&a.Programs[i], &b.Programs[j]); over != "" {
				return clash{parent: b.Programs[j].Parent, over: over}, true
			}
		}
	}
	return clash{}, false
}

// contested says what two programs with the same parents would both write; empty for
// nothing.
func contested(a, b *engine.Program) string {
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

// selected says which parents a program selects; nothing if all.
func selected(p *engine.Program) string {
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

// wakeRivals looks again at controllers that a change of this one may have made
// rivals, or freed.
func (f *fleet) wakeRivals(key queue.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.members[key]
	for other, m := range f.members {
		if other != key && rivalry(key, changed, m) {
			f.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
		}
	}
}

// rivalry says whether a change of one controller is another's concern: one that was
// refused for a rival may be free now, one that leaves the status to it may have to store
// it, one that runs may have met an older one.
func rivalry(key queue.Key, changed, other *member) bool {
	switch {
	case other.refusal != nil:
		return other.refused(setpoint.ReasonConflictingController)
	case other.running == nil:
		return false
	case other.running.leavesStatusTo(key.String()):
		return true
	}
	return changed != nil && changed.running != nil && overlap(changed.running.Compiled, other.running.Compiled)
}

// leavesStatusTo says that another controller stores the status of parents of this one.
func (r *running) leavesStatusTo(name string) bool {
	return slices.ContainsFunc(r.Programs, func(p engine.Program) bool {
		return slices.ContainsFunc(p.StatusOwners, func(o engine.StatusOwner) bool { return o.Name == name })
	})
}
