package host

import (
	"fmt"
	"slices"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// rival refuses a controller whose parents an older one already cares for: two
// of them would undo each other's work.
func (f *fleet) rival(key queue.Key, rank string, compiled *compile.Compiled) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, m := range f.members {
		if other == key || m.running == nil || !overlap(m.running.Compiled, compiled) {
			continue
		}
		if m.rank < rank {
			return conflict(other, compiled)
		}
	}
	return nil
}

// displace ends the younger controllers that a starting one is the rival of,
// before it writes anything.
func (f *fleet) displace(key queue.Key, rank string, next *running) {
	for other, m := range f.youngerRivals(key, rank, next) {
		m.running.end()
		f.tellStopped(other, m.object)
		f.mu.Lock()
		m.running, m.refusal = nil, conflict(key, next.Compiled)
		f.mu.Unlock()
		f.logDeclared(other, m.state)
	}
}

func (f *fleet) youngerRivals(key queue.Key, rank string, next *running) map[queue.Key]*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	younger := map[queue.Key]*member{}
	for other, m := range f.members {
		if other != key && m.running != nil && overlap(m.running.Compiled, next.Compiled) && rank < m.rank {
			younger[other] = m
		}
	}
	return younger
}

// conflict is the refusal of a controller because of an older one.
func conflict(elder queue.Key, compiled *compile.Compiled) error {
	if elder.Namespace == "" {
		return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
			"%s is already the controller of %s; give each a label selector that leaves the other's out, or leave one out", elder, compiled.Programs[0].Parent)}
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; give each a parentResource.labelSelector that leaves the other's out, or delete one", elder, compiled.Programs[0].Parent)}
}

// overlap says that two controllers would care for the same objects. Two
// different selectors are taken to be meant apart. Decorators get along with each
// other and with composites: each knows its attachments by its own mark.
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
		if other != key && rivalry(changed, m) {
			f.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
		}
	}
}

// rivalry says whether a change of one controller is another's concern: one
// that was refused for a rival may be free now, one that runs may have met an
// older one.
func rivalry(changed, other *member) bool {
	if other.refusal != nil {
		return other.refused(setpoint.ReasonConflictingController)
	}
	return changed != nil && changed.running != nil && other.running != nil &&
		overlap(changed.running.Compiled, other.running.Compiled)
}
