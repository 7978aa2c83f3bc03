package composite

import (
	"errors"
	"fmt"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
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
		return plan.Plan{}, hookFailure(r.hookName(), malformedError(err))
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
			return plan.Plan{}, hookFailure(r.hookName(), malformedError(err))
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

// malformedError makes an error of the plan one of the hook, whose response caused it.
func malformedError(err error) error {
	if response, ok := errors.AsType[*plan.ResponseError](err); ok {
		return &hook.MalformedError{Path: response.Path, Err: errors.New(response.Problem)}
	}
	return &hook.MalformedError{Err: err}
}
