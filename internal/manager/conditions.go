package manager

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
)

// conditionState is what is to be told of a controller: the truth of a condition, its
// reason and its message.
type conditionState struct {
	ok              bool
	reason, message string
}

// acceptedCondition judges whether a controller's spec is understood and what it names
// can be used.
func acceptedCondition(refusal error, notes []string, health compose.Health) conditionState {
	if why, ok := errors.AsType[*compile.Refusal](refusal); ok {
		return conditionState{false, why.Reason, why.Error()}
	}
	for _, resource := range slices.Sorted(maps.Keys(health.WatchErrors)) {
		err := health.WatchErrors[resource]
		switch {
		case apierrors.IsForbidden(err):
			return conditionState{false, setpoint.ReasonForbidden, fmt.Sprintf("may not list and watch %s: %v; grant it to Setpoint", resource, err)}
		case apierrors.IsNotFound(err):
			return conditionState{false, setpoint.ReasonResourceNotFound, resource + " is not served any more"}
		}
	}
	message := "the spec is understood and the kinds it names are served"
	if len(notes) > 0 {
		message += "; note: " + strings.Join(notes, "; ")
	}
	return conditionState{true, setpoint.ReasonAccepted, message}
}

// readyCondition judges whether a controller does its work.
func readyCondition(accepted conditionState, s *controllerState, health compose.Health) conditionState {
	switch {
	case s.releasing != "":
		return conditionState{false, setpoint.ReasonReleasing, s.releasing}
	case !accepted.ok:
		return conditionState{false, setpoint.ReasonNotAccepted, "see the condition Accepted"}
	case s.suspended:
		return conditionState{false, setpoint.ReasonSuspended, "suspended by spec: objects stay as they are, and no hook is called"}
	case len(health.WatchErrors) > 0:
		resource := slices.Min(slices.Collect(maps.Keys(health.WatchErrors)))
		return conditionState{false, setpoint.ReasonWatchFailing, fmt.Sprintf("watch %s: %v", resource, health.WatchErrors[resource])}
	case !health.Synced:
		return conditionState{false, setpoint.ReasonStarting, "the caches are being filled"}
	case health.HookDown != "":
		return conditionState{false, setpoint.ReasonHookUnreachable, health.HookDown}
	case health.Overdue > 0:
		return conditionState{false, setpoint.ReasonCallOverdue, health.OverdueMessage}
	case !s.registeredCondition().ok:
		return s.registeredCondition()
	case failsForAll(health):
		return conditionState{false, s.failingReason(), health.HookMessage}
	case health.HookFailing > 0 && health.HookUnreachable != "":
		return conditionState{false, s.failingReason(), "the latest call got no connection: " + health.HookUnreachable}
	case health.HookFailing > 0:
		return conditionState{true, setpoint.ReasonReady, "caches are synced; calls fail for some objects: " + health.HookMessage}
	}
	if s.running != nil && s.running.Admission != nil && len(s.running.workers) == 1 {
		return s.registeredCondition()
	}
	return conditionState{true, setpoint.ReasonReady, "caches are synced and no call fails"}
}

// registeredCondition says whether the API server asks the controller's reviews, if it has any.
func (s *controllerState) registeredCondition() conditionState {
	if s.running == nil || s.running.Admission == nil {
		return conditionState{ok: true}
	}
	return s.running.webhooks.registeredCondition(s.running.Admission.Name)
}

// failsForAll says that the hook fails for all objects, or nearly: more than nine in
// ten. A few that upset it, for good even, do not keep the controller from its work;
// they are counted.
func failsForAll(health compose.Health) bool {
	well := health.Parents - health.HookFailing
	return health.HookFailing > 0 && (well <= 0 || 10*well < health.Parents)
}

// reasonHandlerFailing: in a Go program, which has no hooks, the functions of a controller fail for
// all of its objects, or nearly.
const reasonHandlerFailing = "HandlerFailing"

// failingReason is the reason of a controller that fails for all.
func (s *controllerState) failingReason() string {
	if s.object == nil {
		return reasonHandlerFailing
	}
	return setpoint.ReasonHookFailing
}

// statusStoredCondition says whether the status in the hook's responses is stored.
func (s *controllerState) statusStoredCondition() conditionState {
	if s.unstored != "" {
		return conditionState{false, setpoint.ReasonNoStatusSubresource, s.unstored}
	}
	return conditionState{true, setpoint.ReasonStatusStored, "the kind of the parents has a status subresource"}
}

// conflictCondition says whether all parents come to rest.
func conflictCondition(health compose.Health) conditionState {
	if health.Conflicting == 0 {
		return conditionState{true, setpoint.ReasonSettled, "nothing is written again and again"}
	}
	message := health.ConflictMessage
	if health.Conflicting > 1 {
		message += fmt.Sprintf("; and so in %d other parents", health.Conflicting-1)
	}
	return conditionState{false, setpoint.ReasonUnsettled, message}
}

func (f conditionState) condition(kind string, generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	if f.ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: f.reason, Message: f.message, ObservedGeneration: generation}
}
