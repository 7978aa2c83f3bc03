// Package conflicts finds controllers that must not run together: two controllers that write
// the same objects, and Metacontrollers in the same cluster.
package conflicts

import (
	"fmt"
	"slices"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Conflict is what two controllers of the same parents would both write.
type Conflict struct {
	Parent object.Resource
	Reason string
}

// Refusal refuses a controller because of the conflict with an older one.
func (c Conflict) Refusal(older queue.Key) *compile.Refusal {
	advice := "give each a parentResource.labelSelector that excludes the other's parents, or delete one"
	if older.Namespace == "" {
		advice = "give each a label selector that excludes the other's objects, or remove one"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; %s; %s", older, c.Parent, c.Reason, advice)}
}

// Overlap reports whether two controllers share parents. Two different selectors count
// as disjoint. Decorators never conflict: each marks its own attachments.
func Overlap(a, b *compile.Compiled) bool {
	return slices.ContainsFunc(a.Programs, func(one compose.Program) bool {
		return slices.ContainsFunc(b.Programs, func(other compose.Program) bool { return SameParents(&one, &other) })
	})
}

// SameParents reports whether two programs share parents.
func SameParents(a, b *compose.Program) bool {
	if a.Mark != (plan.Mark{}) || b.Mark != (plan.Mark{}) {
		return false
	}
	if a.Parent.GroupKind() != b.Parent.GroupKind() || a.Namespace != b.Namespace && a.Namespace != "" && b.Namespace != "" {
		return false
	}
	left, right := selectionText(a), selectionText(b)
	return left == right || left == "" || right == ""
}

// Find returns what two controllers would both write: children of one kind, or the
// revisions of a parent. The status is no conflict: the younger controller yields it.
func Find(a, b *compile.Compiled) (Conflict, bool) {
	for i := range a.Programs {
		for j := range b.Programs {
			if !SameParents(&a.Programs[i], &b.Programs[j]) {
				continue
			}
			if over := conflictReason(&a.Programs[i], &b.Programs[j]); over != "" {
				return Conflict{Parent: b.Programs[j].Parent, Reason: over}, true
			}
		}
	}
	return Conflict{}, false
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
