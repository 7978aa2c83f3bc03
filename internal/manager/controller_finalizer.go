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
)

// setFinalizer makes sure that a controller object cannot go before its finalizers on
// parents have, and that it is known later which kinds have them. It returns
// false if the context ends before.
func (cs *controllerSet) setFinalizer(ctx context.Context, key queue.Key, r *runningController) bool {
	if !r.Finalizes() || cs.goControllerIndex(key) >= 0 {
		return true
	}
	backoff := wait.Backoff{Duration: minRetryDelay, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	said := ""
	for {
		err := cs.trySetFinalizer(ctx, key, r)
		if err == nil {
			return true
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			cs.manager.log.Warn("controller object not held; trying again", "controller", key.String(), "error", said)
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return false
		}
	}
}

func (cs *controllerSet) trySetFinalizer(ctx context.Context, key queue.Key, r *runningController) error {
	declared := cs.kinds[key.Namespace].view.Get("", key.Name)
	if declared == nil || declared.Deleting() {
		return fmt.Errorf("%s is going away", key)
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

// patchFinalizedKinds notes in the status of a controller object which kinds may carry
// its finalizer, if it is still of the version that was read.
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
		return fmt.Errorf("note in the status of %s which kinds carry its finalizer: %w", key, err)
	}
	return nil
}

// patchFinalizers gives a controller object these finalizers, if it is still of
// the version they were made from.
func (cs *controllerSet) patchFinalizers(ctx context.Context, key queue.Key, o *object.Object, names []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID(), "finalizers": names}})
	if err != nil {
		return err
	}
	if err := cs.patch(ctx, key, "", body); err != nil {
		return fmt.Errorf("set the finalizers of %s: %w", key, err)
	}
	return nil
}

// patch changes a controller object, or a part of it such as "/status". What is
// stored is in the cache when it returns.
func (cs *controllerSet) patch(ctx context.Context, key queue.Key, part string, body []byte) error {
	kind := cs.kinds[key.Namespace]
	data, err := doRequest(ctx, cs.manager.client.Patch(types.MergePatchType).
		AbsPath(kind.Resource.Path("", key.Name)+part).Param("fieldManager", "setpoint").Param("fieldValidation", "Ignore").Body(body))
	if err != nil {
		return err
	}
	stored, err := object.ParseWithManagedFields(data, "", "")
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	kind.view.ObserveWrite(stored)
	return nil
}
