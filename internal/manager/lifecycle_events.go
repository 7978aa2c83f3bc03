package manager

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// recordStarted and recordStopped record the same events as Metacontroller on controllers
// that it serves too: users wait for these events.
func (cs *controllerSet) recordStarted(key queue.Key, declared *object.Object) {
	cs.recordLifecycle(key, declared, hook.Event{Reason: metacontroller.EventStarting, Message: "Starting controller: " + key.Name},
		hook.Event{Reason: metacontroller.EventStarted, Message: "Started controller: " + key.Name})
}

func (cs *controllerSet) recordStopped(key queue.Key, declared *object.Object) {
	if cs.manager.leader.Leads() {
		cs.recordLifecycle(key, declared, hook.Event{Reason: metacontroller.EventStopping, Message: "Stopping controller: " + key.Name},
			hook.Event{Reason: metacontroller.EventStopped, Message: "Stopped controller: " + key.Name})
	}
}

func (cs *controllerSet) recordLifecycle(key queue.Key, declared *object.Object, phases ...hook.Event) {
	if declared == nil || !cs.isMetacontrollerKind(key) {
		return
	}
	for _, phase := range phases {
		phase.Type = corev1.EventTypeNormal
		cs.manager.events.Event(declared, phase)
	}
}

// isMetacontrollerKind reports whether Metacontroller serves this kind too.
func (cs *controllerSet) isMetacontrollerKind(key queue.Key) bool {
	kind := cs.kinds[key.Namespace]
	return kind != nil && kind.Metacontroller()
}

// recordTransitions records a warning for each condition that became False, and for code that is
// outdated. Failures of hooks are recorded on the parents instead.
func (cs *controllerSet) recordTransitions(key queue.Key, s *controllerState, before, now []metav1.Condition) {
	for _, condition := range now {
		previous := meta.FindStatusCondition(before, condition.Type)
		turned := previous == nil || previous.Status != condition.Status || previous.Reason != condition.Reason
		warns := condition.Status == metav1.ConditionFalse || condition.Reason == setpoint.ReasonSourceOutdated
		if !warns || !turned {
			continue
		}
		if event, found := cs.warningFor(key, s, condition); found {
			cs.manager.events.Event(s.object, event)
		}
	}
}

// warningFor returns the event for a condition that became False, if it has one. The reason
// is the condition's, or Metacontroller's for its kinds.
func (cs *controllerSet) warningFor(key queue.Key, s *controllerState, condition metav1.Condition) (event hook.Event, found bool) {
	event = hook.Event{Type: corev1.EventTypeWarning, Reason: condition.Reason, Message: condition.Message}
	switch condition.Type {
	case setpoint.ConditionAccepted:
		if _, refused := errors.AsType[*compile.Refusal](s.refusal); refused && cs.isMetacontrollerKind(key) {
			event.Reason, event.Message = metacontroller.EventCreateError, "Cannot create new controller: "+condition.Reason+": "+
				condition.Message
		}
	case setpoint.ConditionStatusStored:
		if cs.isMetacontrollerKind(key) {
			event.Reason, event.Message = metacontroller.EventSyncError, "["+key.Name+"] Sync error - "+condition.Message
		}
	case setpoint.ConditionCRDCurrent:
	default:
		return event, false
	}
	event.Message = events.Text(event.Message, "; see the condition "+condition.Type+" for the rest")
	return event, true
}
