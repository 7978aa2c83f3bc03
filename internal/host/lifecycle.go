package host

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// tellStarted and tellStopped record, at a controller that Metacontroller serves too,
// that it was started or stopped, as Metacontroller does: users wait for these events.
func (f *fleet) tellStarted(key queue.Key, declared *object.Object) {
	f.tellPhases(key, declared, hook.Event{Reason: metacontroller.EventStarting, Message: "Starting controller: " + key.Name},
		hook.Event{Reason: metacontroller.EventStarted, Message: "Started controller: " + key.Name})
}

func (f *fleet) tellStopped(key queue.Key, declared *object.Object) {
	if f.host.office.leads() {
		f.tellPhases(key, declared, hook.Event{Reason: metacontroller.EventStopping, Message: "Stopping controller: " + key.Name},
			hook.Event{Reason: metacontroller.EventStopped, Message: "Stopped controller: " + key.Name})
	}
}

func (f *fleet) tellPhases(key queue.Key, declared *object.Object, phases ...hook.Event) {
	if declared == nil || !f.published(key) {
		return
	}
	for _, phase := range phases {
		phase.Type = corev1.EventTypeNormal
		f.host.events.Tell(declared, phase)
	}
}

// published says that Metacontroller serves the controllers of this kind too.
func (f *fleet) published(key queue.Key) bool {
	kind := f.kinds[key.Namespace]
	return kind != nil && kind.Metacontroller()
}

// tellTurns warns, at a controller, of each condition that has become False and is not
// about its hook, of which the parents' own events speak.
func (f *fleet) tellTurns(key queue.Key, s *state, before, now []metav1.Condition) {
	for _, condition := range now {
		former := meta.FindStatusCondition(before, condition.Type)
		turned := former == nil || former.Status != condition.Status || former.Reason != condition.Reason
		if condition.Status != metav1.ConditionFalse || !turned {
			continue
		}
		if event, told := f.warningOf(key, s, condition); told {
			f.host.events.Tell(s.object, event)
		}
	}
}

// warningOf is the event that a condition which turned False is worth, if any. Its
// reason is the condition's, or that of Metacontroller where it has one for it.
func (f *fleet) warningOf(key queue.Key, s *state, condition metav1.Condition) (event hook.Event, told bool) {
	event = hook.Event{Type: corev1.EventTypeWarning, Reason: condition.Reason, Message: condition.Message}
	switch condition.Type {
	case setpoint.ConditionAccepted:
		if _, refused := errors.AsType[*compile.Refusal](s.refusal); refused && f.published(key) {
			event.Reason, event.Message = metacontroller.EventCreateError, "Cannot create new controller: "+condition.Reason+": "+condition.Message
		}
	case setpoint.ConditionStatusStored:
		if f.published(key) {
			event.Reason, event.Message = metacontroller.EventSyncError, "["+key.Name+"] Sync error - "+condition.Message
		}
	case setpoint.ConditionCRDCurrent:
	default:
		return event, false
	}
	return event, true
}
