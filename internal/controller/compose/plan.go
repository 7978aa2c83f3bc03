package compose

import (
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// buildPlan is the step that turns the reply into a plan, and lays the reply's
// status over the parent. The reply is checked whole before any of it counts.
func (r *run) buildPlan() (plan.Plan, error) {
	desired, err := r.planner.Desired(r.response.Children)
	if err != nil {
		return plan.Plan{}, hookFailure(r.hookName(), malformedError(err))
	}
	r.warnIgnoredNamespaces(desired)
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
			return plan.Plan{}, hookFailure(r.hookName(), malformedError(err))
		}
	}
	r.parent = overlaid
	r.noteHookConditions()
	return todo, nil
}

// warnIgnoredNamespaces puts a warning of each namespace that was ignored among the events of
// the response, which are recorded when they are other than those before.
func (r *run) warnIgnoredNamespaces(desired []plan.Child) {
	for _, child := range desired {
		if child.IgnoredNamespace != "" {
			r.response.Events = append(slices.Clone(r.response.Events), hook.Event{Type: warning, Reason: ReasonNamespaceIgnored,
				Message: child.IgnoredNamespace + ": ignored: " + child.Rule.Resource.Kind + " is cluster-scoped and has no namespace"})
		}
	}
}

// leavesChildren says that the children of a parent which is going away are not to be
// touched: without a finalize hook they are the garbage collector's to take, and
// it has them in hand when the user said how they should go.
func (r *run) leavesChildren() bool {
	return r.stored.Deleting() && (r.phase != phaseFinalizing || slices.ContainsFunc(r.stored.Finalizers(), isGCFinalizer))
}

// isGCFinalizer says whether a finalizer is one of the garbage collector's.
func isGCFinalizer(name string) bool { return name == "foregroundDeletion" || name == "orphan" }

// malformedError makes an error of the plan the hook's: it gave the reply.
func malformedError(err error) error {
	if response, ok := errors.AsType[*plan.ResponseError](err); ok {
		return &hook.MalformedError{Path: response.Path, Err: errors.New(response.Problem)}
	}
	return &hook.MalformedError{Err: err}
}
