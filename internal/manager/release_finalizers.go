package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// releaseFinalizers removes finalizers from parents: for deleted controllers, and where a
// controller has no finalize hook, or no longer the kind of parents. The progress is stored
// in the controller objects, so that the next leader continues.
func (cs *controllerSet) releaseFinalizers(ctx context.Context) {
	for _, kind := range cs.kinds {
		for o := range kind.view.All() {
			cs.enqueueRelease(queue.Key{Namespace: kind.Name, Name: o.Name()}, o)
		}
	}
	cs.releaseQueue.Work(ctx, 1, func(ctx context.Context, item queue.Item) queue.Outcome {
		if err := cs.releaseController(ctx, item.Key); err != nil && ctx.Err() == nil {
			cs.recordReleaseFailure(item.Key, err)
			return queue.Retry()
		}
		return queue.NoRequeue()
	})
}

// enqueueRelease enqueues a controller object that may have finalizers to remove.
func (cs *controllerSet) enqueueRelease(key queue.Key, o *object.Object) {
	if hasReleaseFinalizer(o) {
		cs.releaseQueue.Add(key, queue.Cause{Kind: queue.ParentChanged})
	}
}

func hasReleaseFinalizer(o *object.Object) bool {
	return slices.Contains(o.Finalizers(), setpoint.FinalizerReleaseParents)
}

// releaseController removes the finalizers of one controller object. It does nothing while a
// running controller would set them again; it is called again when that has stopped.
func (cs *controllerSet) releaseController(ctx context.Context, key queue.Key) error {
	kind := cs.kinds[key.Namespace]
	o := kind.view.Get("", key.Name)
	if o == nil || !hasReleaseFinalizer(o) {
		return nil
	}
	if taken, err := cs.take(ctx, key); err != nil || !taken {
		return cmp.Or(err, errNotOwner)
	}
	foot, env := kind.Footprint(o), cs.manager.compileEnvironment()
	removal := finalizers.Removal{Cluster: cs.manager.finalizers(), Finalizer: foot.Finalizer, Account: env.AccountOf(foot.Identity),
		Namespaces: foot.Namespaces}
	gone := foot.FinalizerRemovals(storedStatus(o).Finalizes, o.Deleting())
	for _, resource := range gone {
		if cs.finalizes(key, resource) {
			return nil
		}
		if err := removal.RemoveFrom(ctx, resource); err != nil {
			return fmt.Errorf("remove the finalizer %s from %s: %w", foot.Finalizer, resource, err)
		}
	}
	if err := cs.releaseOutside(ctx, key, o, &foot); err != nil {
		return err
	}
	err := cs.patchReleased(ctx, key, o, gone)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// releaseOutside removes the finalizer from parents outside of the namespaces in the spec, which may have had others
// before. It does so once for each generation that runs.
func (cs *controllerSet) releaseOutside(ctx context.Context, key queue.Key, o *object.Object, foot *compile.Footprint) error {
	cs.mu.Lock()
	e := cs.entries[key]
	runs := e != nil && e.object != nil && e.object.UID() == o.UID() && e.object.Generation() == o.Generation()
	cs.mu.Unlock()
	generation := fmt.Sprint(o.UID(), o.Generation())
	if !runs || !foot.Finalizes || o.Deleting() || cs.releasedOutside[key] == generation {
		return nil
	}
	env, released := cs.manager.compileEnvironment(), int64(0)
	for i, resource := range foot.Parents {
		if len(foot.Limits[i]) == 0 {
			continue
		}
		removal := finalizers.Removal{Cluster: cs.manager.finalizers(), Finalizer: foot.Finalizer, Account: env.AccountOf(foot.Identity),
			Outside: foot.Limits[i]}
		if err := removal.RemoveFrom(ctx, resource); err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("remove the finalizer %s from %s outside of the controller's namespaces: %w", foot.Finalizer, resource, err)
		}
		released += removal.Removed.Load()
	}
	cs.releasedOutside[key] = generation
	if released > 0 {
		cs.manager.events.Event(o, hook.Event{Type: "Normal", Reason: controller.ReasonReleased,
			Message: fmt.Sprintf("removed the finalizer %s from %s outside of the namespaces in the spec, without a call of a hook",
				foot.Finalizer, countObjects(int(released)))})
	}
	return nil
}

// finalizes reports whether a running controller sets its finalizer on a kind.
func (cs *controllerSet) finalizes(key queue.Key, resource compile.ResourceName) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	e := cs.entries[key]
	return e != nil && e.running != nil && e.running.Finalizes() && resource.InList(e.running.parentKinds())
}

// patchReleased removes kinds from the status, and Setpoint's finalizer from the controller
// object if no kind is left.
func (cs *controllerSet) patchReleased(ctx context.Context, key queue.Key, o *object.Object, gone []compile.ResourceName) error {
	kind := cs.kinds[key.Namespace]
	before := storedStatus(o).Finalizes
	after := slices.DeleteFunc(slices.Clone(before), func(text string) bool { return compile.ParseResourceName(text).InList(gone) })
	if len(after) != len(before) {
		if err := cs.patchFinalizedKinds(ctx, key, o, after); err != nil {
			return err
		}
		o = kind.view.Get("", key.Name)
	}
	if o == nil || kind.Footprint(o).Finalizes && !o.Deleting() {
		return nil
	}
	cs.manager.log.Info("finalizers released", "controller", key.String(), "kinds", len(gone))
	others := slices.DeleteFunc(o.Finalizers(), func(name string) bool { return name == setpoint.FinalizerReleaseParents })
	return cs.patchFinalizers(ctx, key, o, others)
}

// recordReleaseFailure reports why finalizers are not removed.
func (cs *controllerSet) recordReleaseFailure(key queue.Key, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, errNotOwner) || apierrors.IsConflict(err) {
		return
	}
	cs.manager.log.Warn("finalizers not released; retrying", "controller", key.String(), "error", err.Error())
	cs.mu.Lock()
	e := cs.entries[key]
	if e != nil && e.releasing != "" {
		e.releasing = err.Error()
	}
	cs.mu.Unlock()
	if o := cs.kinds[key.Namespace].view.Get("", key.Name); o != nil {
		cs.manager.events.Event(o, hook.Event{Type: "Warning", Reason: setpoint.ReasonReleasing, Message: err.Error()})
	}
}
