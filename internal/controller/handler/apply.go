package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// systemFields are the fields of metadata that the API server sets. A handler may return them
// with an object, so apply removes them.
var systemFields = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// applyObject applies one object. Ownership is checked only for owned kinds.
func (r *run) applyObject(ctx context.Context, a hook.AppliedObject) error {
	resource, desired, err := r.desiredObject(a)
	switch {
	case err != nil:
		return err
	case resource.Unserved && r.Stored.Deleting():
		r.Log.Debug("not applied: the kind is not served", "applied", desired.Ref().String())
		return nil
	case resource.Unserved:
		// No watch would show it: the next run would see it as deleted, which is drift.
		return fmt.Errorf("apply %s: %s: %w any more", desired.Ref(), resource, served.ErrNotServed)
	case r.isUnchanged(desired):
		return nil
	}
	began, write := r.Record.Now(), r.newWrite(resource, desired)
	stored, err := r.createOrApply(ctx, resource, desired)
	write.After, write.Err = stored, err
	r.Record.Wrote(began, write)
	if apply.Terminating(err) {
		// The namespace accepts no new objects.
		r.Log.Debug("not applied: namespace is terminating", "applied", desired.Ref().String())
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", desired.Ref(), err)
	}
	r.noteWritten(resource, stored)
	r.rememberApplied(desired, stored)
	r.Log.Debug("applied", "applied", desired.Ref().String(), "object", r.Stored.Ref().String())
	return nil
}

// newWrite returns the record of a write, as far as it is known before the write.
func (r *run) newWrite(resource object.Resource, desired *object.Object) record.Write {
	known, watched := r.watchedObject(resource, desired)
	w := record.Write{Verb: plan.Apply, Resource: resource, Ref: desired.Ref(), Before: known}
	if watched && known == nil {
		w.Verb = plan.Create
	}
	return w
}

// createOrApply creates or applies an object. It creates an owned object unless a watch
// already has it: a POST costs the API server less than an apply, and fails if another owner
// has the name.
func (r *run) createOrApply(ctx context.Context, resource object.Resource, desired *object.Object) (*object.Object, error) {
	writer, manager := r.writer(), r.program.Manager
	known, watched := r.watchedObject(resource, desired)
	if !watched || !r.isOwned(desired) || known != nil && r.isOwned(known) {
		return writer.Apply(ctx, resource, desired, manager)
	}
	stored, err := writer.CreateFor(ctx, resource, desired, manager)
	if !apply.AlreadyExists(err) {
		return stored, err
	}
	if err := r.checkOwnership(ctx, resource, desired); err != nil {
		return nil, err
	}
	return writer.Apply(ctx, resource, desired, manager)
}

// checkOwnership returns an error if the object exists and may not be taken over. It may if
// the handled object controls it, or if the program created it and another client removed the
// owner reference. Without this check, deleting the handled object would delete objects of
// others.
func (r *run) checkOwnership(ctx context.Context, resource object.Resource, desired *object.Object) error {
	existing, err := r.writer().Ownership(ctx, resource, desired.Namespace(), desired.Name())
	if err != nil {
		return fmt.Errorf("it already exists; read its owner: %w", err)
	}
	owner, owned := existing.Controller()
	switch {
	case r.isOwned(existing.Object):
		return nil
	case owned:
		return fmt.Errorf("it already exists and is owned by %s %s", owner.Kind, owner.Name)
	case slices.Contains(existing.Managers, r.program.Manager):
		return nil
	}
	return errors.New("it already exists and has no owner; delete it or use another name")
}

// watchedObject returns an object from the watches, or nil. watched is false if the watches do
// not cover it, so that nil means nothing.
func (c *Controller) watchedObject(resource object.Resource, o *object.Object) (known *object.Object, watched bool) {
	for _, w := range c.owned {
		if w.Covers(resource, o) {
			return w.View.Get(o.Namespace(), o.Name()), true
		}
	}
	return nil, false
}

// desiredObject returns an object in the form to apply, and its kind.
func (r *run) desiredObject(a hook.AppliedObject) (object.Resource, *object.Object, error) {
	given, err := object.Parse(a.Object)
	if err != nil {
		return object.Resource{}, nil, err
	}
	resource, err := r.program.resourceToApply(r.Stored.Namespace(), given)
	if err != nil {
		return object.Resource{}, nil, err
	}
	desired, err := r.withOwner(resource, given, a.Unowned)
	return resource, desired, err
}

// withOwner returns an object with the namespace and the owner reference added where they are
// missing.
func (r *run) withOwner(resource object.Resource, given *object.Object, unowned bool) (*object.Object, error) {
	text := given.Field("metadata")
	if text == nil {
		return nil, fmt.Errorf("apply %s: metadata must be an object", given.Ref())
	}
	metadata := decodeObject(text)
	for _, name := range systemFields {
		delete(metadata, name)
	}
	delete(metadata, "namespace")
	namespace := namespaceFor(resource, r.Stored.Namespace(), given.Namespace())
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if !unowned && (r.Stored.Namespace() == "" || r.Stored.Namespace() == namespace) {
		owners, _ := metadata["ownerReferences"].([]any)
		metadata["ownerReferences"] = append(withoutOwner(owners, r.Stored.UID()), plan.OwnerReferenceTo(r.Stored))
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	return given.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata"}, Value: text})
}

// withoutOwner returns the owner references without those to one UID.
func withoutOwner(owners []any, uid string) []any {
	var kept []any
	for _, owner := range owners {
		if members, isObject := owner.(map[string]any); !isObject || members["uid"] != uid {
			kept = append(kept, owner)
		}
	}
	return kept
}

// isOwned reports whether the handled object controls an object.
func (r *run) isOwned(o *object.Object) bool { return o.ControlledBy(r.Stored.UID()) }
