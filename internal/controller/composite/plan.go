package composite

import (
	"cmp"
	"fmt"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// buildPlan plans the children of the response and applies its status to the parent. It validates
// the whole response first.
func (r *run) buildPlan() (plan.Plan, error) {
	desired, ignored, err := r.planner.Desired(r.response.Children)
	if err != nil {
		return plan.Plan{}, hookFailure(r.hookName(), plan.Malformed(err))
	}
	r.warnIgnored(ignored)
	desired = r.withoutUnserved(desired)
	if desired, err = r.planRollout(desired); err != nil {
		return plan.Plan{}, err
	}
	overlaid, err := r.overlayResponse()
	if err != nil {
		return plan.Plan{}, hookFailure(r.hookName(), &hook.MalformedError{Path: "status", Err: err})
	}
	var todo plan.Plan
	if !r.leavesChildren() {
		if todo, err = r.planner.Changes(r.observed(), desired, r.memory.upToDate.contains); err != nil {
			return plan.Plan{}, hookFailure(r.hookName(), plan.Malformed(err))
		}
	}
	r.parent = overlaid
	r.noteHookConditions()
	return todo, nil
}

// warnIgnored adds a warning event for each part of the response that is ignored.
func (r *run) warnIgnored(ignored []plan.Ignored) {
	for _, part := range ignored {
		reason := ReasonNamespaceIgnored
		if part.Undeclared != (object.GroupKind{}) {
			reason = ReasonChildUndeclared
		}
		r.response.Events = append(slices.Clone(r.response.Events), hook.Event{Type: controller.Warning, Reason: reason,
			Message: part.Path + ": ignored: " + part.Problem})
	}
}

// withoutUnserved leaves out desired children of kinds that are not served any more. They make the run fail once
// the others are as desired, but not in a deletion, which must not wait for them.
func (r *run) withoutUnserved(desired []plan.Child) []plan.Child {
	r.unservedErr = nil
	return slices.DeleteFunc(desired, func(child plan.Child) bool {
		if child.Rule.Resource.Unserved && r.Phase != controller.PhaseFinalizing {
			r.unservedErr = failure.WithReason(setpoint.ReasonResourceNotFound,
				fmt.Errorf("%s: %s: %w any more; all other children are up to date",
					child.Object.Ref(), child.Rule.Resource, served.ErrNotServed))
		}
		return child.Rule.Resource.Unserved
	})
}

// leavesChildren reports whether the children of a deleted parent belong to the garbage collector:
// there is no finalize hook, or the user chose foreground or orphan deletion.
func (r *run) leavesChildren() bool {
	return r.Stored.Deleting() && (r.Phase != controller.PhaseFinalizing || slices.ContainsFunc(r.Stored.Finalizers(), isGCFinalizer))
}

// isGCFinalizer reports whether the garbage collector owns a finalizer.
func isGCFinalizer(name string) bool { return name == "foregroundDeletion" || name == "orphan" }

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

// upToDateChild says that a child in an observed state matches a desired object. child is a digest
// of its UID.
type upToDateChild struct{ child, observed, desired uint64 }

// upToDateChildren are those of one parent, sorted by child. They have no pointers, to keep them
// cheap for the garbage collector.
type upToDateChildren []upToDateChild

func childDigest(o *object.Object) uint64 { return object.DigestOf([]byte(o.UID())) }

func (a upToDateChildren) find(child uint64) (int, bool) {
	return slices.BinarySearchFunc(a, child, func(one upToDateChild, child uint64) int { return cmp.Compare(one.child, child) })
}

// add stores that a child matches the desired object.
func (a *upToDateChildren) add(stored *object.Object, desired uint64) {
	now := upToDateChild{child: childDigest(stored), observed: contentDigest(stored), desired: desired}
	at, found := a.find(now.child)
	if found {
		(*a)[at] = now
		return
	}
	*a = slices.Insert(*a, at, now)
}

// contains reports whether that was stored.
func (a upToDateChildren) contains(observed *object.Object, desired uint64) bool {
	at, found := a.find(childDigest(observed))
	return found && a[at].observed == contentDigest(observed) && a[at].desired == desired
}

// grow allocates space once.
func (a *upToDateChildren) grow(children int) {
	if cap(*a) < children {
		*a = append(make(upToDateChildren, 0, children), *a...)
	}
}

// prune drops children that no longer exist.
func (a *upToDateChildren) prune(present map[uint64]bool) {
	*a = slices.DeleteFunc(*a, func(one upToDateChild) bool { return !present[one.child] })
}

// contentDigest returns a digest of what desired objects can set. For kinds with generations it
// does not include the status.
func contentDigest(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return o.IntentDigest()
	}
	return o.Digest()
}

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
