package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// A changed label ends what Setpoint does for a controller object: it is gone from the watch, as if it were deleted,
// and its status would go on saying that it is ready.

// reportUnselected says in the status of controller objects which this Setpoint ran that it does not select them any
// more, and gives them up, so that another Setpoint may take them.
func (cs *controllerSet) reportUnselected(ctx context.Context) error {
	own := cs.manager.instance()
	if own == nil {
		return nil // Nothing says which Setpoint ran a controller.
	}
	selector, err := labels.Parse(cs.manager.options.controllerSelector())
	if err != nil {
		return fmt.Errorf("read the selector of controllers: %w", err)
	}
	for _, kind := range compile.Kinds() {
		stored, err := apply.New(cs.manager.client, apply.Options{DryRun: true}).List(ctx, kind.Resource, "", "")
		if err != nil && !request.IsForbiddenOrNotFound(err) {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range stored {
			managedBy := storedStatus(o).ManagedBy
			if managedBy == nil || !cs.manager.isInstance(own, managedBy) || selector.Matches(o.Labels()) {
				continue
			}
			if err := cs.giveUp(ctx, kind, o, own.Lease); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("give up %s/%s: %w", kind.Name, o.Name(), err)
			}
		}
	}
	return nil
}

// giveUp stores that no Setpoint runs a controller, if the object is unchanged.
func (cs *controllerSet) giveUp(ctx context.Context, kind compile.Kind, o *object.Object, lease string) error {
	conditions := slices.Clone(storedStatus(o).Conditions)
	ready := conditionState{reason: setpoint.ReasonNotSelected, message: fmt.Sprintf(
		"the Setpoint with the Lease %s has run this controller, and does not any more, because of its labels: it runs those with %s. "+
			"Until another one does, objects stay as they are, and no hook is called",
		lease, cs.manager.options.controllerSelector())}
	meta.SetStatusCondition(&conditions, ready.condition(setpoint.ConditionReady, o.Generation()))
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID()},
		"status":   map[string]any{"managedBy": nil, "conditions": conditions},
	})
	if err != nil {
		return err
	}
	_, err = request.Do(ctx, cs.manager.client.Patch(types.MergePatchType).AbsPath(kind.Resource.Path("", o.Name())+"/status").
		Param("fieldManager", "setpoint").Param("fieldValidation", "Ignore").Body(body))
	return err
}
