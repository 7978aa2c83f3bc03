package handler

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// notePruned notes and reports the fields of the status that the API server did not store although responses have set
// them. What another response sets or removes since is its matter.
func (r *run) notePruned(applied []*pendingResponse) {
	want := r.memory.prunedStatus
	for _, o := range applied {
		if o.response.Status != nil {
			want = object.CombinePatches(want, decodeObject(o.response.Status))
		}
	}
	if want == nil || r.detached {
		return
	}
	delete(want, HandledStatusField)
	missing, field := object.Missing(want, decodeObject(r.Stored.Field(statusPart)))
	r.memory.prunedStatus = missing
	if missing != nil && r.memory.prunedNext.IsZero() {
		r.memory.prunedNext = r.tools.Now().Add(controller.PrunedRetry)
	}
	if missing == nil {
		r.memory.prunedNext = time.Time{}
	}
	r.ReportPruned(field)
}

// retryPruned writes the fields of the status again that the API server did not store, in case that the schema of the
// kind has them now: no handler is called for that.
func (r *run) retryPruned(ctx context.Context) error {
	if r.memory.prunedStatus == nil || r.memory.prunedNext.After(r.tools.Now()) && !r.retriesCalls() {
		return nil
	}
	r.memory.prunedNext = r.tools.Now().Add(controller.PrunedRetry)
	var err error
	if r.program.Resource.Status {
		_, err = r.storeStatus(ctx, r.memory.prunedStatus, true)
	} else {
		err = r.patchObject(ctx, map[string]any{statusPart: r.memory.prunedStatus}, true)
	}
	if err != nil {
		return r.writeError(ctx, err)
	}
	r.notePruned(nil)
	return r.refresh(ctx)
}
