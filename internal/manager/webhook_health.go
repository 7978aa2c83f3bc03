package manager

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reviewFailures are the failed reviews of one controller.
type reviewFailures struct {
	// current maps webhooks to the error of their latest review, if it failed.
	current map[string]string
	last    controller.LastError
}

// Reviewed counts a review and records its result.
func (s *webhookServer) Reviewed(o admission.ReviewRecord) {
	s.manager.metrics.observeReview(o)
	message := ""
	if o.Err != nil {
		message = strings.Join(strings.Fields(o.Err.Error()), " ")
	}
	if key, known := s.recordResult(o, message); known && message != "" {
		s.manager.controllers.recordEvent(key, hook.Event{Type: "Warning", Reason: setpoint.ReasonHookFailing, Message: message})
	}
}

// recordReview adds a review to the history. The caller holds the lock.
func (s *webhookServer) recordReview(o admission.ReviewRecord) {
	if s.manager.options.History.Off {
		return
	}
	s.manager.history.AddCall(o.Program, o.Webhook, string(o.Result), o.Duration)
	s.manager.history.Add(reviewRecord(o))
}

// recordResult records a review, and returns its controller if that still exists.
func (s *webhookServer) recordResult(o admission.ReviewRecord, message string) (key queue.Key, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key, known = s.controllerOf(o.Program); !known {
		return key, false
	}
	s.recordReview(o)
	failed := s.failures[o.Program]
	switch {
	case message != "":
		if failed == nil {
			failed = &reviewFailures{current: map[string]string{}}
			s.failures[o.Program] = failed
		}
		failed.current[o.Webhook] = message
		failed.last = controller.LastError{Message: message, Time: time.Now()}
	case failed != nil:
		delete(failed.current, o.Webhook)
	}
	return key, true
}

// controllerOf returns the controller of a program. The caller holds the lock.
func (s *webhookServer) controllerOf(program string) (key queue.Key, known bool) {
	for key, p := range s.programs {
		if p.Name == program {
			return key, true
		}
	}
	return queue.Key{}, false
}

// EventAt records an event on an object that a review names.
func (s *webhookServer) EventAt(event hook.ObjectEvent) { s.manager.events.EventAt(event) }

// health returns the health of a controller's reviews.
func (s *webhookServer) health(program string) controller.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := controller.Health{Synced: true, WatchErrors: map[string]error{}}
	if failed := s.failures[program]; failed != nil {
		all.LastError, all.HookFailing = failed.last, len(failed.current)
		for _, webhook := range slices.Sorted(maps.Keys(failed.current)) {
			all.HookMessage = failed.current[webhook]
		}
	}
	return all
}

// registeredCondition reports whether the API server calls the webhooks of a controller. Only
// the leader knows.
func (s *webhookServer) registeredCondition(program string) conditionState {
	s.mu.Lock()
	obstacle, registrar := s.listenErr, s.registrar
	s.mu.Unlock()
	switch {
	case obstacle != nil:
		return conditionState{false, setpoint.ReasonUnregistered, obstacle.Error()}
	case !s.manager.leader.Leads():
		return conditionState{true, setpoint.ReasonReady, "standing by"}
	case registrar == nil:
		return conditionState{false, setpoint.ReasonStarting, "the webhook server is starting"}
	}
	switch health := registrar.Health(program); {
	case health.Problem != "":
		return conditionState{false, setpoint.ReasonUnregistered, health.Problem}
	case !health.Registered:
		return conditionState{false, setpoint.ReasonStarting, "the webhooks are being registered"}
	case health.Reachability == register.Unreachable:
		return conditionState{false, setpoint.ReasonUnreachable, "the API server cannot reach the webhooks: " + health.ReachabilityMessage}
	case health.Reachability == register.ReachabilityUnknown && health.ReachabilityMessage != "":
		return conditionState{true, setpoint.ReasonReady, "the webhooks are registered; whether the API server reaches them is unknown: " + health.ReachabilityMessage}
	case health.Reachability == register.ReachabilityUnknown:
		return conditionState{false, setpoint.ReasonStarting, "checking whether the API server reaches the webhooks"}
	}
	return conditionState{true, setpoint.ReasonReady, "the webhooks are registered and reachable"}
}

// registering reports whether it is still unknown if the API server calls all webhooks. In a
// standby replica that is up to the leader.
func (s *webhookServer) registering() bool {
	s.mu.Lock()
	var names []string
	for _, p := range s.programs {
		names = append(names, p.Name)
	}
	s.mu.Unlock()
	if len(names) > 0 && !s.manager.options.LeaderElection.Enabled && !s.manager.leader.Leads() {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return s.registeredCondition(name).reason == setpoint.ReasonStarting })
}

// clearFailures clears the failures of a controller's latest reviews, except the last error.
func (s *webhookServer) clearFailures(program string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed := s.failures[program]; failed != nil {
		clear(failed.current)
	}
}

// dropFailures removes a controller.
func (s *webhookServer) dropFailures(program string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, program)
}

// admissionWorker represents the reviews of a controller among its workers. The webhook server
// runs them in every replica.
type admissionWorker struct {
	webhooks *webhookServer
	program  string
}

func (a admissionWorker) Run(ctx context.Context) { <-ctx.Done() }
func (admissionWorker) RetryNow()                 {}
func (admissionWorker) RetryWrites()              {}
func (admissionWorker) Close()                    {}

// SyncAll has no objects to enqueue. After a restart of the hook, earlier failures are void.
func (a admissionWorker) SyncAll(cause queue.CauseKind) {
	if cause == queue.HookChanged {
		a.webhooks.clearFailures(a.program)
	}
}

func (a admissionWorker) Health() controller.Health { return a.webhooks.health(a.program) }
