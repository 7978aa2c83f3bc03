package composite

import (
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// An update in the place of an apply is not enough for a child with a desired field that another manager owns
// too: the apply follows. So the next write of such a child is an apply at once. If the other manager no longer
// owns the field, that costs the API server more, but has the same result.

// noteOwners remembers that another manager owns a desired field of a child.
func (m *memory) noteOwners(result apply.Result) {
	if !result.CoOwned {
		return
	}
	if m.coOwned == nil {
		m.coOwned = map[uint64]bool{}
	}
	m.coOwned[childDigest(result.Updated)] = true
}

// skipUpdates removes the updates of co-owned children from a plan, which leaves their applies.
func (m *memory) skipUpdates(todo plan.Plan) {
	if len(m.coOwned) == 0 {
		return
	}
	for _, stage := range todo.Stages {
		for i := range stage {
			if stage[i].Update != nil && m.coOwned[childDigest(stage[i].Before)] {
				stage[i].Update = nil
			}
		}
	}
}
