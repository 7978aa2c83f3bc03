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
	// Unstored are the handlers whose handled states are too large for the record.
	Unstored []string
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
}

// RetriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (v *Observation) RetriesCalls() bool {
	return v.Causes.HasAny(queue.ReconcileRequested, queue.HookChanged)
}

// RetriesWrites reports whether failed writes are retried at once.
func (v *Observation) RetriesWrites() bool { return v.RetriesCalls() || v.Causes.Has(queue.Retrying) }

// meets evaluates the conditions of a handler before a call, and records their error.
func (v *Observation) meets(h *State, reason hook.Reason, old, now *object.Object) bool {
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

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a previous controller is new to all handlers that compare with what they handled.
func (v *Observation) handlesReason(h *State, reason hook.Reason) bool {
	replaced := v.Rules.ReplacedAnnotation
	wasReplaced := replaced != "" && v.Object.Field("metadata", "annotations", replaced) != nil
	return h.handles(reason) || reason == hook.ReasonCreate && wasReplaced && slices.ContainsFunc(changeReasons[:], h.handles)
}

// isReleased reports whether the object is being deleted and does not wait for the handlers.
func (v *Observation) isReleased() bool {
	return v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

func (v *Observation) watchedDigests() []string {
	if d := &v.Digests; d.object != v.Object {
		if d.object == nil || !v.Rules.differsOnlyInStatus(d.object, v.Object) {
			d.watched = v.Rules.watchedDigests(v.Object)
		}
		d.object = v.Object
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

// declines reports whether a handler said that it is not applicable with a reason.
func (v *Observation) declines(h *State, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == v.State() && !v.RetriesCalls()
}

// IsApplicable reports whether a handler handles the object as it is. It is not known while hook.ReasonMatch fails.
func (v *Observation) IsApplicable(h *State) (applicable, known bool) {
	switch {
	case h.NeedsFinalizer() && !v.meets(h, h.lastReason(), nil, v.Object):
		return false, !slices.Contains(v.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == v.State() || v.Dry && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// awaitsMatch reports whether calls of a handler wait for hook.ReasonMatch, because the object may need the finalizer first.
func (v *Observation) awaitsMatch(h *State) bool {
	_, known := v.IsApplicable(h)
	return !known && !v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

// Matched records what a handler responded to hook.ReasonMatch for a state of the object. A failed call leaves the
// finalizer as it is.
func (v *Observation) Matched(h *State, state string, applicable bool, err error) {
	a := h.applicability
	switch {
	case err == nil:
		if a.MatchAttempt.Count > 0 {
			h.Failed = nil
		}
		a.matchState, a.applicable, a.failedState, a.MatchAttempt = state, applicable, "", Attempt{}
	case hook.IsTerminal(err):
		a.failedState, a.MatchAttempt = state, Attempt{}
		v.fail(h, ReasonGaveUp, err)
	default:
		a.MatchAttempt.retry(v.Now(), func(failures int) time.Duration { return h.Delay(err, failures, v.Random) })
		v.fail(h, FailureReason(err), err)
	}
}

func (v *Observation) fail(h *State, reason string, err error) {
	err = fmt.Errorf("handler %s: %w", h.Title(), err)
	if reason == ReasonGaveUp {
		err = fmt.Errorf("gave up: %w", err)
	}
	v.Fail(h, failure.WithReason(reason, err))
}

// digestCache has the digests of the objects that a run has seen. A version of an object never
// changes, so its digests stay valid.
type digestCache struct {
	object  *object.Object
	watched []string
	// state is the digest of the whole object stateOf.
	stateOf *object.Object
	state   string
	parts   map[*object.Object]string
}

// Owned returns a digest of the owned objects' fields that other clients could have changed,
// independent of their order.
func (d *digestCache) Owned(owned []*object.Object) string {
	parts := make([]string, 0, len(owned))
	for _, o := range owned {
		part, known := d.parts[o]
		if !known {
			part = ownedObjectDigest(o)
			if d.parts == nil {
				d.parts = map[*object.Object]string{}
			}
			d.parts[o] = part
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return lasthandled.Digest(parts)
}
