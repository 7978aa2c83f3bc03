package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// takeOver transfers the fields of former managers to the manager in managedFields, and removes
// their annotations. The apply that follows changes the rest. It returns the new resource version.
func (w *Writer) takeOver(ctx context.Context, a plan.Action) (version string, err error) {
	if a.TakeOver == nil {
		return a.Before.ResourceVersion(), nil
	}
	_, live, err := w.readOwners(ctx, a, request.Metadata)
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
	edits := live.transferEdits(w.requests.managerOr(a.Manager), a.TakeOver)
	if len(edits) == 0 {
		return live.ResourceVersion, nil
	}
	// The resource version in the patch makes a concurrent change a conflict.
	body, err := json.Marshal(append(edits, jsonPatchOp{"replace", "/metadata/resourceVersion", live.ResourceVersion}))
	if err != nil {
		return "", err
	}
	request := w.requests.write(w.requests.client.Patch(types.JSONPatchType), a.Manager).
		SetHeader("Content-Type", string(types.JSONPatchType)).AbsPath(pathOf(a)).Body(body)
	stored, err := w.send(ctx, a.Resource, "take_over", request)
	if err != nil {
		return "", fmt.Errorf("take over the fields of former managers: %w", err)
	}
	return stored.ResourceVersion(), nil
}

func pathOf(a plan.Action) string { return a.Resource.Path(a.Ref.Namespace, a.Ref.Name) }

// readOwners reads an action's object, or its metadata, and the owners of its fields.
func (w *Writer) readOwners(ctx context.Context, a plan.Action, accept string) (body []byte, live *managedMetadata, err error) {
	body, err = w.doRequest(ctx, a.Resource, "get", w.requests.client.Get().AbsPath(pathOf(a)).SetHeader("Accept", accept))
	if err != nil {
		return nil, nil, fmt.Errorf("read its managed fields: %w", err)
	}
	live, err = parseManagedMetadata(body, a)
	return body, live, err
}

// parseManagedMetadata returns the owners of the fields of the object in a response, which is that of the action.
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
