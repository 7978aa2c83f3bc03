package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Several installations of Setpoint may run in one cluster. Each controller object has one of them,
// which runs the controller and writes its status: status.managedBy names it by its Lease. The others
// refuse the controller while that Lease is renewed.

// instance returns how this Manager appears in a status; nil if it has no Lease by which others see
// that it is alive.
func (m *Manager) instance() *setpoint.Instance {
	o, e := &m.options, &m.options.LeaderElection
	if len(o.GoControllers) > 0 || !e.Enabled && !m.processLease.Usable() {
		return nil
	}
	return &setpoint.Instance{Lease: e.Namespace + "/" + e.Name, Namespaces: slices.Sorted(slices.Values(o.Namespaces))}
}

// isInstance reports whether this Manager, which appears as own, or another replica is the one in a status. Without
// leader election, processes with other namespaces are no replicas.
func (m *Manager) isInstance(own, managedBy *setpoint.Instance) bool {
	return managedBy.Lease == own.Lease && (m.options.LeaderElection.Enabled || slices.Equal(managedBy.Namespaces, own.Namespaces))
}

// otherOwner returns the other running Setpoint that manages a controller object; nil for none.
func (m *Manager) otherOwner(ctx context.Context, declared *object.Object) (*setpoint.Instance, error) {
	own, managedBy := m.instance(), compile.StoredStatus(declared).ManagedBy
	if own == nil || managedBy == nil || m.isInstance(own, managedBy) {
		return nil, nil //nolint:nilnil // No other Setpoint manages it.
	}
	namespace, name, _ := strings.Cut(managedBy.Lease, "/")
	// Without leader election it has another Lease.
	for _, one := range []string{name, leader.Election{Name: name}.ProcessLeaseName(managedBy.Namespaces)} {
		state, err := m.leases.Observe(ctx, types.NamespacedName{Namespace: namespace, Name: one})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return managedBy, fmt.Errorf("read its Lease %s/%s: %w", namespace, one, err)
		case state.Holder != "" && !state.Expired:
			return managedBy, nil
		}
	}
	return nil, nil //nolint:nilnil // It is gone.
}

// checkOwner refuses a controller that another running Setpoint manages.
func (m *Manager) checkOwner(ctx context.Context, declared *object.Object) error {
	other, err := m.otherOwner(ctx, declared)
	if other == nil {
		return nil
	}
	in := "all namespaces"
	if len(other.Namespaces) > 0 {
		in = "namespaces " + strings.Join(other.Namespaces, ", ")
	}
	why := fmt.Errorf("the Setpoint with the Lease %s manages this controller, in %s; give each Setpoint controllers of its own with "+
		"--selector, or stop one", other.Lease, in)
	if err != nil {
		why = fmt.Errorf("%w; whether it still runs is not known: %s", why, failure.OneLine(err))
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingSetpoint, Err: why}
}

// take makes this Setpoint the owner of a controller object. It returns false if another one is, or
// the object is gone. Of two that take it at once, the API server lets one win.
func (cs *controllerSet) take(ctx context.Context, key queue.Key) (bool, error) {
	own := cs.manager.instance()
	if own == nil {
		return true, nil
	}
	stored := cs.kinds[key.Namespace].view.Get("", key.Name)
	if stored == nil {
		return false, nil
	}
	managedBy := compile.StoredStatus(stored).ManagedBy
	if reflect.DeepEqual(managedBy, own) || managedBy == nil && cs.hasTaken(key, stored) {
		return true, nil
	}
	if other, _ := cs.manager.otherOwner(ctx, stored); other != nil {
		return false, nil
	}
	return cs.storeOwner(ctx, key, stored, own)
}

// hasTaken reports whether this process has stored itself as the owner of an object. The schema of
// an older CRD prunes the field.
func (cs *controllerSet) hasTaken(key queue.Key, o *object.Object) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	e := cs.entries[key]
	return e != nil && e.taken == o.UID()
}

// storeOwner stores the owner of a controller object, if the object is unchanged.
func (cs *controllerSet) storeOwner(ctx context.Context, key queue.Key, o *object.Object, own *setpoint.Instance) (bool, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID()},
		// A null removes the namespaces of a former owner.
		"status": map[string]any{"managedBy": map[string]any{"lease": own.Lease, "namespaces": own.Namespaces}},
	})
	if err != nil {
		return false, err
	}
	if err := cs.patchStatus(ctx, key, body); err != nil {
		return false, fmt.Errorf("store the owner in the status of %s: %w", key, err)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if e := cs.entries[key]; e != nil {
		e.taken = strings.Clone(o.UID())
	}
	return true, nil
}

// awaitOwnership takes a controller object before its controller runs. It returns false if the
// context ends or another Setpoint was faster: then the controller is refused.
func (cs *controllerSet) awaitOwnership(ctx context.Context, key queue.Key) (taken bool) {
	if cs.goControllerIndex(key) >= 0 {
		return true
	}
	backoff := wait.Backoff{Duration: minRetryDelay, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	logged := ""
	err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var err error
		taken, err = cs.take(ctx, key)
		if err != nil && !apierrors.IsConflict(err) && err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			cs.manager.log.Warn("controller not taken; retrying", "controller", key.String(), "error", logged)
		}
		return err == nil, nil
	})
	if err == nil && !taken {
		cs.queue.Add(key, queue.Cause{Kind: queue.ParentChanged})
	}
	return err == nil && taken
}

// recheckOwner reconciles a running controller whose object another Setpoint has taken. An error is
// one of storing the owner, which the next report retries.
func (cs *controllerSet) recheckOwner(key queue.Key, e *controllerEntry, err error) {
	switch {
	case err != nil:
		cs.manager.log.Debug("controller status not stored", "controller", key.String(), "error", err.Error())
	case e.running != nil:
		cs.queue.Add(key, queue.Cause{Kind: queue.ParentChanged})
	}
}

// errNotOwner means that another Setpoint manages a controller object.
var errNotOwner = errors.New("another Setpoint manages the controller")

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
			managedBy := compile.StoredStatus(o).ManagedBy
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
	conditions := slices.Clone(compile.StoredStatus(o).Conditions)
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
