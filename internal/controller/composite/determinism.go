package composite

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// determinismPause is the time between two identical requests if two at once had the same response.
// Times in whole seconds differ after it.
const determinismPause = 1100 * time.Millisecond

// checkDeterminism repeats the request to a hook whose responses lead to one write after another.
// It sets nondeterminismErr if the responses differ.
func (r *run) checkDeterminism(ctx context.Context, h hook.Hook, parent *object.Object) error {
	if r.memory.hasWritten {
		r.memory.determinism.RecordWrite(r.intent(), r.tools.Now())
		r.memory.hasWritten = false
	}
	due, delayed := r.memory.determinism.Due(r.intent(), r.tools.Now())
	if !due {
		return nil
	}
	if delayed && !controller.Sleep(ctx, determinismPause) {
		return context.Cause(ctx)
	}
	again, err := r.call(ctx, h, r.request(parent), r.latestRevision())
	if err != nil {
		return hookFailure(r.hookName(), err)
	}
	where := plan.ResponseDifference(r.response, again)
	r.memory.determinism.RecordResult(where != "")
	if where == "" {
		return nil
	}
	r.nondeterminismErr = failure.WithReason(ReasonConflicting, fmt.Errorf("%s hook: two responses to the same request differ in %s; "+
		"remove random values and times, or derive them from the object", r.hookName(), where))
	return nil
}

// intent returns a digest that changes when a user edits the parent. Decorators set labels
// themselves, so only the generation counts for them.
func (r *run) intent() uint64 {
	if r.program.isDecorator() {
		return uint64(r.Stored.Generation()) + 1
	}
	return r.Stored.IntentDigest()
}

// isConflicting reports whether events must not retry a failure at once, because its own writes or
// another client's cause them.
func isConflicting(err error) bool {
	reason := controller.ReasonOf(err)
	return reason == ReasonConflicting || reason == ReasonFlapping
}

// conflictBackoff returns the delay after a number of failures in a row.
func conflictBackoff(failed int) time.Duration {
	return min(maxDelay, time.Second<<min(max(failed-1, 0), 6))
}
