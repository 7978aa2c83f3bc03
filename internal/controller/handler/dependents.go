package handler

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/served"
)

func (d *dependents) observe() {
	d.byKind = d.ownedObjects()
	d.now, d.stale = slices.Concat(d.byKind...), false
}

func (d *dependents) ownedObjects() [][]*object.Object {
	owned := d.OwnedBy(d.Stored)
	if d.dry != nil {
		for i, resource := range d.program.Owns {
			owned[i] = d.dry.Owned(resource, d.Stored.UID(), owned[i])
		}
	}
	return owned
}

// applyResponse deletes objects first, and then applies. It finds the objects to delete once.
func (d *dependents) applyResponse(ctx context.Context, o *trigger.Response) error {
	if o.Applied {
		return nil
	}
	if !o.Resolved {
		var all []trigger.Target
		for _, deletion := range o.Response.Delete {
			found, err := d.findTargets(ctx, deletion)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		o.Targets, o.Resolved = all, true
	}
	if err := d.deleteAll(ctx, o); err != nil {
		return err
	}
	for _, a := range o.Response.Apply[o.AppliedCount:] {
		if err := d.applyObject(ctx, a); err != nil {
			return err
		}
		o.AppliedCount++
	}
	o.Applied = true
	return nil
}

// applyObject applies one object. Ownership is checked only for owned kinds.
func (d *dependents) applyObject(ctx context.Context, a hook.AppliedObject) error {
	resource, desired, err := d.desiredObject(a)
	switch {
	case err != nil:
		return err
	case resource.Unserved && d.Stored.Deleting():
		d.Log.Debug("not applied: the kind is not served", "applied", desired.Ref().String())
		return nil
	case resource.Unserved:
		// No watch would show it: the next run would see it as deleted, which is drift.
		return fmt.Errorf("apply %s: %s: %w any more", desired.Ref(), resource, served.ErrNotServed)
	case d.isUnchanged(desired):
		return nil
	}
	// A view that covers the object knows whether it exists.
	var known *object.Object
	write, view := record.Write{Verb: string(plan.Apply), Object: desired.Ref()}, d.OwnedView(resource, desired)
	if view != nil {
		if known = view.Get(desired.Namespace(), desired.Name()); known == nil {
			write.Verb = string(plan.Create)
		}
	}
	began := d.Record.Now()
	stored, err := d.createOrApply(ctx, resource, desired, view != nil && d.isOwned(desired) && (known == nil || !d.isOwned(known)))
	write.Before, write.After, write.Err = known, stored, err
	d.Record.Wrote(began, resource, write)
	if apply.Terminating(err) {
		// The namespace accepts no new objects.
		d.Log.Debug("not applied: namespace is terminating", "applied", desired.Ref().String())
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", desired.Ref(), err)
	}
	d.noteWritten(resource, stored, stored)
	d.rememberApplied(desired, stored)
	d.Log.Debug("applied", "applied", desired.Ref().String(), "object", d.Stored.Ref().String())
	return nil
}

// createOrApply creates or applies an object. It creates an owned object unless a watch already has it: a POST costs
// the API server less than an apply, and fails if another owner has the name.
func (d *dependents) createOrApply(ctx context.Context, resource object.Resource, desired *object.Object,
	creates bool) (*object.Object, error) {
	if creates {
		stored, err := d.writer.Create(ctx, resource, desired, d.program.Manager)
		if !apply.AlreadyExists(err) {
			return stored, err
		}
		if err := d.checkOwnership(ctx, resource, desired); err != nil {
			return nil, err
		}
	}
	return d.writer.Apply(ctx, resource, desired, d.program.Manager)
}

// checkOwnership returns an error if the object exists and may not be taken over. It may if the handled object controls
// it, or if the program created it and another client removed the owner reference. Without this check, deleting the
// handled object would delete objects of others.
func (d *dependents) checkOwnership(ctx context.Context, resource object.Resource, desired *object.Object) error {
	existing, err := d.writer.Ownership(ctx, resource, desired.Namespace(), desired.Name())
	if err != nil {
		return fmt.Errorf("it already exists; read its owner: %w", err)
	}
	owner, owned := existing.Controller()
	switch {
	case d.isOwned(existing.Object):
		return nil
	case owned:
		return fmt.Errorf("it already exists and is owned by %s %s", owner.Kind, owner.Name)
	case slices.Contains(existing.Managers, d.program.Manager):
		return nil
	}
	return errors.New("it already exists and has no owner; delete it or use another name")
}

// desiredObject returns an object to apply, with the namespace and the owner reference added where they are missing.
func (d *dependents) desiredObject(a hook.AppliedObject) (resource object.Resource, desired *object.Object, err error) {
	given, err := object.Parse(a.Object)
	if err != nil {
		return resource, nil, err
	}
	if resource, err = d.permissions.ResourceToApply(d.Stored.Namespace(), given); err != nil {
		return resource, nil, err
	}
	text := given.Field("metadata")
	if text == nil {
		return resource, nil, fmt.Errorf("apply %s: metadata must be an object", given.Ref())
	}
	metadata := object.DecodeOrEmpty(text)
	plan.RemoveSystemFields(metadata) // A handler may return them with an object.
	delete(metadata, "namespace")
	namespace := permit.NamespaceFor(resource, d.Stored.Namespace(), given.Namespace())
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if !a.Unowned && (d.Stored.Namespace() == "" || d.Stored.Namespace() == namespace) {
		owners, _ := metadata["ownerReferences"].([]any)
		metadata["ownerReferences"] = append(plan.OtherOwners(owners, d.Stored.UID()), plan.OwnerReferenceTo(d.Stored))
	}
	if text, err = json.Marshal(metadata); err == nil {
		desired, err = given.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata"}, Value: text})
	}
	return resource, desired, err
}

func (d *dependents) isOwned(o *object.Object) bool { return o.ControlledBy(d.Stored.UID()) }

// findTargets returns the objects that a deletion matches and the program may delete. A named object without a permission is
// an error; a selector skips it.
func (d *dependents) findTargets(ctx context.Context, deletion hook.Deletion) ([]trigger.Target, error) {
	namespaceOf := func(p permit.Write) string {
		return permit.NamespaceFor(p.Resource, d.Stored.Namespace(), deletion.Namespace)
	}
	permissions := lists.Filter(d.permissions.Deleting(deletion), func(p permit.Write) bool {
		return p.AllowsNamespace(namespaceOf(p)) && !p.Resource.Unserved
	})
	if len(permissions) == 0 {
		return nil, nil
	}
	resource := permissions[0].Resource
	found, err := d.readTargets(ctx, permissions, deletion, namespaceOf(permissions[0]))
	if err != nil {
		return nil, err
	}
	permitted := lists.Filter(found, func(o *object.Object) bool {
		return slices.ContainsFunc(permissions, func(p permit.Write) bool { return p.AllowsDeletion(d.Stored, o) })
	})
	if len(found) > 0 && len(permitted) == 0 {
		return nil, permit.Undeclared(permit.DeletionVerb(deletion), true, deletion.APIVersion, deletion.Kind)
	}
	permitted = slices.DeleteFunc(permitted, (*object.Object).Deleting)
	return lists.Map(permitted, func(o *object.Object) trigger.Target {
		return trigger.Target{Resource: resource, Object: o, Evict: deletion.Evict, Selector: deletion.Selector}
	}), nil
}

// readTargets returns the objects that a deletion matches. The caches have those that are owned, if no other may be deleted.
func (d *dependents) readTargets(ctx context.Context, by []permit.Write, deletion hook.Deletion,
	namespace string) ([]*object.Object, error) {
	resource := by[0].Resource
	switch selector, err := labels.Parse(deletion.Selector); {
	case err != nil:
		return nil, err
	case deletion.Name != "":
		o, err := d.writer.Get(ctx, resource, namespace, deletion.Name)
		if apply.NotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %s before deleting it: %w", deletion.Kind, deletion.Name, err)
		}
		return []*object.Object{o}, nil
	case len(by) == 1 && by[0].Owned:
		owned := d.ownedObjects()[slices.Index(d.program.Owns, resource)]
		return lists.Filter(owned, func(o *object.Object) bool {
			return o.Namespace() == namespace && selector.Matches(o.Labels())
		}), nil
	}
	selector := deletion.Selector
	if len(by) == 1 && by[0].Labels != "" {
		selector += "," + by[0].Labels
	}
	found, err := d.writer.List(ctx, resource, namespace, selector)
	if err != nil {
		return nil, fmt.Errorf("list %s with %s before deleting them: %w", resource, selector, err)
	}
	return found, nil
}

// deleteAll deletes the targets and keeps those that failed. One failure does not stop the others.
func (d *dependents) deleteAll(ctx context.Context, o *trigger.Response) error {
	var left []trigger.Target
	var errs []error
	for _, t := range o.Targets {
		if err := d.deleteTarget(ctx, t); err != nil {
			left, errs = append(left, t), append(errs, err)
		}
	}
	o.Targets = left
	for _, err := range errs {
		if !errors.Is(err, errEvictionRefused) {
			return err
		}
	}
	return errors.Join(errs...)
}

func (d *dependents) deleteTarget(ctx context.Context, t trigger.Target) error {
	if d.dry != nil && t.Selector != "" {
		defer d.dry.Explain("matches " + t.Selector)
	}
	began, write := d.Record.Now(), record.Write{Verb: string(plan.Delete), Before: t.Object}
	if t.Evict {
		write = record.Write{Verb: string(plan.Evict), Object: t.Object.Ref(), Err: d.writer.Evict(ctx, t.Resource, t.Object)}
	} else {
		write.After, write.Err = d.writer.Delete(ctx, t.Resource, t.Object)
	}
	d.Record.Wrote(began, t.Resource, write)
	switch err := write.Err; {
	case t.Evict && apply.TooManyRequests(err):
		return fmt.Errorf("evict %s: %w", t.Object.Ref(), errEvictionRefused)
	case d.isReplaced(ctx, t, err):
		return nil
	case err != nil:
		return fmt.Errorf("%s %s: %w", write.Verb, t.Object.Ref(), err)
	case t.Evict:
		d.Log.Info("evicted", "evicted", t.Object.Ref().String(), "object", d.Stored.Ref().String())
		return nil
	}
	d.noteWritten(t.Resource, t.Object, write.After)
	d.Log.Info("deleted", "deleted", t.Object.Ref().String(), "object", d.Stored.Ref().String())
	return nil
}

var errEvictionRefused = errors.New("a PodDisruptionBudget allows no more evictions now")

// isReplaced reports whether a deletion has failed because a new object has the name, which was not selected. A
// conflict alone does not say so: admission webhooks and proxies return it for other reasons.
func (d *dependents) isReplaced(ctx context.Context, t trigger.Target, err error) bool {
	if !apply.Conflict(err) {
		return false
	}
	now, err := d.writer.Get(ctx, t.Resource, t.Object.Namespace(), t.Object.Name())
	return apply.NotFound(err) || err == nil && now.UID() != t.Object.UID()
}

// appliedNameLength is the length of a short name of an applied object in the record.
const appliedNameLength = 6

// appliedName returns the short name of an object: a hash, because only its equality matters.
func appliedName(o *object.Object) string {
	sum := sha256.Sum256([]byte(o.Ref().String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:appliedNameLength]
}

// findApplied asks the API server whose the owned objects are of which that is not known: the connection may have ended
// before the response to a create, and Setpoint before the record of it was stored.
func (d *dependents) findApplied(ctx context.Context) error {
	names := d.memory.applied.names
	if d.Phase != controller.PhaseManaged || names == nil {
		return nil
	}
	for i, resource := range d.program.Owns {
		for _, o := range d.byKind[i] {
			if _, known := names[appliedName(o)]; known {
				continue
			}
			existing, err := d.writer.Ownership(ctx, resource, o.Namespace(), o.Name())
			switch {
			case apply.NotFound(err):
			case apply.Forbidden(err): // A program may watch what it may not get. It can go on without.
				names[appliedName(o)] = false
			case err != nil:
				return fmt.Errorf("read who applied %s: %w", o.Ref(), err)
			default:
				names[appliedName(o)] = slices.Contains(existing.Managers, d.program.Manager)
			}
		}
	}
	return nil
}

// drifting returns the digest of the owned objects that responses applied, and their short names as the record has them;
// both are empty without Drift handlers. A drift is a change, by another client, of one of them: what another program, a
// composite or a decorator has made for the object is not.
func (d *dependents) drifting() (digest, names string) {
	if d.memory.applied.names == nil {
		return "", ""
	}
	present := lists.Filter(d.now, func(o *object.Object) bool { return d.memory.applied.names[appliedName(o)] })
	short := slices.Sorted(slices.Values(lists.Map(present, appliedName)))
	return d.pass.DigestOwned(present), strings.Join(slices.Compact(short), "")
}

func (d *dependents) ownedDigest() string {
	digest, _ := d.drifting()
	return digest
}

// isUnchanged reports whether an object needs no apply, because neither the desired nor the stored object has changed:
// a timer without changes sends no requests. A manual reconcile always applies.
func (d *dependents) isUnchanged(desired *object.Object) bool {
	at := slices.IndexFunc(d.now, func(o *object.Object) bool { return o.Ref() == desired.Ref() })
	return at >= 0 && slices.Contains(d.memory.applied.digests, appliedDigests{object.DigestOf(desired.JSON()), d.now[at].Digest()}) &&
		!d.pass.RetriesWrites()
}

// noteWritten updates the caches, and what is owned, after a write of an object; stored is nil if it is gone.
func (d *dependents) noteWritten(resource object.Resource, o, stored *object.Object) {
	d.ObserveResult(resource, o, stored)
	if !slices.Contains(d.program.Owns, resource) {
		return
	}
	d.stale, d.written = true, true
	owned, names := stored != nil && d.isOwned(stored), d.memory.applied.names
	delete(names, appliedName(o))
	d.now = slices.DeleteFunc(d.now, func(other *object.Object) bool { return other.Ref() == o.Ref() })
	if owned {
		d.now = append(d.now, stored)
		if names != nil {
			names[appliedName(o)] = true
		}
	}
}

func (d *dependents) rememberApplied(desired, stored *object.Object) {
	if !d.isOwned(stored) {
		return
	}
	exists := make(map[uint64]bool, len(d.now))
	for _, o := range d.now {
		exists[o.Digest()] = true
	}
	all := slices.DeleteFunc(d.memory.applied.digests, func(l appliedDigests) bool { return !exists[l.stored] })
	all = append(all, appliedDigests{object.DigestOf(desired.JSON()), stored.Digest()})
	d.memory.applied.digests = all
}
