package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// setFinalizer sets Setpoint's finalizer on a controller object and stores in its status
// which kinds of parents have finalizers, so that they are released before the controller
// object is deleted. It returns false if the context ends first.
func (cs *controllerSet) setFinalizer(ctx context.Context, key queue.Key, r *runningController) bool {
	if !r.Finalizes() || cs.goControllerIndex(key) >= 0 {
		return true
	}
	backoff := wait.Backoff{Duration: minRetryDelay, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	logged := ""
	return backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := cs.trySetFinalizer(ctx, key, r)
		if err != nil && err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			cs.manager.log.Warn("finalizer not set; retrying", "controller", key.String(), "error", logged)
		}
		return err == nil, nil
	}) == nil
}

func (cs *controllerSet) trySetFinalizer(ctx context.Context, key queue.Key, r *runningController) error {
	declared := cs.kinds[key.Namespace].view.Get("", key.Name)
	if declared == nil || declared.Deleting() {
		return fmt.Errorf("%s is being deleted", key)
	}
	before := storedStatus(declared).Finalizes
	finalizes := slices.Clone(before)
	for _, resource := range r.parentKinds() {
		if !slices.Contains(finalizes, resource.String()) {
			finalizes = append(finalizes, resource.String())
		}
	}
	if len(finalizes) != len(before) {
		if err := cs.patchFinalizedKinds(ctx, key, declared, finalizes); err != nil {
			return err
		}
		declared = cs.kinds[key.Namespace].view.Get("", key.Name)
	}
	if declared == nil || hasReleaseFinalizer(declared) {
		return nil
	}
	return cs.patchFinalizers(ctx, key, declared, append(declared.Finalizers(), setpoint.FinalizerReleaseParents))
}

// patchFinalizedKinds stores in the controller's status which kinds have its finalizer, if
// the object is unchanged.
func (cs *controllerSet) patchFinalizedKinds(ctx context.Context, key queue.Key, o *object.Object, finalizes []string) error {
	if len(finalizes) == 0 {
		finalizes = nil // A null removes the field.
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID()},
		"status":   map[string]any{"finalizes": finalizes},
	})
	if err != nil {
		return err
	}
	if err := cs.patchStatus(ctx, key, body); err != nil {
		return fmt.Errorf("store the finalized kinds in the status of %s: %w", key, err)
	}
	return nil
}

// patchFinalizers sets the finalizers of a controller object, if it is unchanged.
func (cs *controllerSet) patchFinalizers(ctx context.Context, key queue.Key, o *object.Object, names []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID(),
		"finalizers": names}})
	if err != nil {
		return err
	}
	if err := cs.patch(ctx, key, "", body); err != nil {
		return fmt.Errorf("set the finalizers of %s: %w", key, err)
	}
	return nil
}

// patch patches a controller object or a subresource such as "/status". The result is in
// the cache when it returns.
func (cs *controllerSet) patch(ctx context.Context, key queue.Key, part string, body []byte) error {
	kind := cs.kinds[key.Namespace]
	data, err := request.Do(ctx, cs.manager.client.Patch(types.MergePatchType).
		AbsPath(kind.Resource.Path("", key.Name)+part).Param("fieldManager", "setpoint").Param("fieldValidation", "Ignore").Body(body))
	if err != nil {
		return err
	}
	stored, err := object.ParseWithManagedFields(data, "", "")
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	kind.view.ObserveWrite(stored)
	return nil
}
