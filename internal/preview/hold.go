package preview

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// held is why deletions would not be made.
const held = "the deletion guard holds it, with the others that were looked at, until a person confirms"

// count marks the changes that the deletion guard counts.
func (o *Object) count(removals []plan.Action) {
	for i := range o.Changes {
		c := &o.Changes[i]
		c.removal = slices.ContainsFunc(removals, func(a plan.Action) bool {
			return c.Action == string(plan.Delete) && changeOf(a).Ref == c.Ref
		})
	}
}

// hold says of deletions that they would be held, if all that were looked at are too
// many.
func (c *Controller) hold(r *host.Rehearsal) {
	var all []*Change
	for i := range c.Objects {
		for j := range c.Objects[i].Changes {
			if change := &c.Objects[i].Changes[j]; change.removal {
				all = append(all, change)
			}
		}
	}
	if !r.Exceeded(len(all)) {
		return
	}
	for _, change := range all {
		change.Held = held
	}
}
