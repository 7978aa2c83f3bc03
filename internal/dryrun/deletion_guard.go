package dryrun

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// heldReason is why deletions would not be made.
const heldReason = "the deletion guard holds it, with the others that were looked at, until a person confirms"

// markRemovals marks the changes that the deletion guard counts.
func (o *Object) markRemovals(removals []plan.Action) {
	for i := range o.Changes {
		c := &o.Changes[i]
		c.removal = slices.ContainsFunc(removals, func(a plan.Action) bool {
			return c.Action == string(plan.Delete) && changeOf(a).Ref == c.Ref
		})
	}
}

// holdDeletions says of deletions that they would be held, if all that were looked at are too
// many.
func (c *Controller) holdDeletions(r *manager.DryRun) {
	all := 0
	for i := range c.Objects {
		for _, change := range c.Objects[i].Changes {
			all += countIf(change.removal)
		}
	}
	if !r.ExceedsDeletionGuard(all) {
		return
	}
	for i := range c.Objects {
		c.Objects[i].holdDeletions()
	}
}

// holdDeletions says of the object that its deletions are held, which its conditions say, too.
func (o *Object) holdDeletions() {
	for i := range o.Changes {
		if change := &o.Changes[i]; change.removal {
			change.Held, o.Fields = heldReason, o.held
		}
	}
}
