package react

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// handlerFailed notes a failed call, and when it comes again, if it does.
func (r *run) handlerFailed(c call, err error) {
	h, m := &r.program.Handlers[c.handler], &r.memory.handlers[c.handler]
	err = fmt.Errorf("handler %s: %w", h.Name, err)
	if c.reason == hook.ReasonEvent {
		r.giveUp(c, err)
		return
	}
	now := r.tools.Now()
	if !m.attempt.is(c) {
		m.attempt = attempt{since: now}
	}
	a := &m.attempt
	a.reason, a.input, a.again = c.reason, c.input, false
	a.count++
	delay := h.delay(err, a.count)
	a.next = now.Add(h.beforeNext(c, now, delay))
	if hook.Terminal(err) || h.exhausted(*a) {
		r.giveUp(c, err)
		return
	}
	if h.limited() && c.reason != hook.ReasonTimer {
		e := r.known()[h.Name]
		e.Tries, e.Since = a.count, a.since.Unix()
		m.pending = &e
	}
	r.complain(c.handler, failure.New(kindOf(err), err))
}

// kindOf is the reason of a handler's failure.
func kindOf(err error) string {
	if hook.Malformed(err) {
		return ReasonInvalidAnswer
	}
	return ReasonHandlerFailed
}

// beforeNext cuts the delay of a timer to the time until its next moment.
func (h *Handler) beforeNext(c call, now time.Time, delay time.Duration) time.Duration {
	if c.reason != hook.ReasonTimer {
		return delay
	}
	next := h.moment(c.object, now)
	if h.Every > 0 {
		next = h.counted(c, now).Add(h.Every)
	}
	if next.IsZero() {
		return delay
	}
	return min(delay, next.Sub(now))
}

// giveUp notes that a handler is not to be called again before there is something
// else to tell.
func (r *run) giveUp(c call, err error) {
	h, m := &r.program.Handlers[c.handler], &r.memory.handlers[c.handler]
	if c.reason == hook.ReasonEvent {
		r.ofHandler = true
		r.account.Failed(err)
		r.tellFailure(failure.New(kindOf(err), err))
		return
	}
	m.attempt = attempt{}
	e := r.known()[h.Name]
	e.Tries, e.Since = 0, 0
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		e = entry{Seen: c.input, Failed: true, Owned: e.Owned}
		m.handled, m.resumed = c.object, true
	case hook.ReasonDelete:
		e.Seen, e.Failed, e.Done = c.input, !h.Optional, h.Optional
	case hook.ReasonResume:
		m.resumed = true
	case hook.ReasonDrift:
		e.Owned = c.input
	case hook.ReasonTimer:
		m.ticked = h.counted(c, r.tools.Now())
	}
	if e != (entry{}) {
		m.pending, m.before = &e, ""
	}
	r.complain(c.handler, failure.New(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
}

// complain notes what a handler failed with, and tells it.
func (r *run) complain(handler int, err error) {
	m := &r.memory.handlers[handler]
	m.complaint, m.reason = failure.OneLine(err), reasonOf(err)
	m.fault, m.among = trace.FaultOf(err), r.account.Refused()
	r.account.Failed(err)
	r.ofHandler = true
	r.tellFailure(err)
}

// fail notes a failure of the run as a whole, which is then repeated with backoff.
// That something moved is none.
func (r *run) fail(err error) {
	switch {
	case errors.Is(err, errMoved):
		r.moved = true
		r.account.Failed(err)
	case err != nil:
		r.failure = err
		r.account.Failed(err)
		r.memory.writing.failed(r.tools.Now())
		r.tellFailure(err)
	}
}
