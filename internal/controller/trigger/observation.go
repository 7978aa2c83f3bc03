package trigger

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Observation is what a pass sees: the object, and why the pass is made.
type Observation struct {
	Rules *Rules
	// Object is the object as it is stored.
	Object *object.Object
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
	Fail func(*State, error)

	// Recorded is the record on the object.
	Recorded lasthandled.Record
	// failedExpressions are the handlers whose Expression failed.
	failedExpressions []*State
	// The digests of objects by what they are of: see Rules.watchedDigests, Rules.stateDigest and ownedObjectDigest.
	watchedDigests             memo[[]string]
	stateDigests, ownedDigests memo[string]
}

// Pass decides, for one reconcile of one object, which handlers are called and what is recorded of them. It does no I/O:
// the caller makes the calls and the writes, and says how they ended.
type Pass struct {
	Observation
	*States

	Due decision
	// Unstored are the handlers whose handled states are too large for the record.
	Unstored []string
	// changeCount is the number of changes: the calls of the handler with the most calls. latestChange is the latest
	// call because of a change.
	changeCount, sameHandlerCount int
	latestChange                  *Call
}

// decision has the calls to make now, and when to compute them again.
type decision struct {
	Calls []Call
	// waiting are the handlers in backoff.
	waiting []*State
	// firstSeen are the handlers that get an entry without a call: the first state that they see is no update.
	firstSeen []*State
	next      time.Time
}

func (a *decision) wait(h *State, until time.Time) {
	a.waiting, a.next = append(a.waiting, h), Earliest(a.next, until)
}

// CallsNow reports whether a handler is to be called now.
func (a *decision) CallsNow(h *State) bool {
	return slices.ContainsFunc(a.Calls, func(c Call) bool { return c.Handler == h })
}

// Includes reports whether a handler is to be called, now or later.
func (a *decision) Includes(h *State) bool { return slices.Contains(a.waiting, h) || a.CallsNow(h) }

// memo has what was computed of objects: a version of an object never changes.
type memo[T any] map[*object.Object]T

func (m *memo[T]) get(o *object.Object, compute func(*object.Object) T) T {
	if *m == nil {
		*m = memo[T]{}
	}
	if _, known := (*m)[o]; !known {
		(*m)[o] = compute(o)
	}
	return (*m)[o]
}

func (v *Observation) digestsOf(o *object.Object) []string {
	return v.watchedDigests.get(o, v.Rules.watchedDigests)
}

// RetriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (v *Observation) RetriesCalls() bool {
	return v.Causes.HasAny(queue.ReconcileRequested, queue.HookChanged)
}

// RetriesWrites reports whether failed writes are retried at once.
func (v *Observation) RetriesWrites() bool { return v.RetriesCalls() || v.Causes.Has(queue.Retrying) }

// State returns the digest of the whole object: the handler may look at any part of it.
func (v *Observation) State() string { return v.stateDigests.get(v.Object, v.Rules.stateDigest) }

// DigestOwned returns a digest of the owned objects' fields that other clients could have changed,
// independent of their order.
func (v *Observation) DigestOwned(owned []*object.Object) string {
	return lasthandled.Digest(slices.Sorted(slices.Values(lists.Map(owned, func(o *object.Object) string {
		return v.ownedDigests.get(o, ownedObjectDigest)
	}))))
}

// isReleased reports whether the object is being deleted and does not wait for the handlers.
func (v *Observation) isReleased() bool {
	return v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

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

// NeedsFinalizer reports whether a deletion of the object waits for a handler, and whether that is known.
func (p *Pass) NeedsFinalizer() (needed, known bool) {
	known = true
	for _, h := range p.Handlers {
		if !h.NeedsFinalizer() || !p.Rules.Selects(p.Object) {
			continue
		}
		applicable, isKnown := p.IsApplicable(h)
		if applicable {
			return true, true
		}
		known = known && isKnown
	}
	return false, known
}

// HoldsDeletion reports whether the object waits in its deletion for a Delete handler, or for what it responded.
func (p *Pass) HoldsDeletion(h *State, written *Response) bool {
	waits := h.handles(hook.ReasonDelete) && h.mayHold(hook.ReasonDelete, nil, p.Object) &&
		!p.declines(h, hook.ReasonDelete)
	return waits && (!h.Entry().Done || p.HasPending(h, written))
}

// Releases reports whether the object can go without its finalizer: no handler needs it, or the object is being deleted
// and all Delete handlers are done once a response is written.
func (p *Pass) Releases(written *Response) bool {
	switch {
	case !p.Rules.HasFinalizer(p.Object):
		return false
	case !p.Rules.mayNeedFinalizer(p.Object):
		return true
	case !p.Object.Deleting():
		needed, known := p.NeedsFinalizer()
		return known && !needed
	}
	return !slices.ContainsFunc(p.Handlers, func(h *State) bool { return p.HoldsDeletion(h, written) })
}

// RemainingFinalizers returns the finalizers of the object after a write of a response, and whether they differ. A daemon
// may hold the object. The finalizers of a previous controller go with the first write, but in a deletion they hold the
// object for the handlers.
func (p *Pass) RemainingFinalizers(written *Response, held bool) (names []string, differ bool) {
	names = p.Object.Finalizers()
	before := len(names)
	switch {
	case !held && p.Releases(written):
		names = p.Rules.WithoutOwnFinalizers(p.Object)
	case p.Rules.handlesObject(p.Object) && !p.Object.Deleting():
		if _, known := p.NeedsFinalizer(); known {
			names = p.Rules.withoutReplacedFinalizers(names)
		}
	}
	return names, len(names) != before
}

func (v *Observation) callOf(h *State, reason hook.Reason) Call {
	return Call{Handler: h, Reason: reason, Object: v.Object, Previous: h.handled().object, watched: h.watched, Digest: h.watched}
}

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a previous controller is new to all handlers that compare with what they handled.
func (v *Observation) handlesReason(h *State, reason hook.Reason) bool {
	replaced := v.Rules.ReplacedAnnotation
	wasReplaced := replaced != "" && v.Object.Field("metadata", "annotations", replaced) != nil
	return h.handles(reason) || reason == hook.ReasonCreate && wasReplaced && slices.ContainsFunc(changeReasons[:], h.handles)
}

// isAt reports whether the watched fields are as a handler has seen them, or will be once its responses are written,
// of which a part may be.
func (p *Pass) isAt(h *State, digest string) bool {
	if h.isStoredAs(digest) {
		return true
	}
	patch := patchOf(h, p.Responses...)
	return patch != nil && h.patched(h.at(digest), patch).digest == h.patched(seen{h.watched, p.Object}, patch).digest
}

// editionOf returns the edition of an object that a handler has handled: that is stored, or what a response makes of
// it. It is zero if the object is nil, which means unknown.
func (v *Observation) editionOf(h *Handler, handled *object.Object) lasthandled.Edition {
	if handled == nil || !v.Rules.countsEdits(h, handled) {
		return lasthandled.Edition{}
	}
	e := lasthandled.Edition{Generation: handled.Generation()}
	if len(h.Fields) > 0 {
		e.Counted = countedDigest(handled)
	}
	if handled != v.Object && handled.Version() == v.Object.Version() && countedDigest(handled) != countedDigest(v.Object) {
		e.Generation++ // The write of the response counts as well.
	}
	return e
}
