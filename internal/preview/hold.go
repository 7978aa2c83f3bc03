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
	all := 0
	for i := range c.Objects {
		for _, change := range c.Objects[i].Changes {
			all += count(change.removal)
		}
	}
	if !r.Exceeded(all) {
		return
	}
	for i := range c.Objects {
		c.Objects[i].hold()
	}
}

// hold says of the object that its deletions are held, which its conditions say, too.
func (o *Object) hold() {
	for i := range o.Changes {
		if change := &o.Changes[i]; change.removal {
			change.Held, o.Fields = held, o.held
		}
	}
}
