package react

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hold is the step that puts the finalizer on an object before a handler first
// hears of it: from then on it cannot go without those that are told of that.
func (r *run) hold(ctx context.Context) error {
	if r.stance != handling || r.stored.Deleting() || r.program.holds(r.stored) || !r.program.needsHold(r.stored) {
		return nil
	}
	metadata := precondition(r.stored, true)
	metadata["finalizers"] = append(r.stored.Finalizers(), r.program.Finalizer)
	err := r.send(ctx, map[string]any{"metadata": metadata})
	switch {
	case err == nil:
		r.survey()
		return nil
	case errors.Is(err, errMoved), apply.Gone(err):
		return errMoved
	}
	return failure.New(ReasonWriteFailed, fmt.Errorf("add the finalizer: %w", err))
}

// releases says whether the object is to be kept no longer: nobody needs it kept,
// or it is being deleted and all that have to are done with it.
func (r *run) releases(carried []*owed) bool {
	if !r.program.holds(r.stored) || r.working() {
		return false
	}
	if !r.program.needsHold(r.stored) {
		return true
	}
	if !r.stored.Deleting() {
		return false
	}
	known := r.known()
	for i := range r.program.Handlers {
		h := &r.program.Handlers[i]
		waits := h.on(hook.ReasonDelete) && h.cares(nil, r.stored)
		if waits && (!known[h.Name].Done || r.memory.owes(i, carried)) {
			return false
		}
	}
	return true
}

// unfinalized is the patch by which the finalizer goes from this version of the
// object.
func (p *Program) unfinalized(o *object.Object) map[string]any {
	metadata := precondition(o, true)
	metadata["finalizers"] = without(o.Finalizers(), p.Finalizer)
	return map[string]any{"metadata": metadata}
}

// without are the names but one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(other string) bool { return other == name })
}
