// Package plan decides what to write, and writes nothing.
//
// Its functions are pure. From the observed objects, a hook response and the rules of a controller they make a Plan,
// which can be printed, compared and tested. The package validates responses, claims children, merges desired into
// observed objects, and orders writes. It does not call the API server or a hook, and has no clock.
package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Verb is what an action does.
type Verb string

// The verbs of an action.
const (
	Create  Verb = "create"
	Update  Verb = "update"
	Apply   Verb = "apply"
	Delete  Verb = "delete"
	Evict   Verb = "evict"
	Adopt   Verb = "adopt"
	Release Verb = "release"
)

// UpdateMethod is how a child that differs is updated.
type UpdateMethod string

// The update methods.
const (
	// OnDelete changes a child only after a user has deleted it.
	OnDelete UpdateMethod = "OnDelete"
	// Recreate deletes the child and creates it again.
	Recreate UpdateMethod = "Recreate"
	// InPlace updates the child.
	InPlace UpdateMethod = "InPlace"
	// RollingRecreate and RollingInPlace do the same one child after another, and wait until each is ready.
	RollingRecreate UpdateMethod = "RollingRecreate"
	RollingInPlace  UpdateMethod = "RollingInPlace"
)

// Rolling reports whether the method updates one child after another.
func (m UpdateMethod) Rolling() bool { return m == RollingRecreate || m == RollingInPlace }

// NonRolling returns the method for a single child.
func (m UpdateMethod) NonRolling() UpdateMethod {
	return UpdateMethod(strings.TrimPrefix(string(m), "Rolling"))
}

// ApplyStrategy is how a desired child is applied to an observed one.
type ApplyStrategy string

// The apply strategies.
const (
	// Merge compares with the last applied configuration in an annotation and sends the whole object.
	Merge ApplyStrategy = "Merge"
	// ServerSide sends the desired fields, and the API server tracks their owners.
	ServerSide ApplyStrategy = "ServerSide"
)

// StatusCheck is a condition that a ready child has.
type StatusCheck struct {
	Type string
	// Status and Reason are compared if they are not empty.
	Status, Reason string
}

// ExpressionCheck is an expression over a child and its parent that holds for a ready child.
type ExpressionCheck struct {
	// Message says what a child lacks for which it does not hold.
	Message string
	Holds   func(child, parent *object.Object) (bool, error)
}

// Pause is an expression over a parent and its children. While it holds, no child moves to the latest revision.
type Pause struct {
	// Field is the path of the expression in the spec of the controller.
	Field string
	Holds func(parent *object.Object, children []*object.Object) (bool, error)
}

// Rule is how a controller manages one kind of child.
type Rule struct {
	Resource object.Resource
	Method   UpdateMethod
	// Strategy is Merge if empty.
	Strategy ApplyStrategy
	// StatusChecks define when a child is ready, for the rolling methods.
	StatusChecks     []StatusCheck
	ExpressionChecks []ExpressionCheck
	// Pause pauses rollouts; nil for never.
	Pause *Pause
	// MaxUnavailable is how many children of the kind may be unavailable during a rollout; 1 if zero.
	MaxUnavailable int
}

// Same compares all of two rules but their expressions, which are functions.
func (r Rule) Same(other Rule) bool {
	r.ExpressionChecks, r.Pause, other.ExpressionChecks, other.Pause = nil, nil, nil, nil
	return reflect.DeepEqual(r, other)
}

// HasExpressions reports whether a rule has any.
func (r Rule) HasExpressions() bool { return len(r.ExpressionChecks) > 0 || r.Pause != nil }

// Rules are the rules for all kinds of children.
type Rules []Rule

// For returns the rule for a kind of any version.
func (r Rules) For(kind object.GroupKind) (Rule, bool) {
	for _, rule := range r {
		if rule.Resource.GroupKind() == kind {
			return rule, true
		}
	}
	return Rule{}, false
}

// Rolling reports whether a rule has a rolling method.
func (r Rules) Rolling() bool {
	return slices.ContainsFunc(r, func(rule Rule) bool { return rule.Method.Rolling() })
}

// Action is one write.
type Action struct {
	Verb     Verb
	Resource object.Resource
	Ref      object.Ref
	// Before is the observed object; nil for Create.
	Before *object.Object
	// After is the object to send; for Apply only its desired fields. A Delete has one only with DryRunVerb.
	After *object.Object
	// Want is the desired child with its nulls; for Apply only if these remove fields.
	Want *object.Object
	// DryRunVerb makes a Delete conditional: the writer first tries After as a dry run, by Update or Apply. If that
	// changes nothing, it applies After instead. It does not delete if the server would reject After as a new object.
	DryRunVerb Verb
	// Desired is the digest of the desired child; 0 for Adopt, Release and unconditional Delete.
	Desired uint64
	// FieldPath is the first field that differs, such as "spec.image"; "" if the action is not about a difference.
	FieldPath string
	// Reason says why, such as "missing" or "spec.image differs".
	Reason string
	// Manager is the field manager; that of the writer if empty.
	Manager string
	// TakeOver comes before an Apply; may be nil.
	TakeOver *TakeOver
	// Update is the whole object for an update that has the result of the Apply and costs less; nil if there is none.
	Update *object.Object
}

// TakeOver transfers fields to the manager before an apply, so that the apply removes those that are no longer desired.
type TakeOver struct {
	// From are the previous managers of the child.
	From []PreviousManager
	// Applied has the metadata with the labels, annotations and finalizers known to have been applied.
	Applied map[string]any
	// RemoveAnnotations are the annotations to remove.
	RemoveAnnotations []string
	// OnlyLeftovers takes over only if the apply leaves fields that are no longer desired. Then the apply is repeated.
	OnlyLeftovers bool
}

// PreviousManager is a previous manager of a child.
type PreviousManager struct {
	Name string
	// Shared means that other clients use the name: a label, annotation or finalizer that is not in Applied stays.
	Shared bool
}

// Plan is a list of writes in stages. The actions of a stage may run concurrently; stages run one after another.
type Plan struct {
	Stages [][]Action
	// Equal are the observed children that a comparison found to be up to date.
	Equal []Equal
}

// Equal is an observed child and the digest of the desired one that it matches.
type Equal struct {
	Observed *object.Object
	Desired  uint64
}

// Empty reports whether there is nothing to write.
func (p Plan) Empty() bool { return len(p.Stages) == 0 }

// Actions returns all actions in order.
func (p Plan) Actions() []Action { return slices.Concat(p.Stages...) }

// filter returns the plan with some of its actions.
func (p Plan) filter(keep func(Action) bool) Plan {
	kept := Plan{Equal: p.Equal}
	for _, stage := range p.Stages {
		if stage = lists.Filter(stage, keep); len(stage) > 0 {
			kept.Stages = append(kept.Stages, stage)
		}
	}
	return kept
}

// String returns a line for each action with the number of its stage.
func (p Plan) String() string {
	var text strings.Builder
	for i, stage := range p.Stages {
		for _, action := range stage {
			fmt.Fprintf(&text, "%d. %s\n", i+1, action)
		}
	}
	return text.String()
}

// String returns text such as "update Service shop/web: spec.ports[0].port differs".
func (a Action) String() string { return fmt.Sprintf("%s %s: %s", a.Verb, a.Ref, a.Reason) }

// tiers is the order in which kinds are written, dependencies first, other kinds last. Deletions use the reverse order.
var tiers = []struct {
	group string
	kinds []string
}{
	{"", []string{"Namespace"}},
	{"apiextensions.k8s.io", []string{"CustomResourceDefinition"}},
	{"", []string{"ServiceAccount", "LimitRange", "ResourceQuota"}},
	{"rbac.authorization.k8s.io", []string{"Role", "ClusterRole"}},
	{"rbac.authorization.k8s.io", []string{"RoleBinding", "ClusterRoleBinding"}},
	{"scheduling.k8s.io", []string{"PriorityClass"}},
	{"storage.k8s.io", []string{"StorageClass"}},
	{"", []string{"ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim"}},
	{"", []string{"Service"}},
}

func tier(kind object.GroupKind) int {
	for i, t := range tiers {
		if t.group == kind.Group && slices.Contains(t.kinds, kind.Kind) {
			return i
		}
	}
	return len(tiers)
}

// stages sorts actions into stages: deletions first, dependants before their dependencies, then
// writes in the opposite order. Within a stage the order of the response stays.
func stages(actions []Action) [][]Action {
	slices.SortStableFunc(actions, func(a, b Action) int { return stageOrder(a) - stageOrder(b) })
	var sorted [][]Action
	for i, a := range actions {
		if i == 0 || stageOrder(a) != stageOrder(actions[i-1]) {
			sorted = append(sorted, nil)
		}
		last := &sorted[len(sorted)-1]
		*last = append(*last, a)
	}
	return sorted
}

// stageOrder is negative for deletions, so that they come first.
func stageOrder(a Action) int {
	t := tier(a.Resource.GroupKind())
	if a.Verb == Delete {
		return -1 - t
	}
	return t
}

// CreatesNamespace reports whether an action creates a namespace into which others of its plan may write.
func (a Action) CreatesNamespace() bool {
	return a.Before == nil && a.Verb != Delete && a.Resource.GroupKind() == object.Namespaces.GroupKind()
}

// WritesInto reports whether an action creates or changes a child in a namespace.
func (a Action) WritesInto(namespace string) bool {
	return a.Ref.Namespace == namespace && a.Verb != Delete && a.Verb != Release
}

// Key matches desired and observed children.
type Key struct {
	Kind            object.GroupKind
	Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(o *object.Object) Key { return Key{o.GroupKind(), o.Namespace(), o.Name()} }
