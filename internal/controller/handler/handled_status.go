package handler

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// HandledStatusField is the field of the status that has the records by controller name, if
// the schema of the kind has the field. A status request cannot change annotations, nor the
// other way round, so a record in the status saves one of two requests.
const HandledStatusField = "setpointHandledBy"

// handledStateOf reads the record of an object. It falls back to the annotation, which an
// earlier release may have written.
func (p *Program) handledStateOf(o *object.Object) handledState {
	state := readRecord(o, FormerRecord{p.HandledAnnotation, p.HandledStatusKey})
	for _, former := range p.FormerRecords {
		state.takeOver(readRecord(o, former))
	}
	return p.withCurrentNames(state)
}

// readRecord reads a record from the status, else from the annotation.
func readRecord(o *object.Object, from FormerRecord) handledState {
	if from.StatusKey != "" {
		if state := readHandledState(o, statusPath(from.StatusKey)...); len(state) > 0 {
			return state
		}
	}
	return readHandledState(o, annotationPath(from.Annotation)...)
}

// takeOver adds the entries of a former record. Revisions of its states have other names, so that
// they are not found again.
func (r handledState) takeOver(former handledState) {
	for name, e := range former {
		if _, own := r[name]; !own {
			e.HasRevision = false
			r[name] = e
		}
	}
}

// removedRecords returns patches of the annotations and of the records in the status that remove
// those of former controllers; nil for none.
func (p *Program) removedRecords(o *object.Object) (annotations, status map[string]any) {
	for _, former := range p.FormerRecords {
		// A copy of another object's record is left: what copied it would do so again.
		if len(readHandledState(o, annotationPath(former.Annotation)...)) > 0 {
			annotations = object.CombinePatches(annotations, map[string]any{former.Annotation: nil})
		}
		if former.StatusKey != "" && o.Field(statusPath(former.StatusKey)...) != nil {
			status = object.CombinePatches(status, map[string]any{former.StatusKey: nil})
		}
	}
	return annotations, status
}

// withCurrentNames renames the entries of renamed handlers. The next write of the record stores
// the new names.
func (p *Program) withCurrentNames(state handledState) handledState {
	for i := range p.Handlers {
		h := &p.Handlers[i]
		for _, former := range h.FormerNames {
			e, recorded := state[former]
			if _, renamed := state[h.Name]; recorded && !renamed {
				state[h.Name] = e
			}
			delete(state, former)
		}
	}
	return state
}

func (p *Program) statusPath() []string     { return statusPath(p.HandledStatusKey) }
func (p *Program) annotationPath() []string { return annotationPath(p.HandledAnnotation) }

func statusPath(key string) []string      { return []string{"status", HandledStatusField, key} }
func annotationPath(name string) []string { return []string{"metadata", "annotations", name} }

// storesStateInStatus reports whether the record is stored in the status.
func (c *Controller) storesStateInStatus() bool {
	return c.program.HandledStatusKey != "" && c.program.Resource.Status && !c.pruned.Load()
}

// storeStateWithStatus writes the responses' changes of the object, and then its status with
// the record.
func (r *run) storeStateWithStatus(ctx context.Context, applied []*pendingResponse, d objectWrite) error {
	patch := r.contentPatch(applied)
	if patch != nil {
		if err := r.patchObject(ctx, patch, d.checkVersion); err != nil {
			return err
		}
	}
	status := r.statusPatch(applied)
	checkVersion := len(status) > 0
	text, differs := r.stateText(applied)
	differs = differs && !r.removesLastFinalizer(applied)
	if differs {
		_, records := r.program.removedRecords(r.Stored)
		records = object.CombinePatches(records, map[string]any{r.program.HandledStatusKey: text})
		status = object.CombinePatches(status, map[string]any{HandledStatusField: records})
	}
	var err error
	if d.status, err = r.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && r.Stored.Field(r.program.statusPath()...) == nil {
		r.pruned.Store(true)
		r.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", r.Stored.Ref().String(), "field", "status."+HandledStatusField)
		return r.storeObject(ctx, applied, d)
	}
	if err := r.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// removesLastFinalizer reports whether removing our finalizer deletes the object, which needs
// no record then.
func (r *run) removesLastFinalizer(applied []*pendingResponse) bool {
	return r.Stored.Deleting() && len(r.Stored.Finalizers()) == 1 && r.removesFinalizer(applied)
}

// storeCleanup removes the finalizer, and records in annotations, once the record is stored
// in the status.
func (r *run) storeCleanup(ctx context.Context, applied []*pendingResponse) error {
	metadata := map[string]any{}
	if len(readHandledState(r.Stored, r.program.statusPath()...)) > 0 {
		annotations, _ := r.program.removedRecords(r.Stored)
		if r.Stored.Field(r.program.annotationPath()...) != nil {
			annotations = object.CombinePatches(annotations, map[string]any{r.program.HandledAnnotation: nil})
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
	}
	remaining, released := r.remainingFinalizers(applied)
	if released {
		metadata["finalizers"] = remaining
	}
	if len(metadata) == 0 {
		return nil
	}
	return r.patchObject(ctx, map[string]any{"metadata": metadata}, released)
}
