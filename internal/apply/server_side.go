package apply

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// serverSideApply applies the desired fields. If the server rejects them because of fields that are not
// desired, an update removes those before another apply. It also removes what the response has as null,
// which an apply can do for some fields only.
func (w *Writer) serverSideApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if a.Want != nil {
		return w.applyWithoutLeftovers(ctx, a, nil)
	}
	send := w.takeOverAndApply // It first takes over the fields of former managers.
	if a.TakeOver != nil && a.TakeOver.OnlyLeftovers {
		send = w.applyThenTakeOver
	}
	stored, err := send(ctx, a)
	if apierrors.IsInvalid(err) {
		return w.applyWithoutLeftovers(ctx, a, err)
	}
	return stored, err
}

func (w *Writer) applyWithoutLeftovers(ctx context.Context, a plan.Action, rejected error) (*object.Object, error) {
	stored, err := w.updateWithoutLeftovers(ctx, a, rejected)
	if err != nil || w.options.DryRun {
		return stored, err
	}
	a.Before = stored
	if a.After, err = plan.WithoutNulls(a.After); err != nil {
		return nil, err
	}
	if a.TakeOver == nil {
		a.TakeOver = ownFields(w.managerOr(a.Manager))
	}
	return w.takeOverAndApply(ctx, a)
}

func (w *Writer) takeOverAndApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if w.simulatesTakeOver(a) {
		return w.simulateTakeOver(ctx, a)
	}
	if _, err := w.takeOver(ctx, a); err != nil {
		return nil, err
	}
	return w.send(ctx, a.Resource, "apply", w.applyRequest(a, a.After))
}

// applyThenTakeOver takes over created fields only if the apply left some that should be gone.
func (w *Writer) applyThenTakeOver(ctx context.Context, a plan.Action) (*object.Object, error) {
	stored, err := w.send(ctx, a.Resource, "apply", w.applyRequest(a, a.After))
	if err != nil {
		return nil, err
	}
	lingers, err := plan.HasLeftovers(a.After, stored)
	if err != nil || !lingers {
		return stored, err
	}
	return w.takeOverAndApply(ctx, a)
}

// applyRequest forces conflicts: other managers' changes are drift.
func (w *Writer) applyRequest(a plan.Action, o *object.Object) *rest.Request {
	return w.writeRequest(w.client.Patch(types.ApplyPatchType), a.Manager).SetHeader("Content-Type", string(types.ApplyPatchType)).
		AbsPath(a.Resource.Path(o.Namespace(), o.Name())).Param("force", "true").Body(o.JSON())
}

// ownFields takes over the fields that a manager owns by updates.
func ownFields(manager string) *plan.TakeOver {
	return &plan.TakeOver{From: []plan.FormerManager{{Name: manager}}}
}

// takeOver transfers the fields of former managers to the manager in managedFields, and removes
// their annotations. The apply that follows changes the rest. It returns the new resource version.
func (w *Writer) takeOver(ctx context.Context, a plan.Action) (version string, err error) {
	if a.TakeOver == nil {
		return a.Before.ResourceVersion(), nil
	}
	live, err := w.getManagedMetadata(ctx, a)
	if err != nil {
		return "", err
	}
	if a.Verb == plan.Delete && live.ResourceVersion != a.Before.ResourceVersion() {
		return "", newConflict("the object has changed since it was read")
	}
	return w.takeOverFields(ctx, a, live)
}

// takeOverFields sends the patch that transfers fields.
func (w *Writer) takeOverFields(ctx context.Context, a plan.Action, live *managedMetadata) (version string, err error) {
	edits := live.transferEdits(w.managerOr(a.Manager), a.TakeOver)
	if len(edits) == 0 {
		return live.ResourceVersion, nil
	}
	// The resource version in the patch makes a concurrent change a conflict.
	body, err := json.Marshal(append(edits, jsonPatchOp{"replace", "/metadata/resourceVersion", live.ResourceVersion}))
	if err != nil {
		return "", err
	}
	request := w.writeRequest(w.client.Patch(types.JSONPatchType), a.Manager).SetHeader("Content-Type", string(types.JSONPatchType)).
		AbsPath(pathOf(a)).Body(body)
	stored, err := w.send(ctx, a.Resource, "take_over", request)
	if err != nil {
		return "", fmt.Errorf("take over the fields of former managers: %w", err)
	}
	return stored.ResourceVersion(), nil
}

func pathOf(a plan.Action) string { return a.Resource.Path(a.Ref.Namespace, a.Ref.Name) }

// getManagedMetadata reads the owners of the fields of an action's object.
func (w *Writer) getManagedMetadata(ctx context.Context, a plan.Action) (*managedMetadata, error) {
	request := w.client.Get().AbsPath(pathOf(a)).SetHeader("Accept", request.Metadata)
	body, err := w.doRequest(ctx, a.Resource, "get", request)
	if err != nil {
		return nil, fmt.Errorf("read its managed fields: %w", err)
	}
	return parseManagedMetadata(body, a)
}

func parseManagedMetadata(body []byte, a plan.Action) (*managedMetadata, error) {
	var live struct{ Metadata managedMetadata }
	if err := json.Unmarshal(body, &live); err != nil {
		return nil, fmt.Errorf("read its managed fields: %w", err)
	}
	if a.Before != nil && live.Metadata.UID != a.Before.UID() {
		return nil, newConflict("the object was replaced by another one with the same name")
	}
	return &live.Metadata, nil
}
