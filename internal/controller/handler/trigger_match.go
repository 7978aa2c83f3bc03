package handler

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// declines reports whether a handler said that it is not applicable with a reason.
func (v *observation) declines(h *state, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == v.state() && !v.retriesCalls()
}

// isApplicable reports whether a handler handles the object as it is. It is not known while
// hook.ReasonMatch fails.
func (v *observation) isApplicable(h *state) (applicable, known bool) {
	switch {
	case !h.matches(nil, v.object):
		return false, true
	case h.needsFinalizer() && !v.holds(h, h.lastReason(), nil, v.object):
		return false, !slices.Contains(v.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == v.state() || v.dry && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// lacksMatch reports whether hook.ReasonMatch is to be called. An object in deletion needs no such
// call: the response to hook.ReasonDelete says it.
func (v *observation) lacksMatch(h *state) bool {
	if !h.needsMatch() || !v.managed || v.object.Deleting() || !h.matches(nil, v.object) ||
		!v.holds(h, h.lastReason(), nil, v.object) {
		return false
	}
	state := v.state()
	return v.retriesCalls() || h.matchState != state && h.failedState != state
}

// awaitsMatch reports whether calls of a handler wait for hook.ReasonMatch, because the object may
// need the finalizer first.
func (v *observation) awaitsMatch(h *state) bool {
	_, known := v.isApplicable(h)
	return !known && !v.object.Deleting() && !v.rules.hasFinalizer(v.object)
}

// nextMatch returns when hook.ReasonMatch is to be called; zero if it is not.
func (p *Pass) nextMatch(now time.Time) time.Time {
	var next time.Time
	for _, h := range p.handlers {
		if p.lacksMatch(h) {
			next = earliest(next, p.matchTime(h, now))
		}
	}
	return next
}

// matchTime returns when hook.ReasonMatch may be called: not in a backoff, and not while the object
// is throttled.
func (p *Pass) matchTime(h *state, now time.Time) time.Time {
	at := latest(now, h.matchAttempt.next)
	if p.throttle.blocks(now) && !p.dry {
		at = latest(at, p.throttle.until)
	}
	return at
}

func (v *observation) matchFailed(h *state, state string, err error) {
	a, now := h.applicability, v.now()
	a.matchAttempt.retry(now, func(failures int) time.Duration { return h.delay(err, failures, v.random) })
	reason := handlerFailureReason(err)
	err = fmt.Errorf("handler %s: %w", h.title(), err)
	if hook.IsTerminal(err) {
		a.failedState, a.matchAttempt, reason = state, attempt{}, ReasonGaveUp
		err = fmt.Errorf("gave up: %w", err)
	}
	v.fail(h, failure.WithReason(reason, err))
}

// asksMatch reports whether hook.ReasonMatch is to be called now.
func (p *Pass) asksMatch(h *state) bool {
	now := p.now()
	return p.lacksMatch(h) && (p.retriesCalls() || !p.matchTime(h, now).After(now))
}

// matched records what a handler responded to hook.ReasonMatch for a state of the object. A failed call leaves the
// finalizer as it is.
func (v *observation) matched(h *state, state string, applicable bool, err error) {
	if err != nil {
		v.matchFailed(h, state, err)
		return
	}
	if h.matchAttempt.count > 0 {
		h.failed = nil
	}
	h.matchState, h.applicable, h.failedState, h.matchAttempt = state, applicable, "", attempt{}
}
