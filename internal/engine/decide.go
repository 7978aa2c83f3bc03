package engine

import (
	"errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// decide is the step that turns the reply into a plan, and lays the reply's
// status over the parent. The reply is checked whole before any of it counts.
func (r *run) decide() (plan.Plan, error) {
	desired, err := r.family.Desired(r.reply.Children)
	if err != nil {
		return plan.Plan{}, hookFailure(malformed(err))
	}
	laid, err := plan.Status(r.parent, r.program.Parent, r.reply.Status)
	if err != nil {
		return plan.Plan{}, hookFailure(&hook.MalformedError{Path: "status", Err: err})
	}
	r.parent = laid
	if r.stored.Deleting() {
		// What a parent leaves behind is the garbage collector's to take.
		return plan.Plan{}, nil
	}
	todo, err := r.family.Changes(r.observed(), desired, r.memory.agreed)
	if err != nil {
		return plan.Plan{}, hookFailure(malformed(err))
	}
	return todo, nil
}

// malformed makes an error of the plan the hook's: it gave the reply.
func malformed(err error) error {
	if reply, ok := errors.AsType[*plan.ReplyError](err); ok {
		return &hook.MalformedError{Path: reply.Path, Err: errors.New(reply.Problem)}
	}
	return &hook.MalformedError{Err: err}
}
