package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// conditionState is the status, reason and message of a condition.
type conditionState struct {
	ok              bool
	reason, message string
}

// acceptedCondition reports whether the spec is valid and its kinds can be watched.
func acceptedCondition(refusal error, notes []string, health controller.Health) conditionState {
	if why, ok := errors.AsType[*compile.Refusal](refusal); ok {
		return conditionState{false, why.Reason, why.Error()}
	}
	for _, resource := range slices.Sorted(maps.Keys(health.WatchErrors)) {
		err := health.WatchErrors[resource]
		switch {
		case apierrors.IsForbidden(err):
			return conditionState{false, setpoint.ReasonForbidden, fmt.Sprintf("cannot list and watch %s: %v; grant it to Setpoint",
				resource, err)}
		case apierrors.IsNotFound(err):
			return conditionState{false, setpoint.ReasonResourceNotFound, resource + " is no longer served"}
		}
	}
	message := "the spec is valid and its kinds are served"
	if len(notes) > 0 {
		message += "; note: " + strings.Join(notes, "; ")
	}
	return conditionState{true, setpoint.ReasonAccepted, message}
}

// accepted returns the condition Accepted of a controller object.
func (s *controllerState) accepted(health controller.Health) conditionState {
	condition := acceptedCondition(s.problem(), s.notes, health)
	if condition.ok && s.outdated != nil {
		return conditionState{true, setpoint.ReasonSourceOutdated, s.outdated.Error() + "; the code before it stays in use"}
	}
	return condition
}

// readyCondition reports whether a controller works.
func readyCondition(accepted conditionState, s *controllerState, health controller.Health) conditionState {
	switch {
	case s.releasing != "":
		return conditionState{false, setpoint.ReasonReleasing, s.releasing}
	case accepted.reason == setpoint.ReasonAPIUnavailable:
		return accepted
	case !accepted.ok:
		return conditionState{false, setpoint.ReasonNotAccepted, "see the condition Accepted"}
	case s.suspended:
		return conditionState{false, setpoint.ReasonSuspended, "suspended: objects stay as they are, and no hook is called"}
	case len(health.WatchErrors) > 0:
		resource := slices.Min(slices.Collect(maps.Keys(health.WatchErrors)))
		return conditionState{false, setpoint.ReasonWatchFailing, fmt.Sprintf("watch %s: %v", resource, health.WatchErrors[resource])}
	case !health.Synced:
		return conditionState{false, setpoint.ReasonStarting, "caches are syncing"}
	case health.HookDown != "":
		return conditionState{false, setpoint.ReasonHookUnreachable, health.HookDown}
	case health.Overdue > 0:
		return conditionState{false, setpoint.ReasonCallOverdue, health.OverdueMessage}
	case !s.registeredCondition().ok:
		return s.registeredCondition()
	case health.StreamMessage != "":
		return conditionState{false, setpoint.ReasonNotificationsUnavailable, health.StreamMessage}
	case health.IndexMessage != "":
		return conditionState{false, setpoint.ReasonIndexIncomplete, health.IndexMessage}
	case nearlyAll(health.Forbidden, health):
		return conditionState{false, setpoint.ReasonForbidden, "the API server forbids what the controller does for all objects: " +
			health.ForbiddenMessage + "; " + s.rbacAdvice()}
	case nearlyAll(health.HookFailing, health):
		return conditionState{false, s.failingReason(), health.HookMessage}
	case nearlyAll(health.RelatedMissing, health):
		return conditionState{false, composite.ReasonRelatedMissing, health.RelatedMessage}
	case nearlyAll(health.Invalid, health):
		return conditionState{false, composite.ReasonInvalidParent, "no object is a valid parent: " + health.InvalidMessage}
	case health.HookFailing > 0 && health.HookUnreachable != "":
		return conditionState{false, s.failingReason(), "the latest call did not connect: " + health.HookUnreachable}
	case health.Forbidden > 0:
		return conditionState{true, setpoint.ReasonReady,
			"caches are synced; the API server forbids what the controller does for some objects" +
				inNamespaces(health.ForbiddenNamespaces) + ": " + health.ForbiddenMessage + "; " + s.rbacAdvice()}
	case health.HookFailing > 0:
		return conditionState{true, setpoint.ReasonReady, "caches are synced; calls fail for some objects: " + health.HookMessage}
	case health.RelatedMissing > 0:
		return conditionState{true, setpoint.ReasonReady, "caches are synced; some objects wait: " + health.RelatedMessage}
	case health.Failing > 0:
		return conditionState{true, setpoint.ReasonReady,
			"caches are synced and no call fails, but some objects fail: see status.lastError"}
	}
	if s.running != nil && s.running.Admission != nil && len(s.running.workers) == 1 {
		return s.registeredCondition()
	}
	return conditionState{true, setpoint.ReasonReady, "caches are synced and no call fails"}
}

// overallCondition returns Accepted if it is False, else Ready.
func (s *controllerState) overallCondition(health controller.Health) conditionState {
	understood := acceptedCondition(s.refusal, s.notes, health)
	if !understood.ok {
		return understood
	}
	return readyCondition(understood, s, health)
}

// registeredCondition reports whether the API server calls the controller's webhooks, if
// it has any.
func (s *controllerState) registeredCondition() conditionState {
	if s.running == nil || s.running.Admission == nil {
		return conditionState{ok: true}
	}
	ok, reason, message := s.running.webhooks.Registered(s.running.Admission.Name)
	return conditionState{ok, reason, message}
}

// nearlyAll reports whether failing are more than nine in ten objects. Failures of a few objects
// are counted, and the controller stays ready.
func nearlyAll(failing int, health controller.Health) bool {
	well := health.Parents - failing
	return failing > 0 && (well <= 0 || 10*well < health.Parents)
}

// maxNamespaces is how many namespaces a message names.
const maxNamespaces = 10

// inNamespaces says where objects are; "" if they have no namespace.
func inNamespaces(names []string) string {
	switch more := len(names) - maxNamespaces; {
	case len(names) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf(" in %s and %d more namespaces", strings.Join(names[:maxNamespaces], ", "), more)
	}
	return " in " + strings.Join(names, ", ")
}

// rbacAdvice says how to print the roles that a controller needs. Setpoint itself finds missing permissions,
// except for ServiceAccounts in the namespace of each parent.
func (s *controllerState) rbacAdvice() string {
	command := "PROGRAM rbac"
	if s.object != nil && s.running != nil {
		command = "setpoint rbac " + s.running.Name()
	}
	return "`" + command + "` prints the roles that it needs"
}

// reasonHandlerFailing: in a Go program, which has no hooks, the functions of a controller fail for all of its
// objects, or nearly. What to do: see the error in the message, and the log of the program.
const reasonHandlerFailing = "HandlerFailing"

// failingReason returns the reason of Ready while calls fail for all objects.
func (s *controllerState) failingReason() string {
	if s.object == nil {
		return reasonHandlerFailing
	}
	return setpoint.ReasonHookFailing
}

// statusStoredCondition reports whether the status in hook responses is stored.
func (s *controllerState) statusStoredCondition() conditionState {
	if s.unstored != "" {
		return conditionState{false, setpoint.ReasonNoStatusSubresource, s.unstored}
	}
	return conditionState{true, setpoint.ReasonStatusStored, "the parent kind has a status subresource"}
}

// conflictCondition returns the condition Conflicting.
func conflictCondition(health controller.Health) conditionState {
	if health.Conflicting == 0 {
		return conditionState{false, setpoint.ReasonNoConflict, "no object is written repeatedly"}
	}
	message := health.ConflictMessage
	if health.Conflicting > 1 {
		message += fmt.Sprintf("; %d other objects are affected", health.Conflicting-1)
	}
	return conditionState{true, setpoint.ReasonConflicting, message}
}

func (f conditionState) condition(kind string, generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	if f.ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: f.reason, Message: f.message, ObservedGeneration: generation}
}

// recordLifecycle records the same events as Metacontroller on a controller that it serves too: users wait for these.
func (cs *Set) recordLifecycle(key queue.Key, declared *object.Object, reasons ...string) {
	if declared == nil || !cs.declared.forMetacontroller(key) {
		return
	}
	for _, reason := range reasons {
		cs.Events.Event(declared, hook.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: reason + " controller: " + key.Name})
	}
}

func (cs *Set) recordStopped(key queue.Key, declared *object.Object) {
	if cs.Leader.Leads() {
		cs.recordLifecycle(key, declared, metacontroller.EventStopping, metacontroller.EventStopped)
	}
}

// recordTransitions records a warning for each condition that became False, and for code that is
// outdated. Failures of hooks are recorded on the parents instead.
func (r *reporter) recordTransitions(key queue.Key, s *controllerState, before, now []metav1.Condition) {
	for _, condition := range now {
		previous := meta.FindStatusCondition(before, condition.Type)
		turned := previous == nil || previous.Status != condition.Status || previous.Reason != condition.Reason
		warns := condition.Status == metav1.ConditionFalse || condition.Reason == setpoint.ReasonSourceOutdated
		if !warns || !turned {
			continue
		}
		if event, found := r.warningFor(key, s, condition); found {
			r.Events.Event(s.object, event)
		}
	}
}

// warningFor returns the event for a condition that became False, if it has one. The reason
// is the condition's, or Metacontroller's for its kinds.
func (r *reporter) warningFor(key queue.Key, s *controllerState, condition metav1.Condition) (event hook.Event, found bool) {
	event = hook.Event{Type: corev1.EventTypeWarning, Reason: condition.Reason, Message: condition.Message}
	switch condition.Type {
	case setpoint.ConditionAccepted:
		if _, refused := errors.AsType[*compile.Refusal](s.refusal); refused && r.declared.forMetacontroller(key) {
			event.Reason, event.Message = metacontroller.EventCreateError, "Cannot create new controller: "+condition.Reason+": "+
				condition.Message
		}
	case setpoint.ConditionStatusStored:
		if r.declared.forMetacontroller(key) {
			event.Reason, event.Message = metacontroller.EventSyncError, "["+key.Name+"] Sync error - "+condition.Message
		}
	case setpoint.ConditionCRDCurrent:
	default:
		return event, false
	}
	event.Message = events.Text(event.Message, "; see the condition "+condition.Type+" for the rest")
	return event, true
}
