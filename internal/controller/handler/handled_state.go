package handler

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// storesStateInStatus reports whether the record is stored in the status.
func (c *Controller) storesStateInStatus() bool {
	return c.program.HandledStatusKey != "" && c.program.Resource.Status && !c.pruned.Load()
}

// storeStateWithStatus writes the responses' changes of the object, and then its status with
// the record.
func (r *run) storeStateWithStatus(ctx context.Context, applied []*trigger.Response, d objectWrite) error {
	patch := r.contentPatch(applied)
	if patch != nil {
		if err := r.patchObject(ctx, patch, d.checkVersion); err != nil {
			return err
		}
	}
	status := r.statusPatch(applied)
	checkVersion := len(status) > 0
	text, differs := r.stateText(applied)
	// Removing our finalizer as the last one deletes the object, which needs no record then.
	deletes := r.Stored.Deleting() && len(r.Stored.Finalizers()) == 1 && !r.waitsForDaemon() && r.pass.Releases(applied)
	if differs = differs && !deletes; differs {
		_, records := lasthandled.Removal(r.Stored, r.program.FormerRecords)
		records = object.CombinePatches(records, map[string]any{r.program.HandledStatusKey: text})
		status = object.CombinePatches(status, map[string]any{lasthandled.StatusField: records})
	}
	var err error
	if d.status, err = r.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && r.Stored.Field(r.rules.Record.InStatus()...) == nil {
		r.pruned.Store(true)
		r.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", r.Stored.Ref().String(), "field", "status."+lasthandled.StatusField)
		return r.storeObject(ctx, applied, d)
	}
	if err := r.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// storeCleanup removes the finalizer, and records in annotations, once the record is stored
// in the status.
func (r *run) storeCleanup(ctx context.Context, applied []*trigger.Response) error {
	metadata := map[string]any{}
	if len(r.rules.Record.ReadStatus(r.Stored)) > 0 {
		annotations, _ := lasthandled.Removal(r.Stored, r.program.FormerRecords)
		if r.Stored.Field(r.rules.Record.InAnnotation()...) != nil {
			annotations = object.CombinePatches(annotations, map[string]any{r.program.HandledAnnotation: nil})
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
	}
	remaining, released := r.pass.RemainingFinalizers(applied, r.waitsForDaemon())
	if released {
		metadata["finalizers"] = remaining
	}
	if len(metadata) == 0 {
		return nil
	}
	return r.patchObject(ctx, map[string]any{"metadata": metadata}, released)
}

// notePruned notes and reports the fields of the status that the API server did not store although responses have set
// them. What another response sets or removes since is its matter.
func (r *run) notePruned(applied []*trigger.Response) {
	want := r.memory.prunedStatus
	for _, o := range applied {
		if o.Response.Status != nil {
			want = object.CombinePatches(want, object.DecodeOrEmpty(o.Response.Status))
		}
	}
	if want == nil || r.detached {
		return
	}
	delete(want, lasthandled.StatusField)
	missing, field := object.Missing(want, object.DecodeOrEmpty(r.Stored.Field(statusPart)))
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
	if r.memory.prunedStatus == nil || r.memory.prunedNext.After(r.tools.Now()) && !r.pass.RetriesCalls() {
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

// removalsResetAfter is how long a record must stay until earlier removals do not count any
// more.
const removalsResetAfter = time.Minute

// noteStateRemoval schedules the write of the record: at once, but later with each removal.
func (r *run) noteStateRemoval() {
	now, losses := r.tools.Now(), &r.memory.stateRemovals
	if now.Sub(losses.Since) > removalsResetAfter {
		losses.Count = 0
	}
	losses.Since = now
	if losses.Count > 0 {
		losses.Next = now.Add(trigger.Backoff(losses.Count, trigger.FirstDelay, trigger.LongestDelay, r.tools.Queue.Random))
	}
	losses.Count++
	r.Log.Info("another client removed the handled state; writing it again", "object", r.Stored.Ref().String())
}
