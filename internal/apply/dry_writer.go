package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// DryWriter records the writes of a run in place of sending them, and answers as if the API server stored each object
// as it was sent. It reads what it has recorded, and all else from the API server. It is for one goroutine.
type DryWriter struct {
	// Plan are the actions so far, in order.
	Plan plan.Plan

	server *Writer
	// stored are the objects that were written, nil for those that are gone, and order is that of their first writes.
	stored map[object.Ref]*object.Object
	order  []object.Ref
}

// NewDryWriter returns a DryWriter that reads by another one. These objects are stored as they are.
func NewDryWriter(server *Writer, stored ...*object.Object) *DryWriter {
	d := &DryWriter{server: server, stored: map[object.Ref]*object.Object{}}
	for _, o := range stored {
		d.store(o)
	}
	return d
}

// Get returns an object as it would be stored now.
func (d *DryWriter) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	switch o, written := d.stored[resource.Ref(namespace, name).Identity()]; {
	case o != nil:
		return o, nil
	case written:
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, name)
	}
	return d.server.Get(ctx, resource, namespace, name)
}

// Update records the object, with the status that is stored if that is a subresource, or with its status.
func (d *DryWriter) Update(_ context.Context, resource object.Resource, o *object.Object, part string) (*object.Object, error) {
	if before := d.stored[o.Ref().Identity()]; before != nil && resource.Status && part == "" {
		var err error
		if o, err = o.With(before.Field("status"), "status"); err != nil {
			return nil, err
		}
	}
	return d.store(o), nil
}

func (d *DryWriter) store(o *object.Object) *object.Object {
	d.storeAs(o.Ref(), o)
	return o
}

// storeAs stores an object; nil if it is gone.
func (d *DryWriter) storeAs(ref object.Ref, o *object.Object) {
	ref = ref.Identity()
	if _, known := d.stored[ref]; !known {
		d.order = append(d.order, ref)
	}
	d.stored[ref] = o
}

// Patch records the object with a JSON merge patch: of only the status, or of all but a status that is a subresource.
func (d *DryWriter) Patch(_ context.Context, resource object.Resource, o *object.Object, patch []byte, part string) (*object.Object,
	error) {
	change, err := object.Decode(patch)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(change, func(name string, _ any) bool {
		return part == "" && resource.Status && name == StatusPart || part != "" && name != part
	})
	if metadata, has := change["metadata"].(map[string]any); has { // What it is a precondition of is stored already.
		delete(metadata, "uid")
		delete(metadata, "resourceVersion")
	}
	have, err := object.Decode(o.JSON())
	if err != nil {
		return nil, err
	}
	patched, err := object.Encode(object.MergePatch(have, change))
	if err != nil {
		return nil, err
	}
	return d.store(patched), nil
}

// Create plans to create an object with a field manager. It returns AlreadyExists for the name of another object.
func (d *DryWriter) Create(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error) {
	switch _, err := d.Get(ctx, resource, o.Namespace(), o.Name()); {
	case err == nil:
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, o.Name())
	case !NotFound(err):
		return nil, err
	}
	return d.Apply(ctx, resource, o, manager)
}

// Apply plans to apply an object with a field manager, or to create it.
func (d *DryWriter) Apply(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error) {
	action := plan.Action{Verb: plan.Create, Resource: resource, Ref: o.Ref(), After: o, Manager: manager}
	before, err := d.server.Get(ctx, resource, o.Namespace(), o.Name())
	switch {
	case NotFound(err):
		d.add(action)
		return d.store(o), nil
	case err != nil:
		return nil, fmt.Errorf("read it: %w", err)
	}
	action.Verb, action.Before = plan.Apply, before
	d.add(action)
	after, err := plan.Overlay(before, o)
	if err != nil {
		return nil, err
	}
	return d.store(after), nil
}

// Delete plans to delete an object, which is gone at once.
func (d *DryWriter) Delete(_ context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	d.add(plan.Action{Verb: plan.Delete, Resource: resource, Ref: o.Ref(), Before: o})
	d.storeAs(o.Ref(), nil)
	return nil, nil //nolint:nilnil // As of a Writer: the object is gone.
}

// Evict plans to evict a pod, which takes time.
func (d *DryWriter) Evict(_ context.Context, resource object.Resource, pod *object.Object) error {
	d.add(plan.Action{Verb: plan.Evict, Resource: resource, Ref: pod.Ref(), Before: pod})
	return nil
}

func (d *DryWriter) add(a plan.Action) { d.Plan.Stages = append(d.Plan.Stages, []plan.Action{a}) }

// Explain adds a reason to the latest action.
func (d *DryWriter) Explain(reason string) { d.Plan.Stages[len(d.Plan.Stages)-1][0].Reason = reason }

// ApplyPlan records a plan.
func (d *DryWriter) ApplyPlan(_ context.Context, p plan.Plan) []Result {
	d.Plan.Stages = slices.Concat(d.Plan.Stages, p.Stages)
	return lists.Map(p.Actions(), func(a plan.Action) Result {
		if a.Verb == plan.Delete {
			d.storeAs(a.Ref, nil)
			return Result{Action: a}
		}
		return Result{Action: a, Stored: d.store(a.After)}
	})
}

// List returns what the API server has.
func (d *DryWriter) List(ctx context.Context, resource object.Resource, namespace, selector string) ([]*object.Object, error) {
	return d.server.List(ctx, resource, namespace, selector)
}

// Ownership returns that of the API server, or of what was applied.
func (d *DryWriter) Ownership(ctx context.Context, resource object.Resource, namespace, name string) (*Ownership, error) {
	if o := d.stored[resource.Ref(namespace, name).Identity()]; o != nil {
		return &Ownership{Object: o}, nil
	}
	return d.server.Ownership(ctx, resource, namespace, name)
}

// LastManager returns that of the API server.
func (d *DryWriter) LastManager(ctx context.Context, a plan.Action) (string, error) {
	return d.server.LastManager(ctx, a)
}

// Owned returns the objects of a kind that an owner would control, given those that it does in the caches.
func (d *DryWriter) Owned(resource object.Resource, uid string, cached []*object.Object) []*object.Object {
	now := slices.DeleteFunc(slices.Clone(cached), func(o *object.Object) bool {
		_, written := d.stored[o.Ref().Identity()]
		return written
	})
	for _, ref := range d.order {
		if o := d.stored[ref]; o != nil && o.GroupKind() == resource.GroupKind() && o.ControlledBy(uid) {
			now = append(now, o)
		}
	}
	return now
}
