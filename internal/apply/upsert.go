package apply

import (
	"bytes"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Ownership says who owns an existing object.
type Ownership struct {
	// Object is its metadata.
	*object.Object
	// Managers are all its field managers.
	Managers []string
}

// Ownership reads who owns an object.
func (w *Writer) Ownership(ctx context.Context, resource object.Resource, namespace, name string) (*Ownership, error) {
	metadata := read(resource, namespace, name)
	metadata.accept = request.Metadata
	body, err := w.do(ctx, metadata)
	if err != nil {
		return nil, err
	}
	o, err := object.Parse(body)
	if err != nil {
		return nil, err
	}
	live, err := parseManagedMetadata(body, plan.Action{})
	if err != nil {
		return nil, err
	}
	return &Ownership{o, lists.Map(live.ManagedFields, func(e managedFieldsEntry) string { return e.Manager })}, nil
}

// Apply creates or updates an object by server-side apply with a field manager; the default if empty. It forces
// conflicts, rejects unknown fields, and removes what the manager has set and o lacks, even by a Create.
func (w *Writer) Apply(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error) {
	manager = managerOr(manager)
	a := plan.Action{Verb: plan.Apply, Resource: resource, Ref: o.Ref(), After: o, Manager: manager}
	body, err := w.do(ctx, applied(a, o))
	switch {
	case apierrors.IsInvalid(err):
		return w.applyWithoutLeftovers(ctx, a, err)
	case err != nil:
		return nil, err
	}
	stored, err := w.parse(body, "", "")
	if err != nil {
		return nil, err
	}
	if w.options.DryRun || !bytes.Contains(body, []byte(`"operation":"Update"`)) {
		return stored, nil
	}
	live, err := parseManagedMetadata(body, a)
	if err != nil || !live.hasLeftovers(manager) {
		return stored, err
	}
	// A Create owns fields by the operation Update. Once they are taken over, an apply removes those that are left.
	a.Before, a.TakeOver = stored, ownFields(manager)
	if _, err := w.takeOverFields(ctx, a, live); err != nil {
		return nil, err
	}
	return w.send(ctx, applied(a, o))
}

// hasLeftovers reports whether a manager owns fields by Update that it has not applied. After a
// Create this includes defaults, which the first apply takes over.
func (l *managedMetadata) hasLeftovers(manager string) bool {
	var applied, updated FieldSet
	for _, e := range l.ManagedFields {
		switch {
		case e.Manager != manager || e.Subresource != "":
		case e.Operation == operationApply:
			applied = e.FieldsV1
		default:
			updated = union(updated, e.FieldsV1)
		}
	}
	return updated.isNotIn(applied)
}

func (o FieldSet) isNotIn(others FieldSet) bool {
	for name, below := range o {
		if name == self {
			continue
		}
		their, have := others[name]
		if !have || below.isNotIn(their) {
			return true
		}
	}
	return false
}

// LastManager returns the field manager that changed an action's object last, except for its own; "" if there is none.
func (w *Writer) LastManager(ctx context.Context, a plan.Action) (string, error) {
	_, live, err := w.readOwners(ctx, a, request.Metadata)
	if err != nil {
		return "", err
	}
	var latest managedFieldsEntry
	for _, e := range live.ManagedFields {
		if e.Subresource == "" && e.Manager != managerOr(a.Manager) && string(e.Time) >= string(latest.Time) {
			latest = e
		}
	}
	return latest.Manager, nil
}
