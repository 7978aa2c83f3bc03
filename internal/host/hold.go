package host

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

// hold makes sure that a controller object cannot go before its finalizers on
// parents have, and that it is known later which kinds have them. It returns
// false if the context ends before.
func (f *fleet) hold(ctx context.Context, key queue.Key, r *running) bool {
	if !r.Finalizes() || f.ownIndex(key) >= 0 {
		return true
	}
	backoff := wait.Backoff{Duration: firstRetry, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	said := ""
	for {
		err := f.holdOnce(ctx, key, r)
		if err == nil {
			return true
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			f.host.log.Warn("controller object not held; trying again", "controller", key.String(), "error", said)
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return false
		}
	}
}

func (f *fleet) holdOnce(ctx context.Context, key queue.Key, r *running) error {
	declared := f.kinds[key.Namespace].view.Get("", key.Name)
	if declared == nil || declared.Deleting() {
		return fmt.Errorf("%s is going away", key)
	}
	before := formerStatus(declared).Finalizes
	finalizes := slices.Clone(before)
	for _, resource := range r.resources() {
		if !slices.Contains(finalizes, resource.String()) {
			finalizes = append(finalizes, resource.String())
		}
	}
	if len(finalizes) != len(before) {
		if err := f.storeFinalizes(ctx, key, declared, finalizes); err != nil {
			return err
		}
		declared = f.kinds[key.Namespace].view.Get("", key.Name)
	}
	if declared == nil || held(declared) {
		return nil
	}
	return f.storeFinalizers(ctx, key, declared, append(declared.Finalizers(), setpoint.FinalizerReleaseParents))
}

// storeFinalizes notes in the status of a controller object which kinds may carry
// its finalizer, if it is still of the version that was read.
func (f *fleet) storeFinalizes(ctx context.Context, key queue.Key, o *object.Object, finalizes []string) error {
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
	if err := f.storeStatus(ctx, key, body); err != nil {
		return fmt.Errorf("note in the status of %s which kinds carry its finalizer: %w", key, err)
	}
	return nil
}

// storeFinalizers gives a controller object these finalizers, if it is still of
// the version they were made from.
func (f *fleet) storeFinalizers(ctx context.Context, key queue.Key, o *object.Object, names []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID(), "finalizers": names}})
	if err != nil {
		return err
	}
	if err := f.patch(ctx, key, "", body); err != nil {
		return fmt.Errorf("set the finalizers of %s: %w", key, err)
	}
	return nil
}

// patch changes a controller object, or a part of it such as "/status". What is
// stored is in the cache when it returns.
func (f *fleet) patch(ctx context.Context, key queue.Key, part string, body []byte) error {
	kind := f.kinds[key.Namespace]
	data, err := exchange(ctx, f.host.client.Patch(types.MergePatchType).
		AbsPath(kind.Resource.Path("", key.Name)+part).Param("fieldManager", "setpoint").Param("fieldValidation", "Ignore").Body(body))
	if err != nil {
		return err
	}
	stored, err := object.ParseWhole(data, "", "")
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	kind.view.Wrote(stored)
	return nil
}
