package manager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// restoreHeldDeletions restores the deletions that a starting controller held when its
// status was last written.
func (cs *controllerSet) restoreHeldDeletions(key queue.Key, r *runningController) {
	kind := cs.kinds[key.Namespace]
	if r.deletions == nil || kind == nil {
		return
	}
	if stored := kind.view.Get("", key.Name); stored != nil && hasHeldDeletions(storedStatus(stored).Conditions) {
		r.deletions.RestoreHeld()
	}
}

func hasHeldDeletions(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, setpoint.ConditionDeletionsHeld)
}

// allowDeletions confirms the held deletions of all parents.
func (r *runningController) allowDeletions(declared *object.Object) {
	if r.deletions != nil && declared != nil {
		r.deletions.Allow(plan.Annotation(declared, setpoint.AnnotationAllowDeletions))
	}
}

// deletionsHeldCondition reports whether the deletion guard holds deletions, and how to
// confirm them.
func deletionsHeldCondition(name string, held controller.HeldDeletions) conditionState {
	if held.Count == 0 {
		return conditionState{false, setpoint.ReasonNothingHeld, "no deletions are held"}
	}
	return conditionState{true, setpoint.ReasonTooManyDeletions, fmt.Sprintf(
		"%d deletions of children of %d parents are held: the hook's responses omit them all at once; correct the hook, or confirm with "+
			"`setpoint allow-deletions %s`, which sets the annotation %s=%s",
		held.Count, held.Parents, name, setpoint.AnnotationAllowDeletions, held.Value)}
}

// setDeletionsHeld sets the conditions and fields of held deletions. Shortly after a
// restart they are unknown, and the previous ones stay.
func setDeletionsHeld(status *setpoint.ControllerStatus, name string, generation int64, health controller.Health) {
	held := health.Held
	if health.HeldUnknown || held.Count == 0 && meta.FindStatusCondition(status.Conditions, setpoint.ConditionDeletionsHeld) == nil {
		return
	}
	found := deletionsHeldCondition(name, held)
	meta.SetStatusCondition(&status.Conditions, found.condition(setpoint.ConditionDeletionsHeld, generation))
	meta.RemoveStatusCondition(&status.Conditions, setpoint.ConditionStalled)
	status.HeldDeletions = nil
	if held.Count > 0 {
		stalled := found.condition(setpoint.ConditionStalled, generation)
		stalled.LastTransitionTime = meta.FindStatusCondition(status.Conditions, setpoint.ConditionDeletionsHeld).LastTransitionTime
		meta.SetStatusCondition(&status.Conditions, stalled)
		status.HeldDeletions = &setpoint.HeldDeletions{Count: clampInt32(held.Count), Parents: clampInt32(held.Parents), Value: held.Value}
	}
}

// recordDeletionsHeld records a warning when deletions become held.
func (cs *controllerSet) recordDeletionsHeld(e *controllerEntry, previous, now setpoint.ControllerStatus) {
	if hasHeldDeletions(previous.Conditions) || !hasHeldDeletions(now.Conditions) {
		return
	}
	held := meta.FindStatusCondition(now.Conditions, setpoint.ConditionDeletionsHeld)
	cs.manager.events.Event(e.object, hook.Event{Type: "Warning", Reason: composite.ReasonDeletionsHeld, Message: held.Message})
}
