package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reportEvery is the interval of status reports, and so the least time between two writes of
// one status.
const reportEvery = time.Second

// reporter stores the status of controller objects, and records events on them when it changes.
type reporter struct {
	*Dependencies
	declared  *declarations
	registry  *registry
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
		for key, e := range r.registry.all() {
			r.reportStatus(ctx, key, e)
		}
	}, reportEvery)
}

// ResetReported forces new reports: another leader, or another CRD schema, may have changed
// what is stored.
func (r *reporter) ResetReported() {
	for _, e := range r.registry.all() {
		r.registry.change(e, func(e *controllerEntry) { e.lastReported = reportedStatus{} })
	}
}

// reportStatus stores the status of one controller object if it has changed. The next report
// retries a failure.
func (r *reporter) reportStatus(ctx context.Context, key queue.Key, e *controllerEntry) {
	subject := r.registry.copyOf(e)
	if r.stored(key, &subject) == nil || subject.refused(setpoint.ReasonConflictingSetpoint) {
		return
	}
	switch taken, err := r.ownership.take(ctx, key); {
	case err != nil: // The next report stores the owner.
		r.Log.Debug("controller status not stored", "controller", key.String(), "error", err.Error())
		return
	case !taken && subject.running != nil:
		r.ownership.queue.Add(key, queue.Cause{Kind: queue.ParentChanged}) // Another Setpoint has taken it.
		return
	case !taken:
		return
	}
	stored := r.stored(key, &subject) // Taking it may have written it.
	if stored == nil {
		return
	}
	previous := subject.lastReported.previous(stored)
	status := r.nextStatus(ctx, &subject, previous, stored)
	r.rollouts.queueOlder(subject.running)
	if equality.Semantic.DeepEqual(previous, status) {
		r.rollouts.carryOut(key, &subject)
		return
	}
	now := reportedStatus{status: status, stored: subject.lastReported.stored, written: true}
	if !subject.lastReported.pruned(stored) {
		patch, err := statusPatch(stored, previous, status)
		if err == nil {
			err = r.declared.patch(ctx, key, "/status", patch)
		}
		if err != nil {
			r.Log.Debug("controller status not stored", "controller", key.String(), "error", err.Error())
			return
		}
		now.stored = comparableStatus(r.declared.get(key))
	}
	r.rollouts.carryOut(key, &subject)
	r.rollouts.recordStep(&subject, previous, status)
	r.recordTransitions(key, &subject.controllerState, previous.Conditions, status.Conditions)
	r.registry.change(e, func(e *controllerEntry) { e.lastReported = now })
	if !HasHeldDeletions(previous.Conditions) && HasHeldDeletions(status.Conditions) {
		held := meta.FindStatusCondition(status.Conditions, setpoint.ConditionDeletionsHeld)
		r.Events.Event(subject.object, hook.Event{Type: "Warning", Reason: composite.ReasonDeletionsHeld, Message: held.Message})
	}
}

// nextStatus returns the status that follows the previous one.
func (r *reporter) nextStatus(ctx context.Context, e *controllerEntry, previous setpoint.ControllerStatus,
	stored *object.Object) setpoint.ControllerStatus {
	// This comes before the health: held deletions that take a rollout back have to be in its status.
	observed := e.observeRollout(previous.Rollout)
	status := e.status(previous, r.crdCondition(r.declared.kinds[e.kind]))
	r.rollouts.advance(ctx, e, &status, stored, observed)
	r.rollouts.followLogicVersion(e, &status)
	return status
}

// crdCondition returns the condition CRDCurrent of a controller kind.
func (d *Dependencies) crdCondition(kind *controllerKind) conditionState {
	if problem := d.CRDs.Problem(kind.Resource); problem != nil {
		return conditionState{false, failure.Reason(problem, ""), problem.Error()}
	}
	return conditionState{true, setpoint.ReasonCRDCurrent, "the CRD is the one of this Setpoint version"}
}

// stored returns the cached object of a controller; nil if it is gone, or another one by now.
func (r *reporter) stored(key queue.Key, e *controllerEntry) *object.Object {
	stored := r.declared.get(key)
	if stored == nil || e.object == nil || stored.UID() != e.object.UID() {
		return nil
	}
	return stored
}

// reportedStatus is the status that was written last, and what the API server stored of it:
// the schema of another CRD may prune fields.
type reportedStatus struct {
	written        bool
	status, stored setpoint.ControllerStatus
}

// previous returns the status that was written, if it is unchanged in the object, else the
// stored one.
func (r *reportedStatus) previous(o *object.Object) setpoint.ControllerStatus {
	stored := comparableStatus(o)
	if r.written && equality.Semantic.DeepEqual(stored, r.stored) {
		return r.status
	}
	return stored
}

// pruned reports whether the schema prunes the whole status, so that more writes are useless.
func (r *reportedStatus) pruned(o *object.Object) bool {
	none := setpoint.ControllerStatus{}
	return r.written && equality.Semantic.DeepEqual(r.stored, none) && equality.Semantic.DeepEqual(comparableStatus(o), none)
}

// comparableStatus returns the stored status without the fields that setFinalizer and take write.
func comparableStatus(o *object.Object) setpoint.ControllerStatus {
	if o == nil {
		return setpoint.ControllerStatus{}
	}
	stored := compile.StoredStatus(o)
	stored.Finalizes, stored.ManagedBy = nil, nil
	return stored
}

// statusPatch returns a merge patch from one status to another. The API server refuses it
// if the object is not the one that the status was computed from: a replica that does not know yet that another one
// leads must not take back where that has moved a rollout.
func statusPatch(of *object.Object, previous, now setpoint.ControllerStatus) (map[string]any, error) {
	before, err := fieldsOf(previous)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(now)
	if err != nil {
		return nil, err
	}
	// All fields are written: counts of 0 are the same for us as none, but not for who reads the object.
	return map[string]any{"metadata": identityOf(of), "status": object.CombinePatches(object.PatchBetween(before, after), after)}, nil
}

func fieldsOf(status setpoint.ControllerStatus) (fields map[string]any, err error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &fields)
	return fields, err
}

// status computes the current status.
func (e *controllerEntry) status(previous setpoint.ControllerStatus, crd conditionState) setpoint.ControllerStatus {
	if e.releasing != "" {
		// The other conditions stay as they are.
		previous.Conditions = slices.Clone(previous.Conditions)
		meta.SetStatusCondition(&previous.Conditions, readyCondition(conditionState{}, &e.controllerState,
			controller.Health{}).condition(setpoint.ConditionReady, e.object.Generation()))
		return previous
	}
	health, _ := e.health()
	condition := e.accepted(health)
	status := newStatus(previous, e.object.Generation(), condition, readyCondition(condition, &e.controllerState, health), health)
	status.Kinds = usedKinds(previous.Kinds, e.running)
	setDeletionsHeld(&status, e.name(), e.object.Generation(), health)
	e.setProblemCondition(&status, setpoint.ConditionStatusStored, e.statusStoredCondition())
	e.setProblemCondition(&status, setpoint.ConditionCRDCurrent, crd)
	return status
}

// name returns the name of the controller in commands.
func (e *controllerEntry) name() string { return e.kind + "/" + e.object.Name() }

// setProblemCondition sets a condition that is absent until its first problem.
func (e *controllerEntry) setProblemCondition(status *setpoint.ControllerStatus, kind string, found conditionState) {
	if !found.ok || meta.FindStatusCondition(status.Conditions, kind) != nil {
		meta.SetStatusCondition(&status.Conditions, found.condition(kind, e.object.Generation()))
	}
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

func clampInt32(n int) int32 { return int32(min(n, math.MaxInt32)) }

// maxUsedKinds limits the kinds in a status. A customize hook may select any number of them over time.
const maxUsedKinds = 100

// usedKinds returns the kinds in the status of a controller: those before, and those that it uses now.
func usedKinds(before []setpoint.UsedKind, running *runningController) []setpoint.UsedKind {
	if running == nil {
		return before
	}
	all := slices.Clone(before)
	for _, r := range append(allKinds(running.Compiled), running.relatedResources()...) {
		used := setpoint.UsedKind{APIVersion: r.APIVersion(), Resource: r.Plural, Kind: r.Kind, Namespaced: r.Namespaced}
		if r.Custom && !r.Unserved && len(all) < maxUsedKinds && !slices.Contains(all, used) {
			all = append(all, used)
		}
	}
	slices.SortFunc(all, func(a, b setpoint.UsedKind) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Resource, b.Resource))
	})
	return all
}
