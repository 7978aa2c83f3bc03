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
func (w *objectWriter) storeStateWithStatus(ctx context.Context, applied []*trigger.Response, d objectWrite) error {
	patch := w.contentPatch(applied)
	if patch != nil {
		if err := w.patchObject(ctx, patch, d.checkVersion); err != nil {
			return err
		}
	}
	status := w.statusPatch(applied)
	checkVersion := len(status) > 0
	text, differs := w.stateText(applied)
	// Removing our finalizer as the last one deletes the object, which needs no record then.
	deletes := w.Stored.Deleting() && len(w.Stored.Finalizers()) == 1 && !w.waitsForDaemon() && w.pass.Releases(applied)
	if differs = differs && !deletes; differs {
		_, records := lasthandled.Removal(w.Stored, w.program.FormerRecords)
		records = object.CombinePatches(records, map[string]any{w.program.HandledStatusKey: text})
		status = object.CombinePatches(status, map[string]any{lasthandled.StatusField: records})
	}
	var err error
	if d.status, err = w.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && w.Stored.Field(w.rules.Record.InStatus()...) == nil {
		w.pruned.Store(true)
		w.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", w.Stored.Ref().String(), "field", "status."+lasthandled.StatusField)
		return w.storeObject(ctx, applied, d)
	}
	if err := w.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return w.recognizeServerChanges(applied, d, patch)
}

// storeCleanup removes the finalizer, and records in annotations, once the record is stored
// in the status.
func (w *objectWriter) storeCleanup(ctx context.Context, applied []*trigger.Response) error {
	metadata := map[string]any{}
	if len(w.rules.Record.ReadStatus(w.Stored)) > 0 {
		annotations, _ := lasthandled.Removal(w.Stored, w.program.FormerRecords)
		if w.Stored.Field(w.rules.Record.InAnnotation()...) != nil {
			annotations = object.CombinePatches(annotations, map[string]any{w.program.HandledAnnotation: nil})
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
	}
	remaining, released := w.pass.RemainingFinalizers(applied, w.waitsForDaemon())
	if released {
		metadata["finalizers"] = remaining
	}
	if len(metadata) == 0 {
		return nil
	}
	return w.patchObject(ctx, map[string]any{"metadata": metadata}, released)
}

// notePruned notes and reports the fields of the status that the API server did not store although responses have set
// them. What another response sets or removes since is its matter.
func (w *objectWriter) notePruned(applied []*trigger.Response) {
	want := w.memory.prunedStatus
	for _, o := range applied {
		if o.Response.Status != nil {
			want = object.CombinePatches(want, object.DecodeOrEmpty(o.Response.Status))
		}
	}
	if want == nil || w.memory == nil {
		return
	}
	delete(want, lasthandled.StatusField)
	missing, field := object.Missing(want, object.DecodeOrEmpty(w.Stored.Field(statusPart)))
	w.memory.prunedStatus = missing
	if missing != nil && w.memory.prunedNext.IsZero() {
		w.memory.prunedNext = w.tools.Now().Add(controller.PrunedRetry)
	}
	if missing == nil {
		w.memory.prunedNext = time.Time{}
	}
	w.ReportPruned(field)
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
		_, err = r.object.storeStatus(ctx, r.memory.prunedStatus, true)
	} else {
		err = r.object.patchObject(ctx, map[string]any{statusPart: r.memory.prunedStatus}, true)
	}
	if err != nil {
		return r.writeError(ctx, err)
	}
	r.object.notePruned(nil)
	return r.refresh(ctx)
}

// removalsResetAfter is how long a record must stay until earlier removals do not count any
// more.
const removalsResetAfter = time.Minute

// noteStateRemoval schedules the write of the record: at once, but later with each removal.
func (m *memory) noteStateRemoval(now time.Time, random func() float64) {
	losses := &m.stateRemovals
	if now.Sub(losses.Since) > removalsResetAfter {
		losses.Count = 0
	}
	losses.Since = now
	if losses.Count > 0 {
		losses.Next = now.Add(trigger.Backoff(losses.Count, trigger.FirstDelay, trigger.LongestDelay, random))
	}
	losses.Count++
}
