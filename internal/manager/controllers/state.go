package controllers

import (
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// controllerEntry is one controller and what was reported of it.
type controllerEntry struct {
	kind string
	controllerState
	lastReported reportedStatus
	// taken is the UID of the object of which this process has stored itself as the owner.
	taken string
}

// controllerState is the observed state of a controller.
type controllerState struct {
	// object declares the controller; nil for one of a Go program.
	object *object.Object
	// rank orders conflicting controllers: the older one has the lesser rank.
	rank string
	// refusal is why the controller does not run, unless it is suspended.
	refusal   error
	suspended bool
	// incomplete is why a running controller does not run in some namespaces; nil if it does.
	incomplete *compile.Refusal
	// outdated is why a running controller uses older code of a ConfigMap; nil if it does not.
	outdated *compile.Refusal
	// absent are those of its namespaces that do not exist.
	absent []string
	// kinds are those of a suspended controller.
	kinds controllerKinds
	// releasing is the progress, or the error, of removing finalizers while the object
	// is being deleted; "" otherwise.
	releasing string
	// notes are warnings about an accepted spec; unstored is that of compile.Compiled.
	notes    []string
	unstored string
	running  *runningController
}

// health returns the health of a controller, if it runs.
func (s *controllerState) health() (health controller.Health, runs bool) {
	if s.running == nil {
		return controller.Health{}, false
	}
	return s.running.health(), true
}

// refused reports whether the controller is refused for a reason.
func (s controllerState) refused(reason string) bool {
	refusal, ok := errors.AsType[*compile.Refusal](s.refusal)
	return ok && refusal.Reason == reason
}

// String identifies states that are logged once each.
func (s controllerState) String() string {
	return fmt.Sprint(s.suspended, failure.Text(s.problem()), failure.Text(s.outdatedError()))
}

// outdatedError returns outdated as an error, nil if it is nil.
func (s controllerState) outdatedError() error {
	if s.outdated == nil {
		return nil
	}
	return s.outdated
}

// problem returns why the controller does not run, or not in all namespaces.
func (s *controllerState) problem() error {
	if s.refusal == nil && s.incomplete != nil {
		return s.incomplete
	}
	return s.refusal
}
