package host

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
	"github.com/setpoint-dev/setpoint/internal/engine"
)

// finding is what is to be told of a controller: the truth of a condition, its
// reason and its message.
type finding struct {
	ok              bool
	reason, message string
}

// accepted judges whether a controller's spec is understood and what it names
// can be used.
func accepted(refusal error, notes []string, health engine.Health) finding {
	if why, ok := errors.AsType[*compile.Refusal](refusal); ok {
		return finding{false, why.Reason, why.Error()}
	}
	for _, resource := range slices.Sorted(maps.Keys(health.WatchErrors)) {
		err := health.WatchErrors[resource]
		switch {
		case apierrors.IsForbidden(err):
			return finding{false, setpoint.ReasonForbidden, fmt.Sprintf("may not list and watch %s: %v; grant it to Setpoint", resource, err)}
		case apierrors.IsNotFound(err):
			return finding{false, setpoint.ReasonResourceNotFound, resource + " is not served any more"}
		}
	}
	message := "the spec is understood and the kinds it names are served"
	if len(notes) > 0 {
		message += "; note: " + strings.Join(notes, "; ")
	}
	return finding{true, setpoint.ReasonAccepted, message}
}

// ready judges whether a controller does its work.
func ready(accepted finding, s *state, health engine.Health) finding {
	switch {
	case s.leaving != "":
		return finding{false, setpoint.ReasonReleasing, s.leaving}
	case !accepted.ok:
		return finding{false, setpoint.ReasonNotAccepted, "see the condition Accepted"}
	case s.suspended:
		return finding{false, setpoint.ReasonSuspended, "suspended by spec: objects stay as they are, and no hook is called"}
	case len(health.WatchErrors) > 0:
		resource := slices.Min(slices.Collect(maps.Keys(health.WatchErrors)))
		return finding{false, setpoint.ReasonWatchFailing, fmt.Sprintf("watch %s: %v", resource, health.WatchErrors[resource])}
	case !health.Synced:
		return finding{false, setpoint.ReasonStarting, "the caches are being filled"}
	case health.HookDown != "":
		return finding{false, setpoint.ReasonHookUnreachable, health.HookDown}
	case health.Overdue > 0:
		return finding{false, setpoint.ReasonCallOverdue, health.OverdueMessage}
	case !s.asked().ok:
		return s.asked()
	case failsForAll(health):
		return finding{false, s.failing(), health.HookMessage}
	case health.HookFailing > 0 && health.Unconnected != "":
		return finding{false, s.failing(), "the latest call got no connection: " + health.Unconnected}
	case health.HookFailing > 0:
		return finding{true, setpoint.ReasonReady, "caches are synced; calls fail for some objects: " + health.HookMessage}
	}
	if s.running != nil && s.running.Admission != nil && len(s.running.controllers) == 1 {
		return s.asked()
	}
	return finding{true, setpoint.ReasonReady, "caches are synced and no call fails"}
}

// asked says whether the API server asks the controller's reviews, if it has any.
func (s *state) asked() finding {
	if s.running == nil || s.running.Admission == nil {
		return finding{ok: true}
	}
	return s.running.gate.finding(s.running.Admission.Name)
}

// failsForAll says that the hook fails for all objects, or nearly: more than nine in
// ten. A few that upset it, for good even, do not keep the controller from its work;
// they are counted.
func failsForAll(health engine.Health) bool {
	well := health.Parents - health.HookFailing
	return health.HookFailing > 0 && (well <= 0 || 10*well < health.Parents)
}

// reasonHandlerFailing is what a hook that fails is called in a Go program, which has
// none.
const reasonHandlerFailing = "HandlerFailing"

// failing is the reason of a controller that fails for all.
func (s *state) failing() string {
	if s.object == nil {
		return reasonHandlerFailing
	}
	return setpoint.ReasonHookFailing
}

// statusStored says whether the status in the hook's responses is stored.
func (s *state) statusStored() finding {
	if s.unstored != "" {
		return finding{false, setpoint.ReasonNoStatusSubresource, s.unstored}
	}
	return finding{true, setpoint.ReasonStatusStored, "the kind of the parents has a status subresource"}
}

// settled says whether all parents come to rest.
func settled(health engine.Health) finding {
	if health.Unsettled == 0 {
		return finding{true, setpoint.ReasonSettled, "nothing is written again and again"}
	}
	message := health.Unrest
	if health.Unsettled > 1 {
		message += fmt.Sprintf("; and so in %d other parents", health.Unsettled-1)
	}
	return finding{false, setpoint.ReasonUnsettled, message}
}

func (f finding) condition(kind string, generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	if f.ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: f.reason, Message: f.message, ObservedGeneration: generation}
}
