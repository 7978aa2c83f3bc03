package plan

import (
	"encoding/json"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// DeletionLimit is the limit above which deletions are held that nothing but a hook's
// response explains.
type DeletionLimit struct {
	// MaxDeletions is how many are never held.
	MaxDeletions int
	// MaxPercent is the share of all children of a controller above which they
	// are.
	MaxPercent int
}

// DefaultDeletionLimit is the limit of a controller that does not set one.
func DefaultDeletionLimit() *DeletionLimit {
	return &DeletionLimit{MaxDeletions: setpoint.DefaultMaxDeletions, MaxPercent: setpoint.DefaultMaxPercent}
}

// DeletionCount is what a controller wants to delete, and what there is.
type DeletionCount struct {
	// Pending are deletions to be made, Made those that were made lately.
	Pending, Recent int
	// Children is how many there were before.
	Children int
	// Holding says that deletions are held already. Their share does not matter any
	// more: what else is written meanwhile changes it.
	Holding bool
}

// Exceeded says that the deletions of a tally are too many.
func (g DeletionLimit) Exceeded(t DeletionCount) bool {
	n := t.Pending + t.Recent
	if t.Pending == 0 || n <= g.MaxDeletions {
		return false
	}
	return t.Holding || 100*n > g.MaxPercent*t.Children
}

// Removals are the deletions of a plan which a guard counts: of children that are
// not desired any more. A child that is created anew is not one of them, nor is a
// Pod or a Job that has finished.
func (p Plan) Removals() []Action {
	var counted []Action
	for _, stage := range p.Stages {
		for _, a := range stage {
			if isRemoval(a) {
				counted = append(counted, a)
			}
		}
	}
	return counted
}

// Without is the plan without some of its deletions.
func (p Plan) Without(deletions []Action) Plan {
	rest := Plan{Equal: p.Equal}
	for _, stage := range p.Stages {
		kept := slices.DeleteFunc(slices.Clone(stage), func(a Action) bool {
			return slices.ContainsFunc(deletions, func(d Action) bool { return a.Verb == Delete && a.Before == d.Before })
		})
		if len(kept) > 0 {
			rest.Stages = append(rest.Stages, kept)
		}
	}
	return rest
}

func isRemoval(a Action) bool {
	return a.Verb == Delete && a.Reason == noLongerDesired && !isFinished(a.Before)
}

// isFinished says that a Pod or a Job has done its work, or has given up.
func isFinished(o *object.Object) bool {
	switch o.GroupKind() {
	case object.GroupKind{Kind: "Pod"}:
		phase := string(o.Field("status", "phase"))
		return phase == `"Succeeded"` || phase == `"Failed"`
	case object.GroupKind{Group: "batch", Kind: "Job"}:
		return jobFinished(o.Field("status", "conditions"))
	}
	return false
}

// jobFinished says that among the conditions of a Job is one of those it ends with.
func jobFinished(list []byte) bool {
	var conditions []struct{ Type, Status string }
	if json.Unmarshal(list, &conditions) != nil {
		return false
	}
	for _, c := range conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			return true
		}
	}
	return false
}
