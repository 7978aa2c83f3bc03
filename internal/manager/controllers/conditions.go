package controllers

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
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

// ready returns the condition Ready: whether a controller works.
func (s *controllerState) ready(accepted conditionState, health controller.Health) conditionState {
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
	if s.running != nil && s.running.Admission != nil && s.running.AllReplicas() {
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
	return s.ready(understood, health)
}

// registeredCondition reports whether the API server calls the controller's webhooks, if it has any.
func (s *controllerState) registeredCondition() conditionState {
	if s.running == nil || s.running.Admission == nil {
		return conditionState{ok: true}
	}
	ok, reason, message := s.running.Webhooks.Registered(s.running.Admission.Name)
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
	if len(names) == 0 {
		return ""
	}
	text := " in " + strings.Join(names[:min(len(names), maxNamespaces)], ", ")
	if more := len(names) - maxNamespaces; more > 0 {
		text += fmt.Sprintf(" and %d more namespaces", more)
	}
	return text
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

// crdCondition returns the condition CRDCurrent of a controller object.
func (a *shared) crdCondition(key queue.Key) conditionState {
	if problem := a.CRDs.Problem(a.declared.Resource(key)); problem != nil {
		return conditionState{false, failure.Reason(problem, ""), problem.Error()}
	}
	return conditionState{true, setpoint.ReasonCRDCurrent, "the CRD is the one of this Setpoint version"}
}

// setProblemCondition sets a condition that is absent until its first problem.
func (e *controllerEntry) setProblemCondition(status *setpoint.ControllerStatus, kind string, found conditionState) {
	if !found.ok || meta.FindStatusCondition(status.Conditions, kind) != nil {
		meta.SetStatusCondition(&status.Conditions, found.condition(kind, e.object.Generation()))
	}
}

// HasHeldDeletions reports whether conditions say that deletions are held.
func HasHeldDeletions(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, setpoint.ConditionDeletionsHeld)
}

// deletionsHeldCondition reports whether the deletion guard holds deletions, and how to confirm them.
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

func clampInt32(n int) int32 { return int32(min(n, math.MaxInt32)) }
