package trigger

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Observation is what a pass sees: the object, and why the pass is made.
type Observation struct {
	Rules *Rules
	// Object is the object as it is stored, and recorded the record on it.
	Object   *object.Object
	Recorded lasthandled.Record
	// OwnedDigest is the digest of the owned objects that responses applied, for programs with Drift handlers.
	OwnedDigest string
	// Causes are those of the run, as long as they can bring about a call.
	Causes queue.Causes
	// Managed means that handlers are called: the object is neither paused nor only released. Dry means that
	// nothing is written.
	Managed, Dry bool
	// Now is the clock, and random returns random numbers in [0,1).
	Now    func() time.Time
	Random func() float64
	// Fail receives the error of a handler, once it is decided whether the handler is called again. The state is
	// nil if the error is about an event.
	Fail    func(*State, error)
	Digests digestCache
	// failedExpressions are the handlers whose Expression failed.
	failedExpressions []*State
}

// Pass decides, for one reconcile of one object, which handlers are called and what is recorded of them. It does no I/O:
// the caller makes the calls and the writes, and says how they ended.
type Pass struct {
	Observation
	*States

	Due due
	// changeCount is the number of changes: the calls of the handler with the most calls. latestChange is the latest
	// call because of a change.
	changeCount, sameHandlerCount int
	latestChange                  *Call
	// Unstored are the handlers whose handled states are too large for the record.
	Unstored []string
}

// RetriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (v *Observation) RetriesCalls() bool {
	return v.Causes.HasAny(queue.ReconcileRequested, queue.HookChanged)
}

// RetriesWrites reports whether failed writes are retried at once.
func (v *Observation) RetriesWrites() bool { return v.RetriesCalls() || v.Causes.Has(queue.Retrying) }

// holds evaluates the expression of a handler before a call, and records its error.
func (v *Observation) holds(h *State, reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.Holds(reason, old, now)
	if err == nil {
		return holds
	}
	if !slices.Contains(v.failedExpressions, h) {
		v.failedExpressions = append(v.failedExpressions, h)
		h.expressionFailed = true
		v.Fail(h, failure.WithReason(ReasonExpressionFailed, fmt.Errorf("handler %s: %w", h.Name, err)))
	}
	return false
}

// clearExpressionFailure forgets the error of a handler's expression, unless it failed in this run too.
func (v *Observation) clearExpressionFailure(h *State) (failed bool) {
	failed = slices.Contains(v.failedExpressions, h)
	if h.expressionFailed && !failed {
		h.Failed, h.expressionFailed = nil, false
	}
	return failed
}

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a former controller is new to all handlers that compare with what they handled.
func (v *Observation) handlesReason(h *State, reason hook.Reason) bool {
	return h.handles(reason) || reason == hook.ReasonCreate && v.wasReplaced() && slices.ContainsFunc(changeReasons[:], h.handles)
}

// wasReplaced reports whether a former controller has handled the object.
func (v *Observation) wasReplaced() bool {
	return v.Rules.ReplacedAnnotation != "" && v.Object.Field("metadata", "annotations", v.Rules.ReplacedAnnotation) != nil
}

// isReleased reports whether the object is being deleted and does not wait for the handlers.
func (v *Observation) isReleased() bool {
	return v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

// watchedDigestsOf returns the watched digests of the stored object or a former version of it.
func (v *Observation) watchedDigestsOf(o *object.Object) []string {
	if d := &v.Digests; d.object != o {
		if d.object == nil || !v.Rules.differsOnlyInStatus(d.object, o) {
			d.watched = v.Rules.watchedDigests(o)
		}
		d.object = o
	}
	return v.Digests.watched
}

// State returns the digest of the whole object: the handler may look at any part of it.
func (v *Observation) State() string {
	if d := &v.Digests; d.state == "" || d.stateOf != v.Object {
		d.stateOf, d.state = v.Object, v.Rules.stateDigest(v.Object)
	}
	return v.Digests.state
}
