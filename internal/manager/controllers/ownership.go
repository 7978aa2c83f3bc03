package controllers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// ownership makes this Setpoint the owner of controller objects, and gives up those that it does not select any more.
type ownership struct {
	shared

	// unselected is set when controller objects may have left the selection.
	unselected atomic.Bool
}

// take makes this Setpoint the owner of a controller object. It returns false if another one is, or
// the object is gone. Of two that take it at once, the API server lets one win.
func (w *ownership) take(ctx context.Context, key queue.Key) (bool, error) {
	own := w.Owners.Own()
	if own == nil {
		return true, nil
	}
	stored := w.declared.Get(key)
	if stored == nil {
		return false, nil
	}
	managedBy := compile.StoredStatus(stored).ManagedBy
	if reflect.DeepEqual(managedBy, own) || managedBy == nil && w.registry.get(key).taken == stored.UID() {
		return true, nil
	}
	if other, _ := w.Owners.Other(ctx, stored); other != nil {
		return false, nil
	}
	// A null removes the namespaces of a previous owner.
	change := map[string]any{"managedBy": map[string]any{"lease": own.Lease, "namespaces": own.Namespaces}}
	if err := w.declared.PatchStatus(ctx, key, stored, change); err != nil {
		return false, fmt.Errorf("store the owner in the status of %s: %w", key, err)
	}
	w.registry.change(key, func(e *controllerEntry) { e.taken = strings.Clone(stored.UID()) })
	return true, nil
}

// await takes a controller object before its controller runs. It returns false if the
// context ends or another Setpoint was faster: then the controller is refused.
func (w *ownership) await(ctx context.Context, key queue.Key) (taken bool) {
	done := prepare(ctx, w.Log, key, func(ctx context.Context) (err error) {
		taken, err = w.take(ctx, key)
		return err
	})
	if done && !taken {
		w.queue.Add(key, queue.Cause{Kind: queue.ParentChanged})
	}
	return done && taken
}

// errNotOwner means that another Setpoint manages a controller object.
var errNotOwner = errors.New("another Setpoint manages the controller")

// A changed label ends what Setpoint does for a controller object: it is gone from the watch, as if it were deleted,
// and its status would go on saying that it is ready.

// reportUnselected says in the status of controller objects which this Setpoint ran that it does not select them any
// more, and gives them up, so that another Setpoint may take them.
func (w *ownership) reportUnselected(ctx context.Context) error {
	own := w.Owners.Own()
	if own == nil {
		return nil // Nothing says which Setpoint ran a controller.
	}
	selector, err := labels.Parse(w.Selector)
	if err != nil {
		return fmt.Errorf("read the selector of controllers: %w", err)
	}
	for _, kind := range compile.Kinds() {
		stored, err := apply.New(w.Client, apply.Options{DryRun: true}).List(ctx, kind.Resource, "", "")
		if err != nil && !request.IsForbiddenOrNotFound(err) {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range stored {
			managedBy := compile.StoredStatus(o).ManagedBy
			if managedBy == nil || !w.Owners.IsOwn(own, managedBy) || selector.Matches(o.Labels()) {
				continue
			}
			if err := w.giveUp(ctx, kind, o, own.Lease); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("give up %s/%s: %w", kind.Name, o.Name(), err)
			}
		}
	}
	return nil
}

// giveUp stores that no Setpoint runs a controller, if the object is unchanged.
func (w *ownership) giveUp(ctx context.Context, kind compile.Kind, o *object.Object, lease string) error {
	conditions := slices.Clone(compile.StoredStatus(o).Conditions)
	ready := conditionState{reason: setpoint.ReasonNotSelected, message: fmt.Sprintf(
		"the Setpoint with the Lease %s has run this controller, and does not any more, because of its labels: it runs those with %s. "+
			"Until another one does, objects stay as they are, and no hook is called",
		lease, w.Selector)}
	meta.SetStatusCondition(&conditions, ready.condition(setpoint.ConditionReady, o.Generation()))
	_, err := w.declared.SendPatch(ctx, kind.Resource.Path("", o.Name())+"/status", map[string]any{
		"metadata": declared.IdentityOf(o), "status": map[string]any{"managedBy": nil, "conditions": conditions},
	})
	return err
}
