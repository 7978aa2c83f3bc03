package handle

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
func (h *applier) resolveDeletions(ctx context.Context, o *pendingResponse) error {
	if o.resolved {
		return nil
	}
	var all []target
	for _, d := range o.response.Delete {
		found, err := h.findTargets(ctx, d)
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
func (h *applier) findTargets(ctx context.Context, d hook.Deletion) ([]target, error) {
	var targets []target
	seen := map[string]bool{}
	for _, p := range h.program.deletePermissions(d) {
		namespace := namespaceFor(p.Resource, h.object.Namespace(), d.Namespace)
		if !p.allowsNamespace(namespace) {
			continue
		}
		objects, err := h.readTargets(ctx, p, d, namespace)
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
func (h *applier) readTargets(ctx context.Context, p permission, d hook.Deletion, namespace string) ([]*object.Object, error) {
	if d.Name == "" {
		return h.listTargets(ctx, p, d, namespace)
	}
	o, err := h.tools.Writer.Get(ctx, p.Resource, namespace, d.Name)
	switch {
	case apply.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s before deleting it: %w", d.Kind, d.Name, err)
	case p.allows(h, o):
		return []*object.Object{o}, nil
	}
	for _, other := range h.program.deletePermissions(d) {
		if other.allowsNamespace(namespace) && other.allows(h, o) {
			return nil, nil
		}
	}
	return nil, undeclared(deletionVerb(d), true, d.APIVersion, d.Kind)
}

// listTargets returns the objects that a deletion selects.
func (h *applier) listTargets(ctx context.Context, p permission, d hook.Deletion, namespace string) ([]*object.Object, error) {
	if !p.owned {
		selector := d.Selector
		if p.Labels != "" {
			selector += "," + p.Labels
		}
		found, err := h.tools.Writer.List(ctx, p.Resource, namespace, selector)
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
	for i, kind := range h.program.Owns {
		if kind != p.Resource {
			continue
		}
		for _, o := range h.ownedBy(h.object)[i] {
			if o.Namespace() == namespace && selector.Matches(o.Labels()) {
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// allows reports whether the permission covers an object.
func (p permission) allows(h *applier, o *object.Object) bool {
	return p.matchesLabels(o) && (!p.owned || h.isOwned(o))
}

// deleteAll deletes the targets and keeps those that failed. One failure does not stop the
// others.
func (h *applier) deleteAll(ctx context.Context, o *pendingResponse) error {
	var left []target
	var errs []error
	for _, t := range o.targets {
		if err := h.delete(ctx, t); err != nil {
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

func (h *applier) delete(ctx context.Context, t target) error {
	if t.evict {
		return h.evict(ctx, t)
	}
	began := h.record.Now()
	stored, err := h.tools.Writer.Delete(ctx, t.resource, t.object)
	h.record.Wrote(began, record.Write{Verb: plan.Delete, Resource: t.resource, Before: t.object, After: stored, Err: err})
	switch {
	case apply.Conflict(err):
		// A new object has the name; it was not selected.
	case err != nil:
		return fmt.Errorf("delete %s: %w", t.object.Ref(), err)
	case stored != nil:
		h.noteWritten(t.resource, stored)
	default:
		h.noteDeleted(t.resource, t.object)
	}
	h.Log.Info("deleted", "deleted", t.object.Ref().String(), "object", h.object.Ref().String())
	return nil
}

func (h *applier) evict(ctx context.Context, t target) error {
	began := h.record.Now()
	err := h.tools.Writer.Evict(ctx, t.resource, t.object)
	h.record.Wrote(began, record.Write{Verb: record.Evict, Resource: t.resource, Ref: t.object.Ref(), Err: err})
	switch {
	case apply.TooManyRequests(err):
		return fmt.Errorf("evict %s: %w", t.object.Ref(), errEvictionRefused)
	case err != nil && !apply.Conflict(err):
		return fmt.Errorf("evict %s: %w", t.object.Ref(), err)
	}
	h.Log.Info("evicted", "evicted", t.object.Ref().String(), "object", h.object.Ref().String())
	return nil
}
