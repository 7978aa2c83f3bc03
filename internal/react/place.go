package react

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// StatusRecords is the member of a status that keeps records, by the names of their
// controllers, where the schema of the kind has it. A request for the status cannot
// change an annotation, nor the other way round: who keeps the record in the status
// makes one request where others make two.
const StatusRecords = "setpointHandledBy"

// recordOf reads the record of an object. One in an annotation counts where there is
// none in the status, such as that of a former release.
func (p *Program) recordOf(o *object.Object) record {
	if p.StatusRecord != "" {
		if r := readRecord(o, p.inStatus()...); len(r) > 0 {
			return r
		}
	}
	return readRecord(o, p.inAnnotations()...)
}

func (p *Program) inStatus() []string      { return []string{"status", StatusRecords, p.StatusRecord} }
func (p *Program) inAnnotations() []string { return []string{"metadata", "annotations", p.Record} }

// keepsInStatus says that the record goes with the status.
func (c *Controller) keepsInStatus() bool {
	return c.program.StatusRecord != "" && c.program.Resource.Status && !c.pruned.Load()
}

// storeWithStatus writes what carried answers say of the object and then, with the
// record, its status.
func (r *run) storeWithStatus(ctx context.Context, carried []*owed, d draft) error {
	patch := r.contentPatch(carried)
	if patch != nil {
		if err := r.send(ctx, combined(patch, map[string]any{"metadata": precondition(r.stored, d.exact)})); err != nil {
			return err
		}
	}
	status := r.statusPatch(carried)
	exact := len(status) > 0
	text, differs := r.recordText(carried)
	differs = differs && !r.ends(carried)
	if differs {
		status = combined(status, map[string]any{StatusRecords: map[string]any{r.program.StatusRecord: text}})
	}
	var err error
	if d.status, err = r.storeStatus(ctx, status, exact); err != nil {
		return err
	}
	if differs && text != nil && r.stored.Field(r.program.inStatus()...) == nil {
		r.pruned.Store(true)
		r.log.Warn("the status does not keep what was handled, for the schema does not have the field; an annotation does",
			"object", r.stored.Ref().String(), "field", "status."+StatusRecords)
		return r.storeObject(ctx, carried, d)
	}
	if err := r.storeRest(ctx, carried); err != nil {
		return err
	}
	return r.recogniseStored(carried, d, patch)
}

// ends says that the object goes with our finalizer: no record of it is needed.
func (r *run) ends(carried []*owed) bool {
	return r.stored.Deleting() && len(r.stored.Finalizers()) == 1 && r.releases(carried)
}

// storeRest takes from the object what is of no use any more, once the record is
// stored: the finalizer, and a record in an annotation.
func (r *run) storeRest(ctx context.Context, carried []*owed) error {
	metadata := map[string]any{}
	former := r.stored.Field(r.program.inAnnotations()...) != nil
	if former && len(readRecord(r.stored, r.program.inStatus()...)) > 0 {
		metadata["annotations"] = map[string]any{r.program.Record: nil}
	}
	released := r.releases(carried)
	if released {
		metadata["finalizers"] = without(r.stored.Finalizers(), r.program.Finalizer)
	}
	if len(metadata) == 0 {
		return nil
	}
	return r.send(ctx, map[string]any{"metadata": combined(metadata, precondition(r.stored, released))})
}
