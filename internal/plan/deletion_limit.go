package plan

import (
	"encoding/json"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// DeletionLimit is above what the deletion guard holds deletions that nothing but a hook response explains.
type DeletionLimit struct {
	// MaxDeletions is how many deletions are always allowed.
	MaxDeletions int
	// MaxPercent is the share of all children that may be deleted beyond that.
	MaxPercent int
}

// DefaultDeletionLimit returns the limit of controllers that set none.
func DefaultDeletionLimit() *DeletionLimit {
	return &DeletionLimit{MaxDeletions: setpoint.DefaultMaxDeletions, MaxPercent: setpoint.DefaultMaxPercent}
}

// DeletionCount counts the deletions and children of a controller.
type DeletionCount struct {
	// Pending counts the deletions to make, Recent those made recently.
	Pending, Recent int
	// Children counts the children before the deletions.
	Children int
	// Holding means that deletions are held already. Then the share does not matter, because other writes change it.
	Holding bool
}

// Exceeded reports whether there are too many deletions.
func (g DeletionLimit) Exceeded(t DeletionCount) bool {
	n := t.Pending + t.Recent
	if t.Pending == 0 || n <= g.MaxDeletions {
		return false
	}
	return t.Holding || 100*n > g.MaxPercent*t.Children
}

// Removals returns the deletions that count for the deletion guard: those of children that are no
// longer desired. Recreated children do not count, nor do finished Pods and Jobs.
func (p Plan) Removals() []Action {
	return lists.Filter(p.Actions(), func(a Action) bool {
		return a.Verb == Delete && a.Reason == noLongerDesired && !isFinished(a.Before)
	})
}

// Without returns the plan without some of its deletions.
func (p Plan) Without(deletions []Action) Plan {
	return p.filter(func(a Action) bool {
		return a.Verb != Delete || !slices.ContainsFunc(deletions, func(d Action) bool { return a.Before == d.Before })
	})
}

func isFinished(o *object.Object) bool {
	switch o.GroupKind() {
	case object.GroupKind{Kind: "Pod"}:
		phase := string(o.Field("status", "phase"))
		return phase == `"Succeeded"` || phase == `"Failed"`
	case object.GroupKind{Group: "batch", Kind: "Job"}:
		var conditions []condition
		err := json.Unmarshal(o.Field("status", "conditions"), &conditions)
		return err == nil && slices.ContainsFunc(conditions, func(c condition) bool {
			return c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed")
		})
	}
	return false
}
