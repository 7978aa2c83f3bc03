package handle

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
	if p.HandledStatusKey != "" {
		if r := readHandledState(o, p.statusPath()...); len(r) > 0 {
			return p.withCurrentNames(r)
		}
	}
	return p.withCurrentNames(readHandledState(o, p.annotationPath()...))
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

func (p *Program) statusPath() []string {
	return []string{"status", HandledStatusField, p.HandledStatusKey}
}
func (p *Program) annotationPath() []string {
	return []string{"metadata", "annotations", p.HandledAnnotation}
}

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
		status = object.CombinePatches(status, map[string]any{HandledStatusField: map[string]any{r.program.HandledStatusKey: text}})
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

// storeCleanup removes the finalizer, and a record in an annotation, once the record is stored
// in the status.
func (r *run) storeCleanup(ctx context.Context, applied []*pendingResponse) error {
	metadata := map[string]any{}
	former := r.Stored.Field(r.program.annotationPath()...) != nil
	if former && len(readHandledState(r.Stored, r.program.statusPath()...)) > 0 {
		metadata["annotations"] = map[string]any{r.program.HandledAnnotation: nil}
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
