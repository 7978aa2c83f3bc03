package react

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
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// foreign are members of metadata that are the system's: who hands back what was
// shown has no say in them.
var foreign = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// apply applies one object. One of a kind that the program does not own is applied
// whoever made it.
func (h *hands) apply(ctx context.Context, a hook.Applied) error {
	resource, wanted, err := h.wanted(a)
	if err != nil {
		return err
	}
	if h.lies != nil && h.lies(wanted) {
		return nil
	}
	began, write := h.account.Now(), h.written(resource, wanted)
	stored, err := h.bring(ctx, resource, wanted)
	write.After, write.Err = stored, err
	h.account.Wrote(began, write)
	if tolerable(err) {
		h.log.Debug("not applied, for its namespace is going away", "applied", wanted.Ref().String())
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", wanted.Ref(), err)
	}
	h.noted(resource, stored)
	if h.left != nil {
		h.left(wanted, stored)
	}
	h.log.Debug("applied", "applied", wanted.Ref().String(), "object", h.object.Ref().String())
	return nil
}

// written is the write of an object, as far as it is known before.
func (h *hands) written(resource object.Resource, wanted *object.Object) trace.Write {
	known, watched := h.known(resource, wanted)
	w := trace.Write{Verb: plan.Apply, Resource: resource, Ref: wanted.Ref(), Before: known}
	if watched && known == nil {
		w.Verb = plan.Create
	}
	return w
}

// bring brings an object in line. What is to belong to the handled object, and is of
// a kind that is watched, is created unless it belongs to it already: a POST costs the
// API server less than an apply, and says so if the name is somebody else's.
func (h *hands) bring(ctx context.Context, resource object.Resource, wanted *object.Object) (*object.Object, error) {
	writer, manager := h.tools.Writer, h.program.Manager
	known, watched := h.known(resource, wanted)
	if !watched || !h.isOwned(wanted) || known != nil && h.isOwned(known) {
		return writer.Apply(ctx, resource, wanted, manager)
	}
	stored, err := writer.CreateFor(ctx, resource, wanted, manager)
	if !apply.Exists(err) {
		return stored, err
	}
	if err := h.mayTake(ctx, resource, wanted); err != nil {
		return nil, err
	}
	return writer.Apply(ctx, resource, wanted, manager)
}

// mayTake says why an object is not to be taken that is there and was not known to
// belong to the handled one. It may if it does, or if the program made it and
// somebody took the owner from it; who deletes the handled object would delete
// anybody else's with it.
func (h *hands) mayTake(ctx context.Context, resource object.Resource, wanted *object.Object) error {
	live, err := h.tools.Writer.Standing(ctx, resource, wanted.Namespace(), wanted.Name())
	if err != nil {
		return fmt.Errorf("it exists; read whose it is: %w", err)
	}
	owner, owned := live.Controller()
	switch {
	case h.isOwned(live.Object):
		return nil
	case owned:
		return fmt.Errorf("it exists and belongs to %s %s", owner.Kind, owner.Name)
	case slices.Contains(live.Managers, h.program.Manager):
		return nil
	}
	return errors.New("it exists and belongs to nobody; delete it, or give one of the two another name")
}

// known is an object as it is watched; nil if there is none of its name, and not
// watched if that would mean nothing.
func (c *Controller) known(resource object.Resource, o *object.Object) (known *object.Object, watched bool) {
	for _, kind := range c.owned {
		at := slices.IndexFunc(kind.namespaces, func(namespace string) bool { return namespace == "" || namespace == o.Namespace() })
		if kind.resource == resource && at >= 0 {
			return kind.views[at].Get(o.Namespace(), o.Name()), true
		}
	}
	return nil, false
}

// wanted is an object as it is to be applied, and its kind.
func (h *hands) wanted(a hook.Applied) (object.Resource, *object.Object, error) {
	given, err := object.Parse(a.Object)
	if err != nil {
		return object.Resource{}, nil, err
	}
	resource, err := h.program.mayApply(h.object.Namespace(), given)
	if err != nil {
		return object.Resource{}, nil, err
	}
	wanted, err := h.dressed(resource, given, a.Unowned)
	return resource, wanted, err
}

// dressed is an object to apply with all that it does not say itself: where it
// lies, and whose it is.
func (h *hands) dressed(resource object.Resource, given *object.Object, unowned bool) (*object.Object, error) {
	text := given.Field("metadata")
	if text == nil {
		return nil, fmt.Errorf("apply %s: metadata must be an object", given.Ref())
	}
	metadata := tree(text)
	for _, name := range foreign {
		delete(metadata, name)
	}
	delete(metadata, "namespace")
	place := placeIn(resource, h.object.Namespace(), given.Namespace())
	if place != "" {
		metadata["namespace"] = place
	}
	if !unowned && (h.object.Namespace() == "" || h.object.Namespace() == place) {
		owners, _ := metadata["ownerReferences"].([]any)
		metadata["ownerReferences"] = append(others(owners, h.object.UID()), ownerOf(h.object))
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	return given.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata"}, Value: text})
}

// others are the owners but one.
func others(owners []any, uid string) []any {
	var kept []any
	for _, owner := range owners {
		if members, isObject := owner.(map[string]any); !isObject || members["uid"] != uid {
			kept = append(kept, owner)
		}
	}
	return kept
}

// ownerOf is the reference to an object as the controlling owner.
func ownerOf(o *object.Object) map[string]any {
	return map[string]any{
		"apiVersion": o.APIVersion(), "kind": o.Kind(), "name": o.Name(), "uid": o.UID(),
		"controller": true, "blockOwnerDeletion": true,
	}
}

// isOwned says whether an object is controlled by the handled one.
func (h *hands) isOwned(o *object.Object) bool { return o.ControlledBy(h.object.UID()) }
