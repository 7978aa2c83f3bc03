package handle

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// HandledStatusField is the member of a status that keeps records, by the names of their
// controllers, where the schema of the kind has it. A request for the status cannot
// change an annotation, nor the other way round: who keeps the record in the status
// makes one request where others make two.
const HandledStatusField = "setpointHandledBy"

// handledStateOf reads the record of an object. One in an annotation counts where there is
// none in the status, such as that of a former release.
func (p *Program) handledStateOf(o *object.Object) handledState {
	if p.HandledStatusKey != "" {
		if r := readHandledState(o, p.statusPath()...); len(r) > 0 {
			return r
		}
	}
	return readHandledState(o, p.annotationPath()...)
}

func (p *Program) statusPath() []string {
	return []string{"status", HandledStatusField, p.HandledStatusKey}
}
func (p *Program) annotationPath() []string {
	return []string{"metadata", "annotations", p.HandledAnnotation}
}

// storesStateInStatus says that the record goes with the status.
func (c *Controller) storesStateInStatus() bool {
	return c.program.HandledStatusKey != "" && c.program.Resource.Status && !c.pruned.Load()
}

// storeStateWithStatus writes what carried answers say of the object and then, with the
// record, its status.
func (r *run) storeStateWithStatus(ctx context.Context, applied []*pendingResponse, d objectWrite) error {
	patch := r.contentPatch(applied)
	if patch != nil {
		if err := r.patchObject(ctx, combinePatches(patch, map[string]any{"metadata": precondition(r.stored, d.checkVersion)})); err != nil {
			return err
		}
	}
	status := r.statusPatch(applied)
	checkVersion := len(status) > 0
	text, differs := r.stateText(applied)
	differs = differs && !r.removesLastFinalizer(applied)
	if differs {
		status = combinePatches(status, map[string]any{HandledStatusField: map[string]any{r.program.HandledStatusKey: text}})
	}
	var err error
	if d.status, err = r.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && r.stored.Field(r.program.statusPath()...) == nil {
		r.pruned.Store(true)
		r.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", r.stored.Ref().String(), "field", "status."+HandledStatusField)
		return r.storeObject(ctx, applied, d)
	}
	if err := r.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// removesLastFinalizer says that the object goes with our finalizer: no record of it is needed.
func (r *run) removesLastFinalizer(applied []*pendingResponse) bool {
	return r.stored.Deleting() && len(r.stored.Finalizers()) == 1 && r.removesFinalizer(applied)
}

// storeCleanup takes from the object what is of no use any more, once the record is
// stored: the finalizer, and a record in an annotation.
func (r *run) storeCleanup(ctx context.Context, applied []*pendingResponse) error {
	metadata := map[string]any{}
	former := r.stored.Field(r.program.annotationPath()...) != nil
	if former && len(readHandledState(r.stored, r.program.statusPath()...)) > 0 {
		metadata["annotations"] = map[string]any{r.program.HandledAnnotation: nil}
	}
	released := r.removesFinalizer(applied)
	if released {
		metadata["finalizers"] = without(r.stored.Finalizers(), r.program.Finalizer)
	}
	if len(metadata) == 0 {
		return nil
	}
	return r.patchObject(ctx, map[string]any{"metadata": combinePatches(metadata, precondition(r.stored, released))})
}
