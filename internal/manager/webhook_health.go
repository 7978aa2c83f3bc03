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
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reviewFailures are what went wrong with the reviews of one controller.
type reviewFailures struct {
	// current are the reviews without a verdict when they were last asked for one.
	current map[string]string
	last    compose.LastError
}

// Reviewed counts a review, and remembers whether there was a verdict.
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

// recordReview keeps the account of a review, where any are kept. It is called with the lock
// held.
func (s *webhookServer) recordReview(o admission.ReviewRecord) {
	if s.manager.options.History.Off {
		return
	}
	s.manager.history.AddCall(o.Program, o.Webhook, string(o.Result), o.Duration)
	s.manager.history.Add(reviewRecord(o))
}

// recordResult remembers a review and why there was no verdict, and says which controller that
// concerns. Of one that is gone nothing is remembered any more: all was forgotten.
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
		failed.last = compose.LastError{Message: message, Time: time.Now()}
	case failed != nil:
		delete(failed.current, o.Webhook)
	}
	return key, true
}

// controllerOf is the one that has a program. It is called with the lock held.
func (s *webhookServer) controllerOf(program string) (key queue.Key, known bool) {
	for key, p := range s.programs {
		if p.Name == program {
			return key, true
		}
	}
	return queue.Key{}, false
}

// EventAt records an event at an object that a review has named.
func (s *webhookServer) EventAt(event hook.ObjectEvent) { s.manager.events.EventAt(event) }

// health is how the reviews of a controller are doing, as far as that is told in the
// words of hooks.
func (s *webhookServer) health(program string) compose.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := compose.Health{Synced: true, WatchErrors: map[string]error{}}
	if failed := s.failures[program]; failed != nil {
		all.LastError, all.HookFailing = failed.last, len(failed.current)
		for _, webhook := range slices.Sorted(maps.Keys(failed.current)) {
			all.HookMessage = failed.current[webhook]
		}
	}
	return all
}

// registeredCondition says whether the API server asks for the reviews of a controller. It is
// known where this Host leads alone.
func (s *webhookServer) registeredCondition(program string) conditionState {
	s.mu.Lock()
	obstacle, registrar := s.listenErr, s.registrar
	s.mu.Unlock()
	switch {
	case obstacle != nil:
		return conditionState{false, setpoint.ReasonUnregistered, obstacle.Error()}
	case !s.manager.leadership.leads():
		return conditionState{true, setpoint.ReasonReady, "stands by"}
	case registrar == nil:
		return conditionState{false, setpoint.ReasonStarting, "the server for the API server is being started"}
	}
	switch health := registrar.Health(program); {
	case health.Err != nil:
		return conditionState{false, setpoint.ReasonUnregistered, health.Err.Error()}
	case !health.Registered:
		return conditionState{false, setpoint.ReasonStarting, "the API server is being told to ask"}
	case health.Reachability == admission.Unreachable:
		return conditionState{false, setpoint.ReasonUnreachable, "the API server cannot reach the webhooks: " + health.ReachabilityMessage}
	case health.Reachability == admission.ReachabilityUnknown && health.ReachabilityMessage != "":
		return conditionState{true, setpoint.ReasonReady, "the API server is told to ask; whether it can is not known: " + health.ReachabilityMessage}
	case health.Reachability == admission.ReachabilityUnknown:
		return conditionState{false, setpoint.ReasonStarting, "whether the API server reaches the webhooks is being found out"}
	}
	return conditionState{true, setpoint.ReasonReady, "the API server asks, and is answered"}
}

// registering says that it is still being found out whether the API server asks what is to
// be asked. In a replica that stands by that is for the leader to find out.
func (s *webhookServer) registering() bool {
	s.mu.Lock()
	var names []string
	for _, p := range s.programs {
		names = append(names, p.Name)
	}
	s.mu.Unlock()
	if len(names) > 0 && !s.manager.options.LeaderElection.Enabled && !s.manager.leadership.leads() {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return s.registeredCondition(name).reason == setpoint.ReasonStarting })
}

// clearFailures drops the failures of a controller's latest reviews, but for the last error.
func (s *webhookServer) clearFailures(program string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed := s.failures[program]; failed != nil {
		clear(failed.current)
	}
}

// dropFailures drops what is known of a controller that is gone.
func (s *webhookServer) dropFailures(program string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, program)
}

// admissionWorker is the reviews of a controller among its programs. They are at work
// whether this Host leads or not: the gate answers for them.
type admissionWorker struct {
	webhooks *webhookServer
	program  string
}

func (a admissionWorker) Run(ctx context.Context) { <-ctx.Done() }
func (admissionWorker) RetryNow()                 {}
func (admissionWorker) RetryWrites()              {}
func (admissionWorker) Close()                    {}

// SyncAll finds no objects to look at. How the former process of a hook failed says
// nothing of the one in its place.
func (a admissionWorker) SyncAll(cause queue.CauseKind) {
	if cause == queue.HookChanged {
		a.webhooks.clearFailures(a.program)
	}
}

func (a admissionWorker) Health() compose.Health { return a.webhooks.health(a.program) }
