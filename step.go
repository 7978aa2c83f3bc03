package setpoint

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// stepProgress is the progress of a handler with steps.
type stepProgress struct {
	// Steps are the names of the completed steps.
	Steps []string `json:"steps"`
}

// errStepCompleted ends a call after a step: Setpoint records it and calls the handler again.
var errStepCompleted = errors.New("setpoint: a step is complete; return the error of Call.Step from the handler")

// afterStep is the delay of the next call. Unlike hook.Immediately, it has no backoff.
const afterStep = time.Millisecond

// Step runs fn unless an earlier call of the handler has completed the step of this name for the
// same change. If the object is edited before all steps are complete, they go on with the newest
// object, and an update with the edit follows. Use it where work must not be repeated because later
// work fails:
//
//	if err := c.Step("create database", func() error { … }); err != nil {
//		return err
//	}
//	if err := c.Step("create user", func() error { … }); err != nil {
//		return err
//	}
//
// Step returns an error after each step that it runs, which the handler must return: Setpoint
// then writes what the handler requested, records the step on the object, and calls the handler
// again for the next one. If fn fails, Step returns its error, and the handler is retried from
// this step. A program that crashes within a step repeats it. Events and gone objects have no
// record: Step only runs fn then. Daemons have no steps.
func (c *Call[T]) Step(name string, fn func() error) error {
	if c.live != nil {
		return permanentError("Step %q: a daemon has no steps", name)
	}
	if c.Reason == ReasonEvent || c.Gone {
		return fn()
	}
	var done stepProgress
	if c.request.Progress != nil {
		if err := json.Unmarshal(c.request.Progress, &done); err != nil {
			return permanentError("Step %q: read the progress: %w", name, err)
		}
	}
	if slices.Contains(done.Steps, name) {
		return nil
	}
	if err := fn(); err != nil {
		return err
	}
	c.step = &stepProgress{Steps: append(done.Steps, name)}
	return errStepCompleted
}

// endsWithStep reports whether a call ended with a step, so that its response is written.
func (c *Call[T]) endsWithStep(err error) bool {
	return c.step != nil && errors.Is(err, errStepCompleted)
}

// addStep adds the completed step to a response.
func (c *Call[T]) addStep(to *hook.HandlerResponse) error {
	progress, err := json.Marshal(c.step)
	if err != nil {
		return err
	}
	to.Progress, to.RetryAfter = progress, afterStep
	return nil
}
