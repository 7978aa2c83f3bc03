// Package rolling decides which children of a parent move to its latest revision: one by one, as their rules say.
// Like package plan, it decides and writes nothing.
package rolling

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Rollout has the desired children of all revisions of a parent and the observed ones.
//
// Each child is always updated to its own revision at once. Only a move to the latest revision, by
// a rule with a rolling method, has to wait: a ready child is moved while fewer than MaxUnavailable
// children of its rule are unavailable, at any revision. A child that is unavailable already is
// moved while fewer than MaxUnavailable children at the latest revision are unavailable. So a
// broken revision stops at the first child, and a fix starts with the broken children.
type Rollout struct {
	Family   *plan.Planner
	Observed []*object.Object
	// Latest are the children of the latest revision. Children without a claim follow it.
	Latest []plan.Child
	// Previous are the previous revisions, in the order of a History.
	Previous []Revision
	// UpToDate is as for Changes; may be nil.
	UpToDate plan.UpToDate
	// Frozen keeps each child at its revision, because the parent is being deleted.
	Frozen bool
}

// Step is how far a rollout may go at once.
type Step struct {
	// Desired are the children to plan, in the order of the latest response.
	Desired []plan.Child
	// Claims are the claims left to each previous revision.
	Claims []Claims
	// Moved is how many children are moved to the latest revision now.
	Moved    int
	Progress Progress
	// Failed are the errors of expressions. Then a child counts as not ready, and a kind whose Pause failed as paused.
	Failed []error
}

// Step decides the desired state of each child.
func (r *Rollout) Step() (Step, error) {
	step := Step{Claims: make([]Claims, len(r.Previous))}
	for i := range step.Claims {
		step.Claims[i] = Claims{}
	}
	groups, candidates, err := r.groups()
	if err != nil {
		return Step{}, err
	}
	for _, group := range groups {
		if !r.Frozen {
			group.advance(r.Family.Parent, r.Observed)
		}
		step.Failed = append(step.Failed, group.failed()...)
	}
	for i, child := range r.Latest {
		c := candidates[i]
		if c == nil {
			step.Desired = append(step.Desired, child)
			continue
		}
		if c.previous >= 0 {
			step.Claims[c.previous][plan.KeyOf(child.Object)] = true
		}
		if wanted, known := c.desired(); known {
			step.Desired = append(step.Desired, wanted)
		}
		step.Moved += count(c.moved)
	}
	step.Progress = progressOf(groups)
	return step, nil
}

// groups returns a group for each rolling rule, in the order of the latest response. candidates has
// an item for each of r.Latest; nil if it is not rolled out.
func (r *Rollout) groups() (groups []*rolloutGroup, candidates []*candidate, err error) {
	observed := make(map[plan.Key]*object.Object, len(r.Observed))
	for _, o := range r.Observed {
		if r.Family.Controls(o) {
			observed[plan.KeyOf(o)] = o
		}
	}
	claims := r.claims()
	byKind := map[object.GroupKind]*rolloutGroup{}
	candidates = make([]*candidate, len(r.Latest))
	for i, child := range r.Latest {
		if !child.Rule.Method.Rolling() {
			continue
		}
		name := plan.KeyOf(child.Object)
		claim, claimed := claims[name]
		if !claimed {
			claim.previous = -1
		}
		candidates[i], err = r.candidate(child, observed[name], claim)
		if err != nil {
			return nil, nil, err
		}
		at := byKind[name.Kind]
		if at == nil {
			at = &rolloutGroup{max: max(child.Rule.MaxUnavailable, 1), pause: child.Rule.Pause}
			byKind[name.Kind] = at
			groups = append(groups, at)
		}
		at.candidates = append(at.candidates, candidates[i])
	}
	return groups, candidates, nil
}

// claim is a claim of a previous revision to a child.
type claim struct {
	previous int
	// child is the child it desires; nil if unknown.
	child *plan.Child
}

// claims returns the claims by child. If two revisions claim a child, because a user edited them, the later one wins.
func (r *Rollout) claims() map[plan.Key]claim {
	claims := map[plan.Key]claim{}
	for i, previous := range slices.Backward(r.Previous) {
		for name := range previous.Claims {
			claims[name] = claim{previous: i}
		}
		for at, child := range previous.Children {
			name := plan.KeyOf(child.Object)
			if previous.Claims[name] {
				claims[name] = claim{previous: i, child: &previous.Children[at]}
			}
		}
	}
	return claims
}
