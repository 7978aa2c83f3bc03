package apply

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// DryWriter records the writes of a run in place of sending them, and answers as if the API server stored each object
// as it was sent. It reads what it has recorded, and all else from the API server. It is for one goroutine.
type DryWriter struct {
	// Plan are the actions so far, in order.
	Plan plan.Plan

	server *Writer
	stored map[object.Ref]*object.Object
}

// NewDryWriter returns a DryWriter that reads by another one. These objects are stored as they are.
func NewDryWriter(server *Writer, stored ...*object.Object) *DryWriter {
	d := &DryWriter{server: server, stored: map[object.Ref]*object.Object{}}
	for _, o := range stored {
		d.stored[o.Ref().Identity()] = o
	}
	return d
}

// Get returns an object as it would be stored now.
func (d *DryWriter) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	if o := d.stored[resource.Ref(namespace, name).Identity()]; o != nil {
		return o, nil
	}
	return d.server.Get(ctx, resource, namespace, name)
}

// Update records the object, with the status that is stored if that is a subresource.
func (d *DryWriter) Update(_ context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	if before := d.stored[o.Ref().Identity()]; before != nil && resource.Status {
		var err error
		if o, err = o.With(before.Field("status"), "status"); err != nil {
			return nil, err
		}
	}
	return d.store(o), nil
}

// UpdateStatus records the object with its status.
func (d *DryWriter) UpdateStatus(_ context.Context, _ object.Resource, o *object.Object) (*object.Object, error) {
	return d.store(o), nil
}

func (d *DryWriter) store(o *object.Object) *object.Object {
	d.stored[o.Ref().Identity()] = o
	return o
}

// ApplyPlan records a plan.
func (d *DryWriter) ApplyPlan(_ context.Context, p plan.Plan) []Result {
	d.Plan.Stages = slices.Concat(d.Plan.Stages, p.Stages)
	results := make([]Result, 0, p.Len())
	for _, action := range slices.Concat(p.Stages...) {
		result := Result{Action: action}
		if action.Verb != plan.Delete {
			result.Stored = action.After
		}
		results = append(results, result)
	}
	return results
}

// LastManager returns that of the API server.
func (d *DryWriter) LastManager(ctx context.Context, a plan.Action) (string, error) {
	return d.server.LastManager(ctx, a)
}

// Adopted returns the objects of a kind that were adopted. They are in no cache.
func (d *DryWriter) Adopted(resource object.Resource) (all []*object.Object) {
	for _, action := range slices.Concat(d.Plan.Stages...) {
		if action.Verb == plan.Adopt && action.Resource == resource {
			all = append(all, action.After)
		}
	}
	return all
}
