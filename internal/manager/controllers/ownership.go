package controllers

import (
	"cmp"
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
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
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

// releaser removes finalizers from parents: for deleted controllers, and where a controller has no finalize hook, or no
// longer the kind of parents. The progress is stored in the controller objects, so that the next leader continues.
type releaser struct {
	shared

	ownership *ownership
	// releases holds the controller objects whose finalizers are to be removed.
	releases *queue.Queue
	// outside are the generations of controllers whose parents outside of their namespaces are released. Only
	// the worker of the queue uses it.
	outside map[queue.Key]string
}

// releaseAll removes finalizers until the context ends.
func (l *releaser) releaseAll(ctx context.Context) {
	for key, o := range l.declared.All() {
		l.enqueue(key, o)
	}
	l.releases.Work(ctx, 1, func(ctx context.Context, item queue.Item) queue.Outcome {
		if err := l.release(ctx, item.Key); err != nil && ctx.Err() == nil {
			l.recordFailure(item.Key, err)
			return queue.Retry()
		}
		return queue.NoRequeue()
	})
}

// enqueue enqueues a controller object that may have finalizers to remove.
func (l *releaser) enqueue(key queue.Key, o *object.Object) {
	if finalizers.ReleasesParents(o) {
		l.releases.Add(key, queue.Cause{Kind: queue.ParentChanged})
	}
}

// release removes the finalizers of one controller object. It does nothing while a
// running controller would set them again; it is called again when that has stopped.
func (l *releaser) release(ctx context.Context, key queue.Key) error {
	kind := l.declared.Kind(key)
	o := l.declared.Get(key)
	if o == nil || !finalizers.ReleasesParents(o) {
		return nil
	}
	if taken, err := l.ownership.take(ctx, key); err != nil || !taken {
		return cmp.Or(err, errNotOwner)
	}
	foot, env := kind.Footprint(o), l.Environment()
	removal := finalizers.Removal{Cluster: l.Finalizers, Finalizer: foot.Finalizer, Account: env.AccountOf(foot.Identity),
		Namespaces: foot.Namespaces}
	gone := foot.FinalizerRemovals(compile.StoredStatus(o).Finalizes, o.Deleting())
	for _, resource := range gone {
		if r := l.registry.get(key).running; r != nil && r.Finalizes() && resource.InList(r.ParentKinds()) {
			return nil // It would set its finalizer again.
		}
		if err := removal.RemoveFrom(ctx, resource); err != nil {
			return fmt.Errorf("remove the finalizer %s from %s: %w", foot.Finalizer, resource, err)
		}
	}
	if err := l.releaseOutside(ctx, key, o, &foot); err != nil {
		return err
	}
	err := l.patchReleased(ctx, key, o, gone)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// releaseOutside removes the finalizer from parents outside of the namespaces in the spec, which may have had others
// before. It does so once for each generation that runs.
func (l *releaser) releaseOutside(ctx context.Context, key queue.Key, o *object.Object, foot *compile.Footprint) error {
	declared := l.registry.get(key).object
	runs := declared != nil && declared.UID() == o.UID() && declared.Generation() == o.Generation()
	generation := fmt.Sprint(o.UID(), o.Generation())
	if !runs || !foot.Finalizes || o.Deleting() || l.outside[key] == generation {
		return nil
	}
	env, released := l.Environment(), int64(0)
	for i, resource := range foot.Parents {
		if len(foot.Limits[i]) == 0 {
			continue
		}
		removal := finalizers.Removal{Cluster: l.Finalizers, Finalizer: foot.Finalizer, Account: env.AccountOf(foot.Identity),
			Outside: foot.Limits[i]}
		if err := removal.RemoveFrom(ctx, resource); err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("remove the finalizer %s from %s outside of the controller's namespaces: %w", foot.Finalizer, resource, err)
		}
		released += removal.Removed.Load()
	}
	l.outside[key] = generation
	if released > 0 {
		l.Events.Event(o, hook.Event{Type: "Normal", Reason: controller.ReasonReleased,
			Message: fmt.Sprintf("removed the finalizer %s from %s outside of the namespaces in the spec, without a call of a hook",
				foot.Finalizer, finalizers.CountObjects(int(released)))})
	}
	return nil
}

// patchReleased removes kinds from the status, and Setpoint's finalizer from the controller object if no kind is left.
func (l *releaser) patchReleased(ctx context.Context, key queue.Key, o *object.Object, gone []compile.ResourceName) error {
	kind := l.declared.Kind(key)
	before := compile.StoredStatus(o).Finalizes
	after := slices.DeleteFunc(slices.Clone(before), func(text string) bool { return compile.ParseResourceName(text).InList(gone) })
	if len(after) != len(before) {
		if err := l.declared.PatchFinalizedKinds(ctx, key, o, after); err != nil {
			return err
		}
		o = l.declared.Get(key)
	}
	if o == nil || kind.Footprint(o).Finalizes && !o.Deleting() {
		return nil
	}
	l.Log.Info("finalizers released", "controller", key.String(), "kinds", len(gone))
	others := slices.DeleteFunc(o.Finalizers(), func(name string) bool { return name == setpoint.FinalizerReleaseParents })
	return l.declared.PatchFinalizers(ctx, key, o, others)
}

// recordFailure reports why finalizers are not removed.
func (l *releaser) recordFailure(key queue.Key, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, errNotOwner) || apierrors.IsConflict(err) {
		return
	}
	l.Log.Warn("finalizers not released; retrying", "controller", key.String(), "error", err.Error())
	l.registry.change(key, func(e *controllerEntry) {
		if e.releasing != "" {
			e.releasing = err.Error()
		}
	})
	if o := l.declared.Get(key); o != nil {
		l.Events.Event(o, hook.Event{Type: "Warning", Reason: setpoint.ReasonReleasing, Message: err.Error()})
	}
}

// setFinalizer sets Setpoint's finalizer on a controller object and stores in its status
// which kinds of parents have finalizers, so that they are released before the controller
// object is deleted. It returns false if the context ends first.
func (a *shared) setFinalizer(ctx context.Context, key queue.Key, r *running.Controller) bool {
	if !r.Finalizes() {
		return true
	}
	return prepare(ctx, a.Log, key, func(ctx context.Context) error { return a.trySetFinalizer(ctx, key, r) })
}

func (a *shared) trySetFinalizer(ctx context.Context, key queue.Key, r *running.Controller) error {
	declared := a.declared.Get(key)
	if declared == nil || declared.Deleting() {
		return fmt.Errorf("%s is being deleted", key)
	}
	before := compile.StoredStatus(declared).Finalizes
	finalizes := lists.Union(slices.Clone(before), lists.Map(r.ParentKinds(), compile.ResourceName.String))
	if len(finalizes) != len(before) {
		if err := a.declared.PatchFinalizedKinds(ctx, key, declared, finalizes); err != nil {
			return err
		}
		declared = a.declared.Get(key)
	}
	if declared == nil || finalizers.ReleasesParents(declared) {
		return nil
	}
	return a.declared.PatchFinalizers(ctx, key, declared, append(declared.Finalizers(), setpoint.FinalizerReleaseParents))
}
