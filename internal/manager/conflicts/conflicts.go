// Package conflicts finds controllers that must not run together: two controllers that write
// the same objects, Metacontrollers in the same cluster, and controller objects of another Setpoint.
package conflicts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Conflict is what two controllers of the same parents would both write.
type Conflict struct {
	Parent object.Resource
	Reason string
	// Advice is what to do about it, if there is something special.
	Advice string
}

// Refusal refuses a controller because of the conflict with an older one.
func (c Conflict) Refusal(older queue.Key) *compile.Refusal {
	advice := cmp.Or(c.Advice, "give each a parentResource.labelSelector that excludes the other's parents, or delete one")
	if c.Advice == "" && older.Namespace == "" {
		advice = "give each a label selector that excludes the other's objects, or remove one"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; %s; %s", older, c.Parent, c.Reason, advice)}
}

// Overlap reports whether two controllers share parents. Two different selectors count
// as disjoint. Decorators never conflict: each marks its own attachments.
func Overlap(a, b *compile.Compiled) bool {
	_, finalizers := sharedFinalizer(a, b)
	return finalizers || slices.ContainsFunc(a.Programs, func(one composite.Program) bool {
		return slices.ContainsFunc(b.Programs, func(other composite.Program) bool { return SameParents(&one, &other) })
	})
}

// sharedFinalizer returns the conflict of two controllers with one finalizer: the first that is done
// with an object would release it for both.
func sharedFinalizer(a, b *compile.Compiled) (Conflict, bool) {
	theirs, ours := a.Finalizers(), b.Finalizers()
	for i := range b.Handlers {
		p := &b.Handlers[i]
		name := compile.ResourceName{APIVersion: p.Resource.APIVersion(), Plural: p.Resource.Plural}
		if ours[name] != "" && theirs[name] == p.Finalizer &&
			slices.ContainsFunc(a.Handlers, func(other handler.Program) bool { return shareNamespace(&other, p) }) {
			return Conflict{Parent: p.Resource, Reason: "both use the finalizer " + p.Finalizer,
				Advice: "give each a spec.finalizer of its own, or delete one"}, true
		}
	}
	return Conflict{}, false
}

// shareNamespace reports whether two programs handle objects of one kind in the same namespace.
func shareNamespace(a, b *handler.Program) bool {
	if a.Resource.GroupKind() != b.Resource.GroupKind() {
		return false
	}
	return len(a.Namespaces) == 0 || len(b.Namespaces) == 0 ||
		slices.ContainsFunc(a.Namespaces, func(one string) bool { return slices.Contains(b.Namespaces, one) })
}

// SameParents reports whether two programs share parents.
func SameParents(a, b *composite.Program) bool {
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
	for _, one := range a.Programs {
		for _, other := range b.Programs {
			if over := conflictReason(&one, &other); over != "" && SameParents(&one, &other) {
				return Conflict{Parent: other.Parent, Reason: over}, true
			}
		}
	}
	return sharedFinalizer(a, b)
}

// conflictReason returns what two programs with the same parents would both write; "" for nothing.
func conflictReason(a, b *composite.Program) string {
	for _, rule := range a.Children {
		if _, both := b.Children.For(rule.Resource.GroupKind()); both {
			return fmt.Sprintf("both declare %s as children", rule.Resource)
		}
	}
	switch {
	case a.Children.Rolling() && b.Children.Rolling():
		return "both store revisions of them for rolling updates"
	case a.Fields != b.Fields:
		// Only the API server knows which parents a field selector matches, so the status owner of a parent is unknown.
		return "only one of the two selects them by fields"
	}
	return ""
}

// selectionText returns the selectors of a program; "" if it selects all parents.
func selectionText(p *composite.Program) string {
	all := lists.Map(p.Selections, composite.Selection.String)
	if p.Fields != "" {
		all = append(all, "fields "+p.Fields)
	}
	return strings.Join(all, "; ")
}

// Rank orders conflicting controller objects: those of all namespaces come before those limited to some,
// then the older ones, then by name. A tenant who may run a controller in one namespace thus neither blocks a
// cluster-wide controller nor takes a namespace out of it.
func Rank(o *object.Object) string {
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
