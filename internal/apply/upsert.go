package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// CreateFor is Create for a manager; the writer's own if empty.
func (w *Writer) CreateFor(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error) {
	return w.send(ctx, resource, "create", w.createRequest(resource, o, w.managerOr(manager)))
}

// Ownership is whose an object is that is there.
type Ownership struct {
	// Object is its metadata alone.
	*object.Object
	// Managers are those who have written it.
	Managers []string
}

// Ownership reads whose an object is.
func (w *Writer) Ownership(ctx context.Context, resource object.Resource, namespace, name string) (*Ownership, error) {
	request := w.client.Get().AbsPath(resource.Path(namespace, name)).SetHeader("Accept", metadataOnly)
	body, err := w.doRequest(ctx, resource, "get", request)
	if err != nil {
		return nil, err
	}
	o, err := object.Parse(body)
	if err != nil {
		return nil, err
	}
	var live struct{ Metadata managedMetadata }
	if err := json.Unmarshal(body, &live); err != nil {
		return nil, fmt.Errorf("read who owns its fields: %w", err)
	}
	s := &Ownership{Object: o}
	for _, e := range live.Metadata.ManagedFields {
		s.Managers = append(s.Managers, e.Manager)
	}
	return s, nil
}

// Apply has the server bring an object in line by server-side apply, whoever had
// its fields, for a manager; the writer's own if empty. It makes one that is not
// there. Fields that nobody knows are refused, and those vanish that the manager had
// stored before and that are not in the object any more, also where it had created it.
func (w *Writer) Apply(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error) {
	manager = w.managerOr(manager)
	body, err := w.doRequest(ctx, resource, "apply", w.forceApplyRequest(resource, o, manager))
	if err != nil {
		return nil, err
	}
	stored, err := w.parse(body, "", "")
	if err != nil {
		return nil, err
	}
	if w.options.DryRun || !bytes.Contains(body, []byte(`"operation":"Update"`)) {
		return stored, nil
	}
	var live struct{ Metadata managedMetadata }
	if err := json.Unmarshal(body, &live); err != nil {
		return nil, fmt.Errorf("read who owns its fields: %w", err)
	}
	if !live.Metadata.hasLeftovers(manager) {
		return stored, nil
	}
	// What was created is this manager's as an update's would be. Once that is taken
	// over, an apply removes what lingers.
	a := plan.Action{Verb: plan.Apply, Resource: resource, Ref: stored.Ref(), Before: stored, After: o, Manager: manager,
		TakeOver: &plan.TakeOver{From: []plan.FormerManager{{Name: manager}}}}
	if _, err := w.takeOverFields(ctx, a, &live.Metadata); err != nil {
		return nil, err
	}
	return w.send(ctx, resource, "apply", w.forceApplyRequest(resource, o, manager))
}

// forceApplyRequest is a request for a server-side apply, whoever has the fields.
func (w *Writer) forceApplyRequest(resource object.Resource, o *object.Object, manager string) *rest.Request {
	return w.writeRequest(w.client.Patch(types.ApplyPatchType), manager).SetHeader("Content-Type", string(types.ApplyPatchType)).
		AbsPath(resource.Path(o.Namespace(), o.Name())).Param("force", "true").Body(o.JSON())
}

// hasLeftovers says that a manager owns fields by other ways than an apply that it has not
// applied. Defaults that came with a creation are such fields, too: they are taken
// over once, by the first apply.
func (l *managedMetadata) hasLeftovers(manager string) bool {
	var applied, updated fieldSet
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

// isNotIn says that there are fields which others do not have.
func (o fieldSet) isNotIn(others fieldSet) bool {
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

// LastManager is the field manager that changed the object of an action last, other than the
// one that carries the action out; "" if there is none.
func (w *Writer) LastManager(ctx context.Context, a plan.Action) (string, error) {
	live, err := w.getManagedMetadata(ctx, a)
	if err != nil {
		return "", err
	}
	var latest managedFieldsEntry
	for _, e := range live.ManagedFields {
		if e.Subresource == "" && e.Manager != w.managerOr(a.Manager) && string(e.Time) >= string(latest.Time) {
			latest = e
		}
	}
	return latest.Manager, nil
}
