package serving

import (
	"maps"
	"slices"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reviewFailures are the failed reviews of one controller.
type reviewFailures struct {
	// current maps webhooks to the error of their latest review, if it failed.
	current map[string]string
	last    controller.LastError
}

// Reviewed records a review. A removed controller leaves nothing, so the observer is called under the lock.
func (w *Webhooks) Reviewed(o admission.ReviewRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, exists := w.controllerOf(o.Program)
	w.options.Observer.Reviewed(o, key, exists)
	failed := w.failures[o.Program]
	switch {
	case !exists:
	case o.Err != nil:
		if failed == nil {
			failed = &reviewFailures{current: map[string]string{}}
			w.failures[o.Program] = failed
		}
		failed.current[o.Webhook] = failure.OneLine(o.Err)
		failed.last = controller.LastError{Message: failed.current[o.Webhook], Time: time.Now()}
	case failed != nil:
		delete(failed.current, o.Webhook)
	}
}

// EventAt records an event on an object that a review names.
func (w *Webhooks) EventAt(user string, event hook.ObjectEvent) {
	w.options.Observer.EventAt(user, event)
}

// controllerOf returns the controller of a program. The caller holds the lock.
func (w *Webhooks) controllerOf(program string) (key queue.Key, known bool) {
	for key, p := range w.programs {
		if p.Name == program {
			return key, true
		}
	}
	return queue.Key{}, false
}

// Health returns the health of a controller's reviews.
func (w *Webhooks) Health(program string) controller.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := controller.Health{Synced: true, WatchErrors: map[string]error{}}
	if failed := w.failures[program]; failed != nil {
		all.LastError, all.HookFailing = failed.last, len(failed.current)
		for _, webhook := range slices.Sorted(maps.Keys(failed.current)) {
			all.HookMessage = failed.current[webhook]
		}
	}
	return all
}

// Registered reports whether the API server calls the webhooks of a controller, as a condition. Only the leader knows.
func (w *Webhooks) Registered(program string) (ok bool, reason, message string) {
	w.mu.Lock()
	obstacle, registrar := w.listenErr, w.registrar
	w.mu.Unlock()
	switch {
	case obstacle != nil:
		return false, setpoint.ReasonUnregistered, obstacle.Error()
	case !w.options.Leader.Leads():
		return true, setpoint.ReasonReady, "standing by"
	case registrar == nil:
		return false, setpoint.ReasonStarting, "the webhook server is starting"
	}
	switch health := registrar.Health(program); {
	case health.Problem != "":
		return false, setpoint.ReasonUnregistered, health.Problem
	case !health.Registered:
		return false, setpoint.ReasonStarting, "the webhooks are being registered"
	case health.Reachability == register.Unreachable:
		return false, setpoint.ReasonUnreachable, "the API server cannot reach the webhooks: " + health.ReachabilityMessage
	case health.Reachability == register.ReachabilityUnknown && health.ReachabilityMessage != "":
		return true, setpoint.ReasonReady, "the webhooks are registered; whether the API server reaches them is unknown: " +
			health.ReachabilityMessage
	case health.Reachability == register.ReachabilityUnknown:
		return false, setpoint.ReasonStarting, "checking whether the API server reaches the webhooks"
	}
	return true, setpoint.ReasonReady, "the webhooks are registered and reachable"
}

// Registering reports whether it is still unknown if the API server calls all probed webhooks. In a
// standby replica that is up to the leader.
func (w *Webhooks) Registering() bool {
	w.mu.Lock()
	programs := slices.DeleteFunc(slices.Collect(maps.Values(w.programs)), func(p *admission.Program) bool { return p.Unprobed })
	w.mu.Unlock()
	if len(programs) > 0 && !w.options.Leader.Enabled && !w.options.Leader.Leads() {
		return true
	}
	return slices.ContainsFunc(programs, func(p *admission.Program) bool {
		_, reason, _ := w.Registered(p.Name)
		return reason == setpoint.ReasonStarting
	})
}

// ClearFailures clears the failures of a controller's latest reviews, except the last error.
func (w *Webhooks) ClearFailures(program string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if failed := w.failures[program]; failed != nil {
		clear(failed.current)
	}
}

// DropFailures removes a controller.
func (w *Webhooks) DropFailures(program string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failures, program)
}
