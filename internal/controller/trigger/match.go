package trigger

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// declines reports whether a handler said that it is not applicable with a reason.
func (v *Observation) declines(h *State, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == v.State() && !v.RetriesCalls()
}

// IsApplicable reports whether a handler handles the object as it is. It is not known while
// hook.ReasonMatch fails.
func (v *Observation) IsApplicable(h *State) (applicable, known bool) {
	switch {
	case !h.matches(nil, v.Object):
		return false, true
	case h.NeedsFinalizer() && !v.holds(h, h.lastReason(), nil, v.Object):
		return false, !slices.Contains(v.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == v.State() || v.Dry && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// lacksMatch reports whether hook.ReasonMatch is to be called. An object in deletion needs no such
// call: the response to hook.ReasonDelete says it.
func (v *Observation) lacksMatch(h *State) bool {
	if !h.needsMatch() || !v.Managed || v.Object.Deleting() || !h.matches(nil, v.Object) ||
		!v.holds(h, h.lastReason(), nil, v.Object) {
		return false
	}
	state := v.State()
	return v.RetriesCalls() || h.matchState != state && h.failedState != state
}

// awaitsMatch reports whether calls of a handler wait for hook.ReasonMatch, because the object may
// need the finalizer first.
func (v *Observation) awaitsMatch(h *State) bool {
	_, known := v.IsApplicable(h)
	return !known && !v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

// nextMatch returns when hook.ReasonMatch is to be called; zero if it is not.
func (p *Pass) nextMatch(now time.Time) time.Time {
	var next time.Time
	for _, h := range p.Handlers {
		if p.lacksMatch(h) {
			next = Earliest(next, p.matchTime(h, now))
		}
	}
	return next
}

// matchTime returns when hook.ReasonMatch may be called: not in a backoff, and not while the object
// is throttled.
func (p *Pass) matchTime(h *State, now time.Time) time.Time {
	at := Latest(now, h.MatchAttempt.Next)
	if p.Throttle.blocks(now) && !p.Dry {
		at = Latest(at, p.Throttle.until)
	}
	return at
}

func (v *Observation) matchFailed(h *State, state string, err error) {
	a, now := h.applicability, v.Now()
	a.MatchAttempt.retry(now, func(failures int) time.Duration { return h.Delay(err, failures, v.Random) })
	reason := FailureReason(err)
	err = fmt.Errorf("handler %s: %w", h.Title(), err)
	if hook.IsTerminal(err) {
		a.failedState, a.MatchAttempt, reason = state, Attempt{}, ReasonGaveUp
		err = fmt.Errorf("gave up: %w", err)
	}
	v.Fail(h, failure.WithReason(reason, err))
}

// AsksMatch reports whether hook.ReasonMatch is to be called now.
func (p *Pass) AsksMatch(h *State) bool {
	now := p.Now()
	return p.lacksMatch(h) && (p.RetriesCalls() || !p.matchTime(h, now).After(now))
}

// Matched records what a handler responded to hook.ReasonMatch for a state of the object. A failed call leaves the
// finalizer as it is.
func (v *Observation) Matched(h *State, state string, applicable bool, err error) {
	if err != nil {
		v.matchFailed(h, state, err)
		return
	}
	if h.MatchAttempt.Count > 0 {
		h.Failed = nil
	}
	h.matchState, h.applicable, h.failedState, h.MatchAttempt = state, applicable, "", Attempt{}
}
