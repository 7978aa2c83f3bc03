package engine

import (
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// decide is the step that turns the reply into a plan, and lays the reply's
// status over the parent. The reply is checked whole before any of it counts.
func (r *run) decide() (plan.Plan, error) {
	desired, err := r.family.Desired(r.reply.Children)
	if err != nil {
		return plan.Plan{}, hookFailure(r.asks(), malformed(err))
	}
	r.warnOfStrays(desired)
	if desired, err = r.revise(desired); err != nil {
		return plan.Plan{}, err
	}
	laid, err := r.laid()
	if err != nil {
		return plan.Plan{}, hookFailure(r.asks(), &hook.MalformedError{Path: "status", Err: err})
	}
	var todo plan.Plan
	if !r.handsOff() {
		if todo, err = r.family.Changes(r.observed(), desired, r.memory.settled.hold); err != nil {
			return plan.Plan{}, hookFailure(r.asks(), malformed(err))
		}
	}
	r.parent = laid
	r.author()
	return todo, nil
}

// warnOfStrays puts a warning of each namespace that was ignored among the events of
// the response, which are recorded when they are other than those before.
func (r *run) warnOfStrays(desired []plan.Child) {
	for _, child := range desired {
		if child.Stray != "" {
			r.reply.Events = append(slices.Clone(r.reply.Events), hook.Event{Type: warning, Reason: ReasonNamespaceIgnored,
				Message: child.Stray + ": ignored: " + child.Rule.Resource.Kind + " is cluster-scoped and has no namespace"})
		}
	}
}

// handsOff says that the children of a parent which is going away are not to be
// touched: without a finalize hook they are the garbage collector's to take, and
// it has them in hand when the user said how they should go.
func (r *run) handsOff() bool {
	return r.stored.Deleting() && (r.stance != finalizing || slices.ContainsFunc(r.stored.Finalizers(), collectors))
}

// collectors says whether a finalizer is one of the garbage collector's.
func collectors(name string) bool { return name == "foregroundDeletion" || name == "orphan" }

// malformed makes an error of the plan the hook's: it gave the reply.
func malformed(err error) error {
	if reply, ok := errors.AsType[*plan.ReplyError](err); ok {
		return &hook.MalformedError{Path: reply.Path, Err: errors.New(reply.Problem)}
	}
	return &hook.MalformedError{Err: err}
}
