package handler

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// handlerFailed records a failed call and schedules the retry, if any. The digest is that of the
// input after what the handler returned beside the error.
func (r *run) handlerFailed(c call, digest string, err error) {
	h := c.handler
	err = fmt.Errorf("handler %s: %w", h.title(), err)
	if c.reason == hook.ReasonEvent {
		r.giveUp(c, err)
		return
	}
	now := r.tools.Now()
	if !h.attempt.isFor(c) {
		h.attempt = attempt{}
	}
	a := &h.attempt
	counts := a.add(c, now)
	a.reason, a.digest, a.digestBefore, a.requeued = c.reason, digest, c.digest, false
	a.next = now.Add(h.capAtNextTime(c, now, h.delay(err, a.delays, r.tools.Queue.Random), err))
	if counts {
		a.due = a.next
		if a.delays < a.count {
			a.due = now.Add(h.delay(err, a.count, r.tools.Queue.Random))
		}
	}
	if hook.IsTerminal(err) || h.exhausted(*a) {
		r.giveUp(c, err)
		return
	}
	if h.hasRetryLimit() && c.reason != hook.ReasonTimer {
		e := h.entry()
		e.Attempts, e.Since = a.count, a.since.Unix()
		h.pendingEntry = &e
	}
	r.recordError(h, failure.WithReason(handlerFailureReason(err), err))
}

// add adds a failure and reports whether it counts.
func (a *attempt) add(c call, now time.Time) (counts bool) {
	if !a.hasInput(c) {
		a.delays = 0
	}
	a.delays++
	if now.Before(a.due) {
		return false
	}
	if a.count == 0 {
		a.since = now
	}
	a.count++
	return true
}

// handlerFailureReason returns the reason of a handler's failure.
func handlerFailureReason(err error) string {
	if hook.IsMalformed(err) {
		return ReasonInvalidResponse
	}
	return ReasonHandlerFailed
}

// capAtNextTime limits the delay of a timer to its next scheduled time. A timer with an initial
// delay has no times of its own, so a delay that its error requests replaces the interval.
func (h *Handler) capAtNextTime(c call, now time.Time, delay time.Duration, err error) time.Duration {
	requested, _ := hook.RetryDelay(err)
	if c.reason != hook.ReasonTimer || h.FromFirstSeen && requested > 0 {
		return delay
	}
	next := h.nextTime(c.object, now)
	if h.Every > 0 {
		next = h.intervalStart(c, now).Add(h.Every)
	}
	if next.IsZero() {
		return delay
	}
	return min(delay, next.Sub(now))
}

// giveUp records that a handler is not called again until its input changes.
func (r *run) giveUp(c call, err error) {
	h := c.handler
	if c.reason == hook.ReasonEvent {
		r.handlerFailing = true
		r.Record.Failed(err)
		r.reportFailure(failure.WithReason(handlerFailureReason(err), err))
		return
	}
	e := h.entry()
	seen, _ := h.basisOf(c)
	r.settle(c, &e, seen, true)
	if e != (entry{}) {
		h.pendingEntry = &e
	}
	r.recordError(h, failure.WithReason(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
}

// recordError records the error of a handler and sends an event.
func (r *run) recordError(h *handlerMemory, err error) {
	err = r.Secrets.Error(err)
	h.failed = &handlerError{controller.ReasonOf(err), failure.OneLine(err), record.FaultOf(err), r.Record.Refused()}
	r.Record.Failed(err)
	r.handlerFailing = true
	r.reportFailure(err)
}

// fail records a failure of the run as a whole, which is retried with backoff. A conflict is
// no failure.
func (r *run) fail(err error) {
	err = r.Secrets.Error(err)
	switch {
	case errors.Is(err, controller.ErrConflict):
		r.conflicted = true
		r.Record.Failed(err)
	case err != nil:
		r.failure = err
		r.Record.Failed(err)
		r.memory.writeAttempt.failed(r.tools.Now(), r.tools.Queue.Random)
		r.reportFailure(err)
	}
}
