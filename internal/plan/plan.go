// Package plan decides what to do, and does none of it.
//
// Its functions are pure: from what is observed, what a hook desires and the
// rules of a controller they make a Plan that can be printed, compared and
// tested. Here live checking a reply against the rules, claiming children,
// merging a desired object into an observed one, and the order of writes.
// Nothing here talks to a server, calls a hook or looks at a clock. The engine
// asks for plans; the room apply carries them out.
package plan

import (
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
	Adopt   Verb = "adopt"
	Release Verb = "release"
)

// UpdateMethod is how an existing child that differs is brought in line.
type UpdateMethod string

// The methods of a rule.
const (
	// OnDelete leaves it alone until somebody deletes it.
	OnDelete UpdateMethod = "OnDelete"
	// Recreate deletes it, and creates it anew once it is gone.
	Recreate UpdateMethod = "Recreate"
	// InPlace updates it.
	InPlace UpdateMethod = "InPlace"
	// RollingRecreate and RollingInPlace do the same to one child after the
	// other, each once those before it are well.
	RollingRecreate UpdateMethod = "RollingRecreate"
	RollingInPlace  UpdateMethod = "RollingInPlace"
)

// Rolling says that the method takes one child after the other.
func (m UpdateMethod) Rolling() bool { return m == RollingRecreate || m == RollingInPlace }

// ApplyStrategy is how a desired child is laid over an observed one.
type ApplyStrategy string

// The strategies of a rule.
const (
	// Merge compares with what was applied last, which an annotation of the
	// child remembers, and sends the whole object.
	Merge ApplyStrategy = "Merge"
	// ServerSide sends the desired fields, and the API server keeps account of
	// whose they are.
	ServerSide ApplyStrategy = "ServerSide"
)

// StatusCheck is a condition that a child's status must have for the child to be well.
type StatusCheck struct {
	Type string
	// Status and Reason are compared where they are not empty.
	Status, Reason string
}

// Rule is what a controller declares about one kind of child.
type Rule struct {
	Resource object.Resource
	Method   UpdateMethod
	// Strategy is Merge if empty.
	Strategy ApplyStrategy
	// StatusChecks say when a child is well, for the rolling methods.
	StatusChecks []StatusCheck
	// MaxUnavailable is how many children of the kind a rolling method may have
	// under way at once; 1 if zero.
	MaxUnavailable int
}

// Rules are the declared kinds of children.
type Rules []Rule

// For returns the rule for a kind, whatever its version.
func (r Rules) For(kind object.GroupKind) (Rule, bool) {
	for _, rule := range r {
		if rule.Resource.GroupKind() == kind {
			return rule, true
		}
	}
	return Rule{}, false
}

// Action is one write.
type Action struct {
	Verb     Verb
	Resource object.Resource
	// Ref is the object written.
	Ref object.Ref
	// Before is the observed object; nil for Create.
	Before *object.Object
	// After is the object to send: for Apply those fields of it that are desired.
	// For Delete there is one only if Try is set.
	After *object.Object
	// DryRunVerb says of a Delete how After is tried first, by Update or by Apply: if it
	// turns out to leave the object as it is, it is carried out instead. What the
	// server would not let be created anew is not deleted either.
	DryRunVerb Verb
	// Desired is the digest of the desired child this action brings about;
	// 0 for Adopt, Release and a Delete without Try.
	Desired uint64
	// FieldPath is the path of the first field that differs, such as "spec.image";
	// "" where the action is not about a difference.
	FieldPath string
	// Reason says why, such as "missing" or "spec.image differs".
	Reason string
	// Manager is the field manager to write as; that of the writer if empty.
	Manager string
	// TakeOver is what comes before an Apply, or nil.
	TakeOver *TakeOver
}

// Plan is a list of writes in stages: the actions of one stage may be carried
// out at the same time, one stage after the other.
type Plan struct {
	Stages [][]Action
	// Equal are the observed children found to be as desired, by comparing:
	// what Settled may know of next time.
	Equal []Equal
}

// Equal is an observed child and the digest of the desired one it is equal to.
type Equal struct {
	Observed *object.Object
	Desired  uint64
}

// Empty says that there is nothing to do.
func (p Plan) Empty() bool { return len(p.Stages) == 0 }

// First is the first action, if there is any.
func (p Plan) First() (Action, bool) {
	for _, stage := range p.Stages {
		for _, action := range stage {
			return action, true
		}
	}
	return Action{}, false
}

// Len is the number of actions.
func (p Plan) Len() int {
	n := 0
	for _, stage := range p.Stages {
		n += len(stage)
	}
	return n
}
