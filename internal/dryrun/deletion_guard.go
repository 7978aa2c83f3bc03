package dryrun

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/plan"
)

// heldReason says why deletions would be held.
const heldReason = "the deletion guard holds it until a user confirms it"

// markRemovals marks the deletions that count for the deletion guard.
func (o *Object) markRemovals(removals []plan.Action) {
	for i := range o.Changes {
		c := &o.Changes[i]
		c.removal = slices.ContainsFunc(removals, func(a plan.Action) bool {
			return c.Action == string(plan.Delete) && changeOf(a).Ref == c.Ref
		})
	}
}

// holdDeletions marks deletions as held if there are too many in total.
func (c *Controller) holdDeletions(r *run) {
	all := 0
	for i := range c.Objects {
		for _, change := range c.Objects[i].Changes {
			if change.removal {
				all++
			}
		}
	}
	if !r.exceedsDeletionGuard(all) {
		return
	}
	for i := range c.Objects {
		c.Objects[i].holdDeletions()
	}
}

// holdDeletions marks the deletions of the object as held, and shows its status for that case.
func (o *Object) holdDeletions() {
	for i := range o.Changes {
		if change := &o.Changes[i]; change.removal {
			change.Held, o.Fields = heldReason, o.held
		}
	}
}
