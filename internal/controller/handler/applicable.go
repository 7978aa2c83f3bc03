package handler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// applicability is what a conditional handler said about one state of the object. It is kept in
// memory only: another process asks again.
type applicability struct {
	// state is the digest of the whole object for which the handler is not applicable with the
	// declined reasons.
	state    string
	declined []hook.Reason
	// matchState is the state for which applicable is the response to hook.ReasonMatch, failedState
	// one for which the handler gave up, and matchAttempt counts the failed calls.
	matchState   string
	applicable   bool
	failedState  string
	matchAttempt attempt
}

// decline records that a handler is not applicable with the reason of a call.
func (r *run) decline(c call) {
	if c.reason == hook.ReasonEvent {
		return // Each event is called for anyway.
	}
	h, state := c.handler, r.state()
	if handled, outdated := h.basisOf(c); outdated && c.reason == hook.ReasonUpdate {
		// Its steps until now have seen a state that is to be compared with.
		e := h.entry()
		r.settle(c, &e, handled, false)
		h.pendingEntry, h.failed = &e, nil
		return
	}
	if h.state != state {
		h.state, h.declined = state, nil
	}
	h.declined = append(h.declined, c.reason)
	switch {
	case c.reason != hook.ReasonTimer:
	case h.FromFirstSeen:
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	default:
		h.ticked(c, r.tools.Now())
	}
	h.succeed()
}

// declines reports whether a handler said that it is not applicable with a reason.
func (r *run) declines(h *handlerMemory, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == r.state() && !r.retriesCalls()
}

// needsMatch reports whether Setpoint must know in advance if the handler is applicable: before a
// deletion, or to start a daemon.
func (h *Handler) needsMatch() bool { return h.Conditional && h.needsFinalizer() }

// isApplicable reports whether a handler handles the object as it is. It is not known while
// hook.ReasonMatch fails.
func (r *run) isApplicable(h *handlerMemory) (applicable, known bool) {
	switch {
	case !h.matches(nil, r.Stored):
		return false, true
	case h.needsFinalizer() && !r.holds(h, h.lastReason(), nil, r.Stored):
		return false, !slices.Contains(r.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == r.state() || r.IsDry() && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// lacksMatch reports whether hook.ReasonMatch is to be called. An object in deletion needs no such
// call: the response to hook.ReasonDelete says it.
func (r *run) lacksMatch(h *handlerMemory) bool {
	if !h.needsMatch() || r.Phase != controller.PhaseManaged || r.Stored.Deleting() || !h.matches(nil, r.Stored) ||
		!r.holds(h, h.lastReason(), nil, r.Stored) {
		return false
	}
	state := r.state()
	return r.retriesCalls() || h.matchState != state && h.failedState != state
}

// awaitsMatch reports whether calls of a handler wait for hook.ReasonMatch, because the object may
// need the finalizer first.
func (r *run) awaitsMatch(h *handlerMemory) bool {
	_, known := r.isApplicable(h)
	return !known && !r.Stored.Deleting() && !r.program.hasFinalizer(r.Stored)
}

// matchHandlers is the step that finds out which conditional handlers are applicable.
func (r *run) matchHandlers(ctx context.Context) error {
	if r.dry != nil && r.dry.skipCalls {
		return nil
	}
	for _, h := range r.memory.handlers {
		if now := r.tools.Now(); r.lacksMatch(h) && (r.retriesCalls() || !r.matchTime(h, now).After(now)) {
			r.matchHandler(ctx, h)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// nextMatch returns when hook.ReasonMatch is to be called; zero if it is not.
func (r *run) nextMatch(now time.Time) time.Time {
	var next time.Time
	for _, h := range r.memory.handlers {
		if r.lacksMatch(h) {
			next = earliest(next, r.matchTime(h, now))
		}
	}
	return next
}

// matchTime returns when hook.ReasonMatch may be called: not in a backoff, and not while the object
// is throttled.
func (r *run) matchTime(h *handlerMemory, now time.Time) time.Time {
	at := latest(now, h.matchAttempt.next)
	if r.memory.throttle.blocks(now) && !r.IsDry() {
		at = latest(at, r.memory.throttle.until)
	}
	return at
}

// matchHandler calls a handler with hook.ReasonMatch. A failed call leaves the finalizer as it is.
func (r *run) matchHandler(ctx context.Context, h *handlerMemory) {
	a, state := h.applicability, r.state()
	n := r.newRequest(h.Handler, r.Stored)
	n.Reason, n.DryRun, n.Owned = hook.ReasonMatch, r.IsDry(), r.program.ownedGroups(r.owned)
	n.Attempt, n.FirstAttempt = a.matchAttempt.count, a.matchAttempt.since
	r.countChange(call{handler: h, reason: hook.ReasonMatch, object: r.Stored, repeated: n.Attempt > 0})
	response, err := r.invoke(ctx, r.Run, n, h.Handler)
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		r.matchFailed(h, state, err)
	default:
		if a.matchAttempt.count > 0 {
			h.failed = nil
		}
		a.matchState, a.applicable, a.failedState, a.matchAttempt = state, !response.NotApplicable, "", attempt{}
	}
}

func (r *run) matchFailed(h *handlerMemory, state string, err error) {
	a, now := h.applicability, r.tools.Now()
	if a.matchAttempt.count == 0 {
		a.matchAttempt.since = now
	}
	a.matchAttempt.count++
	a.matchAttempt.next = now.Add(h.delay(err, a.matchAttempt.count, r.tools.Queue.Random))
	reason := handlerFailureReason(err)
	err = fmt.Errorf("handler %s: %w", h.title(), err)
	if hook.IsTerminal(err) {
		a.failedState, a.matchAttempt, reason = state, attempt{}, ReasonGaveUp
		err = fmt.Errorf("gave up: %w", err)
	}
	r.recordError(h, failure.WithReason(reason, err))
}

// state returns the digest of the whole object: the handler may look at any part of it.
func (r *run) state() string {
	if d := &r.digests; d.state == "" || d.stateOf != r.Stored {
		d.stateOf, d.state = r.Stored, r.program.stateDigest(r.Stored)
	}
	return r.digests.state
}

// stateDigest returns the digest of an object without what Setpoint itself and every write change.
func (p *Program) stateDigest(o *object.Object) string {
	whole := decodeObject(o.JSON())
	metadata, _ := whole["metadata"].(map[string]any)
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		delete(metadata, name)
	}
	if others := p.withoutOwnFinalizers(o); len(others) > 0 {
		metadata["finalizers"] = others
	} else {
		delete(metadata, "finalizers")
	}
	removeBookkeeping(whole)
	removeOwnCondition(whole)
	return digest(whole)
}

// removeOwnCondition removes the condition that Setpoint itself sets.
func removeOwnCondition(whole map[string]any) {
	status, _ := whole["status"].(map[string]any)
	conditions, isList := status["conditions"].([]any)
	if !isList {
		return
	}
	status["conditions"] = slices.DeleteFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["type"] == ConditionHandled
	})
}
