package host

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// recallDeletions reminds a controller that begins its work of deletions that were
// held when its status was last written.
func (f *fleet) recallDeletions(key queue.Key, r *running) {
	kind := f.kinds[key.Namespace]
	if r.deletions == nil || kind == nil {
		return
	}
	if stored := kind.view.Get("", key.Name); stored != nil && holdsDeletions(formerStatus(stored).Conditions) {
		r.deletions.Recall()
	}
}

func holdsDeletions(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, setpoint.ConditionDeletionsHeld)
}

// allowDeletions passes on that a person confirms deletions of all parents.
func (r *running) allowDeletions(declared *object.Object) {
	if r.deletions != nil && declared != nil {
		r.deletions.Allow(plan.Annotation(declared, setpoint.AnnotationAllowDeletions))
	}
}

// deletionsHeld says whether the deletion guard holds deletions of a controller, and
// how to let them go on.
func deletionsHeld(name string, held engine.Held) finding {
	if held.Deletions == 0 {
		return finding{false, setpoint.ReasonNothingHeld, "no deletions are held"}
	}
	return finding{true, setpoint.ReasonTooManyDeletions, fmt.Sprintf(
		"%d deletions of children of %d parents are held: the responses of the hook leave them out all at once; correct the hook, or confirm with `setpoint allow-deletions %s`, which sets the annotation %s=%s",
		held.Deletions, held.Parents, name, setpoint.AnnotationAllowDeletions, held.Value)}
}

// setDeletionsHeld sets what the status says of held deletions. Shortly after a
// restart it is not known, and what was said stands.
func setDeletionsHeld(status *setpoint.ControllerStatus, name string, generation int64, health engine.Health) {
	held := health.Held
	if health.HeldUnknown || held.Deletions == 0 && meta.FindStatusCondition(status.Conditions, setpoint.ConditionDeletionsHeld) == nil {
		return
	}
	found := deletionsHeld(name, held)
	meta.SetStatusCondition(&status.Conditions, found.condition(setpoint.ConditionDeletionsHeld, generation))
	meta.RemoveStatusCondition(&status.Conditions, setpoint.ConditionStalled)
	status.HeldDeletions = nil
	if held.Deletions > 0 {
		stalled := found.condition(setpoint.ConditionStalled, generation)
		stalled.LastTransitionTime = meta.FindStatusCondition(status.Conditions, setpoint.ConditionDeletionsHeld).LastTransitionTime
		meta.SetStatusCondition(&status.Conditions, stalled)
		status.HeldDeletions = &setpoint.HeldDeletions{Count: int32Of(held.Deletions), Parents: int32Of(held.Parents), Value: held.Value}
	}
}

// tellDeletionsHeld warns at a controller whose status did not say so before.
func (f *fleet) tellDeletionsHeld(m *member, former, now setpoint.ControllerStatus) {
	if holdsDeletions(former.Conditions) || !holdsDeletions(now.Conditions) {
		return
	}
	said := meta.FindStatusCondition(now.Conditions, setpoint.ConditionDeletionsHeld)
	f.host.events.Tell(m.object, hook.Event{Type: "Warning", Reason: engine.ReasonDeletionsHeld, Message: said.Message})
}
