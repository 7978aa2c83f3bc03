package react

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// storeStatus patches the status, if that makes another one of it. With exact,
// nobody may have written to the object meanwhile. It returns the status as it was to
// be, nil if nothing was written.
func (r *run) storeStatus(ctx context.Context, patch map[string]any, exact bool) (map[string]any, error) {
	if len(patch) == 0 {
		return nil, nil //nolint:nilnil // Nothing was to be.
	}
	have := tree(r.stored.Field("status"))
	want := merged(have, patch)
	if reflect.DeepEqual(have, want) {
		return nil, nil //nolint:nilnil // Nothing was to be.
	}
	body, err := json.Marshal(map[string]any{"metadata": precondition(r.stored, exact), "status": patch})
	if err != nil {
		return nil, err
	}
	began := r.account.Now()
	stored, err := r.tools.Writer.PatchStatus(ctx, r.program.Resource, r.stored, body)
	r.account.Wrote(began, trace.Write{Verb: trace.Patch, Resource: r.program.Resource, Part: "status", Before: r.stored, After: stored, Err: err})
	if err != nil {
		return nil, r.refused("store the status of", err)
	}
	r.goOnWith(stored)
	return want, nil
}

// precondition has the server write to this object only, or to this version of it.
func precondition(o *object.Object, exact bool) map[string]any {
	metadata := map[string]any{"uid": o.UID()}
	if exact {
		metadata["resourceVersion"] = o.ResourceVersion()
	}
	return metadata
}

// refused says what became of a write of the object.
func (r *run) refused(what string, err error) error {
	if apply.Conflict(err) {
		return errMoved
	}
	return fmt.Errorf("%s %s: %w", what, r.stored.Ref(), err)
}

// goOnWith takes what is stored now for the object.
func (r *run) goOnWith(stored *object.Object) {
	r.wrote(r.program.Resource, stored)
	r.stored, r.written, r.stale = stored, true, true
	if r.writing != nil {
		r.writing.base = stored
	}
	if !r.aside {
		r.memory.versions = append(r.memory.versions, stored.Version())
		r.memory.versions = r.memory.versions[max(0, len(r.memory.versions)-maxNews):]
	}
}

// statusPatch is what answers change in the status, one after the other, and what
// there is to say of the handlers themselves.
func (r *run) statusPatch(carried []*owed) map[string]any {
	var patch map[string]any
	var conditions []hook.Condition
	for _, o := range carried {
		if o.answer.Status != nil {
			patch = combined(patch, tree(o.answer.Status))
			// Who writes a status whole has no say in what is kept there.
			delete(patch, StatusRecords)
		}
		if o.answer.Message != "" && r.program.Resource.Custom {
			patch = combined(patch, map[string]any{"message": o.answer.Message})
		}
		conditions = append(conditions, o.answer.Conditions...)
	}
	if own, says := r.condition(); says {
		conditions = append(conditions, own)
	}
	if len(conditions) == 0 {
		return patch
	}
	list, given := patch["conditions"].([]any)
	if !given {
		list, _ = tree(r.stored.Field("status"))["conditions"].([]any)
	}
	return combined(patch, map[string]any{
		"conditions": plan.Conditions(list, conditions, r.stored.Generation(), r.tools.Now()),
	})
}
