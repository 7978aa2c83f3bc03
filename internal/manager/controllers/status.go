package controllers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// reportEvery is the interval of status reports, and so the least time between two writes of one status.
const reportEvery = time.Second

// reporter stores the status of controller objects, and records events on them when it changes.
type reporter struct {
	shared

	ownership *ownership
	rollouts  *rollouts
}

// reportStatuses updates the status of all controller objects.
func (r *reporter) reportStatuses(ctx context.Context) {
	r.ResetReported()
	r.ownership.unselected.Store(true) // Labels may have changed while no process led.
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.ownership.unselected.Swap(false) {
			if err := r.ownership.reportUnselected(ctx); err != nil {
				r.ownership.unselected.Store(true)
				r.Log.Debug("controller status not stored", "error", err.Error())
			}
		}
		for key := range r.registry.all() {
			e := r.registry.get(key) // Each is as it is now: reports before it take time.
			r.reportStatus(ctx, &e)
		}
	}, reportEvery)
}

// ResetReported forces new reports: another leader, or another CRD schema, may have changed what is stored.
func (r *reporter) ResetReported() {
	for key := range r.registry.all() {
		r.registry.change(key, func(e *controllerEntry) { e.lastReported = declared.Reported{} })
	}
}

// reportStatus stores the status of one controller object if it has changed. The next report retries a failure.
func (r *reporter) reportStatus(ctx context.Context, e *controllerEntry) {
	if r.cached(e) == nil || e.refused(setpoint.ReasonConflictingSetpoint) {
		return
	}
	notStored := func(err error) {
		r.Log.Debug("controller status not stored", "controller", e.key.String(), "error", err.Error())
	}
	switch taken, err := r.ownership.take(ctx, e.key); {
	case err != nil: // The next report stores the owner.
		notStored(err)
		return
	case !taken && e.running != nil:
		r.queue.Add(e.key, queue.Cause{Kind: queue.ParentChanged}) // Another Setpoint has taken it.
		return
	case !taken:
		return
	}
	stored := r.cached(e) // Taking it may have written it.
	if stored == nil {
		return
	}
	previous := e.lastReported.Previous(stored)
	status := r.nextStatus(ctx, e, previous, stored)
	if e.running != nil {
		e.running.QueueOlder()
	}
	if equality.Semantic.DeepEqual(previous, status) {
		r.rollouts.carryOut(e)
		return
	}
	now := declared.Reported{Status: status, Stored: e.lastReported.Stored, Written: true}
	if !e.lastReported.Pruned(stored) {
		patch, err := declared.StatusPatch(stored, previous, status)
		if err == nil {
			err = r.declared.Patch(ctx, e.key, "/status", patch)
		}
		if err != nil {
			notStored(err)
			return
		}
		now.Stored = declared.ComparableStatus(r.declared.Get(e.key))
	}
	r.rollouts.carryOut(e)
	r.rollouts.recordStep(e, previous, status)
	r.recordTransitions(&e.controllerState, previous.Conditions, status.Conditions)
	r.registry.change(e.key, func(current *controllerEntry) {
		if current.object.UID() == e.object.UID() { // Else it was created again meanwhile.
			current.lastReported = now
		}
	})
	if !HasHeldDeletions(previous.Conditions) && HasHeldDeletions(status.Conditions) {
		held := meta.FindStatusCondition(status.Conditions, setpoint.ConditionDeletionsHeld)
		r.Events.Event(e.object, hook.Event{Type: "Warning", Reason: composite.ReasonDeletionsHeld, Message: held.Message})
	}
}

// nextStatus returns the status that follows the previous one.
func (r *reporter) nextStatus(ctx context.Context, e *controllerEntry, previous setpoint.ControllerStatus,
	stored *object.Object) setpoint.ControllerStatus {
	// This comes before the health: held deletions that take a rollout back have to be in its status.
	var observed rollout.Observed
	if e.running != nil {
		observed = e.running.ObserveRollout(previous.Rollout)
	}
	status := e.currentStatus(previous, r.crdCondition(e.key))
	r.rollouts.advance(ctx, e, &status, stored, observed)
	r.rollouts.followLogicVersion(e, &status)
	return status
}

// cached returns the cached object of a controller; nil if it is gone, or another one by now.
func (r *reporter) cached(e *controllerEntry) *object.Object {
	stored := r.declared.Get(e.key)
	if stored == nil || e.object == nil || stored.UID() != e.object.UID() {
		return nil
	}
	return stored
}

// currentStatus computes the current status.
func (e *controllerEntry) currentStatus(previous setpoint.ControllerStatus, crd conditionState) setpoint.ControllerStatus {
	if e.releasing != "" {
		// The other conditions stay as they are.
		previous.Conditions = slices.Clone(previous.Conditions)
		ready := e.ready(conditionState{}, controller.Health{})
		meta.SetStatusCondition(&previous.Conditions, ready.condition(setpoint.ConditionReady, e.object.Generation()))
		return previous
	}
	health, _ := e.health()
	condition := e.accepted(health)
	status := newStatus(previous, e.object.Generation(), condition, e.ready(condition, health), health)
	status.Kinds = usedKinds(previous.Kinds, e.running)
	setDeletionsHeld(&status, e.key.String(), e.object.Generation(), health)
	e.setProblemCondition(&status, setpoint.ConditionStatusStored, e.statusStoredCondition())
	e.setProblemCondition(&status, setpoint.ConditionCRDCurrent, crd)
	return status
}

// newStatus returns the status to store. Conditions keep their last transition time.
func newStatus(previous setpoint.ControllerStatus, generation int64, accepted, ready conditionState,
	health controller.Health) setpoint.ControllerStatus {
	status := previous
	status.ObservedGeneration, status.Conditions = generation, slices.Clone(previous.Conditions)
	status.Parents, status.Children = clampInt32(health.Parents), clampInt32(health.Children)
	status.ParentsInError, status.Paused = clampInt32(health.Failing), clampInt32(health.Paused)
	meta.SetStatusCondition(&status.Conditions, accepted.condition(setpoint.ConditionAccepted, generation))
	meta.SetStatusCondition(&status.Conditions, ready.condition(setpoint.ConditionReady, generation))
	if health.Conflicting > 0 || meta.FindStatusCondition(status.Conditions, setpoint.ConditionConflicting) != nil {
		meta.SetStatusCondition(&status.Conditions, conflictCondition(health).condition(setpoint.ConditionConflicting, generation))
	}
	if !health.LastError.Time.IsZero() {
		status.LastError = &setpoint.LastError{
			Message: health.LastError.Message, Object: health.LastError.Object,
			Time: metav1.NewTime(health.LastError.Time.Truncate(time.Second)),
		}
	}
	return status
}

// maxUsedKinds limits the kinds in a status. A customize hook may select any number of them over time.
const maxUsedKinds = 100

// usedKinds returns the kinds in the status of a controller: those before, and those that it uses now.
func usedKinds(before []setpoint.UsedKind, r *running.Controller) []setpoint.UsedKind {
	if r == nil {
		return before
	}
	all := slices.Clone(before)
	for _, kind := range append(running.KindsOf(r.Compiled), r.RelatedKinds()...) {
		used := setpoint.UsedKind{APIVersion: kind.APIVersion(), Resource: kind.Plural, Kind: kind.Kind, Namespaced: kind.Namespaced}
		if kind.Custom && !kind.Unserved && len(all) < maxUsedKinds && !slices.Contains(all, used) {
			all = append(all, used)
		}
	}
	slices.SortFunc(all, func(a, b setpoint.UsedKind) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Resource, b.Resource))
	})
	return all
}

// recordTransitions records a warning for each condition that became False, and for code that is
// outdated. Failures of hooks are recorded on the parents instead.
func (r *reporter) recordTransitions(s *controllerState, before, now []metav1.Condition) {
	for _, condition := range now {
		previous := meta.FindStatusCondition(before, condition.Type)
		turned := previous == nil || previous.Status != condition.Status || previous.Reason != condition.Reason
		warns := condition.Status == metav1.ConditionFalse || condition.Reason == setpoint.ReasonSourceOutdated
		if !warns || !turned {
			continue
		}
		if event, found := r.warningFor(s, condition); found {
			r.Events.Event(s.object, event)
		}
	}
}

// warningFor returns the event for a condition that became False, if it has one. The reason
// is the condition's, or Metacontroller's for its kinds.
func (r *reporter) warningFor(s *controllerState, condition metav1.Condition) (event hook.Event, found bool) {
	event = hook.Event{Type: corev1.EventTypeWarning, Reason: condition.Reason, Message: condition.Message}
	switch condition.Type {
	case setpoint.ConditionAccepted:
		if _, refused := errors.AsType[*compile.Refusal](s.refusal); refused && r.declared.ForMetacontroller(s.key) {
			event.Reason, event.Message = metacontroller.EventCreateError, "Cannot create new controller: "+condition.Reason+": "+
				condition.Message
		}
	case setpoint.ConditionStatusStored:
		if r.declared.ForMetacontroller(s.key) {
			event.Reason, event.Message = metacontroller.EventSyncError, "["+s.key.Name+"] Sync error - "+condition.Message
		}
	case setpoint.ConditionCRDCurrent:
	default:
		return event, false
	}
	event.Message = events.Text(event.Message, "; see the condition "+condition.Type+" for the rest")
	return event, true
}
