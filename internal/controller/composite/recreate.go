package composite

import (
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// noteRecreation notes that a child was deleted to be created again, or created after that. The request changes
// several times until the new child is ready, such as that of a slow Pod.
func (r *run) noteRecreation(result apply.Result) {
	ref := result.Action.Ref.Identity()
	deleted := result.Action.Verb == plan.Delete && result.Action.DryRunVerb != "" && (result.Stored == nil || result.Stored.Deleting())
	created := result.Action.Verb == plan.Create && r.memory.recreating[ref]
	if !deleted && !created {
		return
	}
	if r.recreated == nil {
		r.recreated = map[object.Ref]int{}
	}
	if created {
		delete(r.memory.recreating, ref)
		r.recreated[ref] = max(r.recreated[ref], 1)
		return
	}
	if r.memory.recreating == nil {
		r.memory.recreating = map[object.Ref]bool{}
	}
	r.memory.recreating[ref] = true
	r.recreated[ref]++
}

// onlyRecreates reports whether the run has recreated children, each once: the responses may differ until they are
// ready. A child that is recreated again is one about which they conflict.
func (r *run) onlyRecreates() bool {
	for _, times := range r.recreated {
		if times > 1 {
			return false
		}
	}
	return len(r.recreated) > 0
}
