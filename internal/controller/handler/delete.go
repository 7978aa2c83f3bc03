package handler

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// target is one object to delete.
type target struct {
	resource object.Resource
	object   *object.Object
	evict    bool
	// selector is the selector of the response that matches the object; empty for a deletion
	// by name.
	selector string
}

// resolveDeletions finds, once, the objects that a response deletes.
func (r *run) resolveDeletions(ctx context.Context, o *pendingResponse) error {
	if o.resolved {
		return nil
	}
	var all []target
	for _, d := range o.response.Delete {
		found, err := r.findTargets(ctx, d)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	o.targets, o.resolved = all, true
	return nil
}

// findTargets returns the objects that a deletion matches and the program may delete, each
// once.
func (r *run) findTargets(ctx context.Context, d hook.Deletion) ([]target, error) {
	var targets []target
	seen := map[string]bool{}
	for _, p := range r.program.deletePermissions(d) {
		namespace := namespaceFor(p.Resource, r.Stored.Namespace(), d.Namespace)
		if !p.allowsNamespace(namespace) || p.Resource.Unserved {
			continue
		}
		objects, err := r.readTargets(ctx, p, d, namespace)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if !seen[o.UID()] && !o.Deleting() {
				seen[o.UID()] = true
				targets = append(targets, target{p.Resource, o, d.Evict, d.Selector})
			}
		}
	}
	return targets, nil
}

// readTargets returns the objects that a deletion matches and one permission covers. A named
// object without a permission is an error; a selector skips it.
func (r *run) readTargets(ctx context.Context, p permission, d hook.Deletion, namespace string) ([]*object.Object, error) {
	if d.Name == "" {
		return r.listTargets(ctx, p, d, namespace)
	}
	o, err := r.writer().Get(ctx, p.Resource, namespace, d.Name)
	switch {
	case apply.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s before deleting it: %w", d.Kind, d.Name, err)
	case p.allows(r.Stored, o):
		return []*object.Object{o}, nil
	}
	for _, other := range r.program.deletePermissions(d) {
		if other.allowsNamespace(namespace) && other.allows(r.Stored, o) {
			return nil, nil
		}
	}
	return nil, undeclared(deletionVerb(d), true, d.APIVersion, d.Kind)
}

// listTargets returns the objects that a deletion selects.
func (r *run) listTargets(ctx context.Context, p permission, d hook.Deletion, namespace string) ([]*object.Object, error) {
	if !p.owned {
		selector := d.Selector
		if p.Labels != "" {
			selector += "," + p.Labels
		}
		found, err := r.writer().List(ctx, p.Resource, namespace, selector)
		if err != nil {
			return nil, fmt.Errorf("list %s with %s before deleting them: %w", p.Resource, selector, err)
		}
		return found, nil
	}
	selector, err := labels.Parse(d.Selector)
	if err != nil {
		return nil, err
	}
	var found []*object.Object
	for i, kind := range r.program.Owns {
		if kind != p.Resource {
			continue
		}
		for _, o := range r.ownedObjects()[i] {
			if o.Namespace() == namespace && selector.Matches(o.Labels()) {
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// allows reports whether the permission covers an object.
func (p permission) allows(owner, o *object.Object) bool {
	return p.matchesLabels(o) && (!p.owned || o.ControlledBy(owner.UID()))
}

// deleteAll deletes the targets and keeps those that failed. One failure does not stop the
// others.
func (r *run) deleteAll(ctx context.Context, o *pendingResponse) error {
	var left []target
	var errs []error
	for _, t := range o.targets {
		if err := r.delete(ctx, t); err != nil {
			left, errs = append(left, t), append(errs, err)
		}
	}
	o.targets = left
	for _, err := range errs {
		if !errors.Is(err, errEvictionRefused) {
			return err
		}
	}
	return errors.Join(errs...)
}

func (r *run) delete(ctx context.Context, t target) error {
	if r.dry != nil && t.selector != "" {
		defer r.dry.Explain("matches " + t.selector)
	}
	if t.evict {
		return r.evict(ctx, t)
	}
	began := r.Record.Now()
	stored, err := r.writer().Delete(ctx, t.resource, t.object)
	r.Record.Wrote(began, record.Write{Verb: plan.Delete, Resource: t.resource, Before: t.object, After: stored, Err: err})
	switch {
	case r.isReplaced(ctx, t, err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s: %w", t.object.Ref(), err)
	case stored != nil:
		r.noteWritten(t.resource, stored)
	default:
		r.noteDeleted(t.resource, t.object)
	}
	r.Log.Info("deleted", "deleted", t.object.Ref().String(), "object", r.Stored.Ref().String())
	return nil
}

func (r *run) evict(ctx context.Context, t target) error {
	began := r.Record.Now()
	err := r.writer().Evict(ctx, t.resource, t.object)
	r.Record.Wrote(began, record.Write{Verb: plan.Evict, Resource: t.resource, Ref: t.object.Ref(), Err: err})
	switch {
	case apply.TooManyRequests(err):
		return fmt.Errorf("evict %s: %w", t.object.Ref(), errEvictionRefused)
	case r.isReplaced(ctx, t, err):
		return nil
	case err != nil:
		return fmt.Errorf("evict %s: %w", t.object.Ref(), err)
	}
	r.Log.Info("evicted", "evicted", t.object.Ref().String(), "object", r.Stored.Ref().String())
	return nil
}

// isReplaced reports whether a deletion has failed because a new object has the name, which was not selected. A
// conflict alone does not say so: admission webhooks and proxies return it for other reasons.
func (r *run) isReplaced(ctx context.Context, t target, err error) bool {
	if !apply.Conflict(err) {
		return false
	}
	now, err := r.writer().Get(ctx, t.resource, t.object.Namespace(), t.object.Name())
	return apply.NotFound(err) || err == nil && now.UID() != t.object.UID()
}
