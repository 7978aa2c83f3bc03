package plan

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// NonRolling is the method for one child whose turn it is.
func (m UpdateMethod) NonRolling() UpdateMethod {
	switch m {
	case RollingRecreate:
		return Recreate
	case RollingInPlace:
		return InPlace
	}
	return m
}

// Rolling says that the children of some rule are taken one after the other.
func (r Rules) Rolling() bool {
	return slices.ContainsFunc(r, func(rule Rule) bool { return rule.Method.Rolling() })
}

// Rollout is what the revisions of a parent want, and what there is.
//
// Each child is as its own revision wants it, at once. Only when a child of a
// rule with a rolling method is to go over to the latest revision does it wait
// for its turn: one that is well is moved while fewer than MaxUnavailable
// children of its rule are not, whichever revision they follow; one that is not
// well already costs nothing, and is moved while fewer than that of those that
// follow the latest are not. So a revision that does not work stops at the first
// child, and one that mends what is broken begins there.
type Rollout struct {
	Family   *Planner
	Observed []*object.Object
	// Latest are the children the latest revision wants. What nobody claims
	// follows it.
	Latest []Child
	// Former are the former revisions, in the order of a History.
	Former []Former
	// UpToDate as for Changes; may be nil.
	UpToDate UpToDate
	// Frozen leaves each child at its revision: the parent is going away.
	Frozen bool
}

// Former is a former revision and the children it wants.
type Former struct {
	Claims Claims
	// Children are nil where they are not known: what is there stays as it is.
	Children []Child
}

// Step is how far a rollout may go at once.
type Step struct {
	// Desired are the children to plan for, in the order of the latest reply.
	Desired []Child
	// Claims are what each former revision still claims.
	Claims []Claims
	// Moved is how many children go over to the latest revision now. When they
	// are there, and well, there is room for the next.
	Moved int
	// Progress says how far it is.
	Progress Progress
}

// Step decides which children may be written to, and what each is to be.
func (r *Rollout) Step() (Step, error) {
	step := Step{Claims: make([]Claims, len(r.Former))}
	for i := range step.Claims {
		step.Claims[i] = Claims{}
	}
	lines, candidates, err := r.groups()
	if err != nil {
		return Step{}, err
	}
	for _, line := range lines {
		if !r.Frozen {
			line.advance()
		}
	}
	for i, child := range r.Latest {
		c := candidates[i]
		if c == nil {
			step.Desired = append(step.Desired, child)
			continue
		}
		if c.former >= 0 {
			step.Claims[c.former][idOf(child.Object)] = true
		}
		if wanted, known := c.desired(); known {
			step.Desired = append(step.Desired, wanted)
		}
		step.Moved += count(c.moved)
	}
	step.Progress = progressOf(lines)
	return step, nil
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// groups makes a line of the children of each rolling rule, in the order of the
// latest reply. candidates has an item for each of r.Latest; nil for a child that
// is not rolled out.
func (r *Rollout) groups() (lines []*rolloutGroup, candidates []*candidate, err error) {
	observed := make(map[id]*object.Object, len(r.Observed))
	for _, o := range r.Observed {
		if r.Family.controls(o) {
			observed[idOf(o)] = o
		}
	}
	claims := r.claims()
	byKind := map[object.GroupKind]*rolloutGroup{}
	candidates = make([]*candidate, len(r.Latest))
	for i, child := range r.Latest {
		if !child.Rule.Method.Rolling() {
			continue
		}
		name := idOf(child.Object)
		claim, claimed := claims[name]
		if !claimed {
			claim.former = -1
		}
		candidates[i], err = r.candidate(child, observed[name], claim)
		if err != nil {
			return nil, nil, err
		}
		at := byKind[name.kind]
		if at == nil {
			at = &rolloutGroup{max: max(child.Rule.MaxUnavailable, 1)}
			byKind[name.kind] = at
			lines = append(lines, at)
		}
		at.candidates = append(at.candidates, candidates[i])
	}
	return lines, candidates, nil
}

// claim is what a former revision wants of a child that it claims.
type claim struct {
	former int
	// child is nil if that is not known.
	child *Child
}

// claims are by child. Where two revisions claim one, which is so only if
// somebody wrote into them, it is the later one's.
func (r *Rollout) claims() map[id]claim {
	claims := map[id]claim{}
	for i, former := range slices.Backward(r.Former) {
		for name := range former.Claims {
			claims[name] = claim{former: i}
		}
		for at, child := range former.Children {
			name := idOf(child.Object)
			if former.Claims[name] {
				claims[name] = claim{former: i, child: &former.Children[at]}
			}
		}
	}
	return claims
}
