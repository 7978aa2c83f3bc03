package handler

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// loadPreviousStates is the step that loads what handlers handled in an earlier process, if
// the object has changed since. It makes one request for such an object, and none for an
// unchanged one.
func (r *run) loadPreviousStates(ctx context.Context) error {
	if r.Phase != controller.PhaseManaged || r.memory.revisions.listed || !r.program.KeepsPreviousState() {
		return nil
	}
	if slices.ContainsFunc(r.memory.handlers, (*handlerMemory).lacksPreviousState) {
		return r.previousStateError(r.listRevisions(ctx))
	}
	return nil
}

// lacksPreviousState reports whether only a revision has the previous state.
func (m *handlerMemory) lacksPreviousState() bool {
	return m.KeepPreviousState && m.handled == nil && m.entry().HasRevision
}

// previousStateError returns the error of a failed list, or nil after reporting it: a rejected
// request is not worth a retry.
func (r *run) previousStateError(err error) error {
	if err == nil {
		return nil
	}
	if apply.Unreachable(err) {
		return failure.WithReason(ReasonReadFailed, err)
	}
	r.memory.revisions.listed = true
	r.reportPreviousState(ReasonPreviousStateLost, fmt.Errorf("previous state unknown: %w", err))
	return nil
}

// listRevisions lists, once, the revisions of an object and restores the states that handlers
// need. It makes no request if the record names no revision.
func (r *run) listRevisions(ctx context.Context) error {
	k := &r.memory.revisions
	if k.listed {
		return nil
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.storedState)), func(e entry) bool { return e.HasRevision }) {
		k.listed = true
		return nil
	}
	selector := fmt.Sprintf("%s=%s,%s=%s", objectLabel, r.Stored.UID(), annotationLabel, r.program.annotationName())
	found, err := r.writer().List(ctx, plan.ControllerRevisions, r.program.revisionNamespace(r.Stored), selector)
	if err != nil {
		return fmt.Errorf("list the revisions of %s: %w", r.Stored.Ref(), err)
	}
	k.listed = true
	for _, revision := range found {
		if revision.Deleting() {
			continue
		}
		if err := k.add(revision); err != nil {
			return err
		}
	}
	r.restorePreviousStates(found)
	return nil
}

// restorePreviousStates sets the handled states of handlers from revisions.
func (r *run) restorePreviousStates(found []*object.Object) {
	for _, h := range r.memory.handlers {
		if !h.lacksPreviousState() {
			continue
		}
		var err error
		if h.handled, err = r.previousStateIn(found, h.entry().Digest); err != nil {
			r.reportPreviousState(ReasonPreviousStateLost, fmt.Errorf("previous state of handler %s unknown: %w", h.title(), err))
		}
	}
}

// previousStateIn returns the object as an entry has seen it.
func (r *run) previousStateIn(found []*object.Object, seen string) (*object.Object, error) {
	name := r.program.revisionName(r.Stored.UID(), seen)
	i := slices.IndexFunc(found, func(revision *object.Object) bool { return revision.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("ControllerRevision %s was deleted", name)
	}
	part, sound := revisionState(found[i], seen)
	if !sound {
		return nil, fmt.Errorf("another client changed %s", found[i].Ref())
	}
	return previousObject(r.Stored, part)
}
