package react

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// tellAgain is how soon an unchanged failure is told again.
const tellAgain = 15 * time.Second

// lookAgain is how soon a run is repeated that met an object which had changed
// under its hands: when the cache has heard of the change.
const lookAgain = 100 * time.Millisecond

// patience is how many runs in a row may end so before that is a failure like any
// other.
const patience = 20

// conclude is the last step: it draws the conclusions, for the memory, for whoever
// looks on, and for when to look again.
func (r *run) conclude(ctx context.Context) trace.Outcome {
	if ctx.Err() != nil {
		// Stopped in the middle: nothing is known to have failed.
		return trace.Postponed
	}
	next := r.nextLook()
	if !next.IsZero() {
		r.queue.AddAfter(r.item.Key, queue.Cause{Kind: queue.Recheck}, max(next.Sub(r.tools.Now()), time.Millisecond))
	}
	r.tellRequest()
	r.noteTrouble()
	switch {
	case r.failure != nil || r.ofHandler:
		return trace.Failed
	case r.moved || len(r.memory.owed) > 0:
		return trace.Postponed
	case r.told > 0 || r.written:
		return trace.Synced
	}
	return trace.Skipped
}

// nextLook is when the object is to be looked at again; zero if not before
// something happens.
func (r *run) nextLook() time.Time {
	if r.stance == pausing {
		return time.Time{}
	}
	now := r.tools.Now()
	next := r.nextWrite(now)
	for i := range r.memory.handlers {
		if m := &r.memory.handlers[i]; r.program.Handlers[i].Daemon != nil {
			next = earliest(next, m.nextDaemon())
		}
	}
	if r.stance != handling || !r.still() {
		return next
	}
	if r.stale {
		r.survey()
	}
	r.noteWhole()
	agenda := r.situation(queue.Causes{}).due()
	next = earliest(earliest(next, agenda.next), r.memory.throttle.over())
	switch {
	case r.moved || r.failure != nil:
		// Handlers that are due are called when the object can be written again.
		return next
	case len(agenda.calls) > 0:
		return now
	case !r.hasEvents():
		return next
	case r.memory.throttle.holds(now):
		return earliest(next, r.memory.throttle.until)
	}
	return now
}

// noteWhole notes what a handler left behind that wants to be called once more, once that
// is written.
func (r *run) noteWhole() {
	for i := range r.memory.handlers {
		if a := &r.memory.handlers[i].attempt; a.again && a.whole == "" && !r.memory.owes(i, nil) {
			a.whole = digest(essence(r.stored))
		}
	}
}

// hasEvents says whether a handler has yet to be called for a change.
func (r *run) hasEvents() bool {
	return slices.ContainsFunc(r.memory.handlers, func(m recall) bool { return len(m.events) > 0 })
}

// nextWrite is when to try again to write what is not written yet.
func (r *run) nextWrite(now time.Time) time.Time {
	var next time.Time
	if r.moved {
		r.memory.moved++
		next = now.Add(lookAgain)
		if r.memory.moved > patience {
			r.fail(failure.New(ReasonWriteFailed, fmt.Errorf("write %s: %w", r.stored.Ref(), errChanging)))
			next = r.memory.writing.next
		}
		return next
	}
	r.memory.moved = 0
	if r.memory.writing.count > 0 {
		next = r.memory.writing.next
	}
	if r.memory.losses.next.After(now) {
		next = earliest(next, r.memory.losses.next)
	}
	for _, o := range r.memory.owed {
		next = earliest(next, o.attempt.next)
	}
	return next
}

// noteTrouble notes how the object is doing.
func (r *run) noteTrouble() {
	now := trouble{told: r.memory.trouble.told, message: r.memory.trouble.message, restless: r.memory.throttle.slows()}
	_, complaint, fault := r.complaint()
	now.ofHandler = complaint != ""
	now.failing = now.ofHandler || r.failure != nil || r.memory.writing.count > 0
	var last LastError
	switch {
	case r.failure != nil:
		last, now.fault = r.lastError(failure.OneLine(r.failure)), trace.FaultOf(r.failure)
	case r.ofHandler && complaint != "":
		last, now.fault = r.lastError(complaint), fault
	}
	r.memories.note(r.memory, now, last, r.tools.Now())
}

func (r *run) lastError(message string) LastError {
	among := r.account.Refused()
	for i := range r.memory.handlers {
		if m := &r.memory.handlers[i]; m.complaint != "" {
			among = trace.With(among, m.among...)
		}
	}
	return LastError{Message: message, Object: r.item.Key.String(), Time: r.tools.Now(), Among: among}
}

// tellFailure warns the object's user and whoever reads the log, unless the same
// was said a moment ago.
func (r *run) tellFailure(err error) {
	message := failure.OneLine(err)
	log := r.log.With("object", r.stored.Ref().String(), "error", message)
	last := &r.memory.trouble
	if last.message == message && r.since(last.told) < tellAgain {
		log.Debug("handling failed again")
		return
	}
	log.Warn("handling failed")
	r.say(hook.Event{Type: warning, Reason: reasonOf(err), Message: message})
	last.message, last.told = message, r.tools.Now()
}

// tellPause says once that an object is left alone, and once that it is not any
// more.
func (r *run) tellPause() {
	paused := r.stance == pausing
	if paused == r.memory.paused {
		return
	}
	event := hook.Event{Type: normal, Reason: ReasonResumed, Message: "in the care of " + r.program.Name + " again"}
	if paused {
		event.Reason = ReasonPaused
		event.Message = "left alone by " + r.program.Name + " while the annotation setpoint.dev/paused is \"true\""
	}
	r.say(event)
	r.memories.pause(r.memory, paused)
}

// tellRequest says that a look which a user asked for was taken.
func (r *run) tellRequest() {
	if r.item.Causes.Has(queue.UserAsked) && r.stance == handling {
		r.say(hook.Event{Type: normal, Reason: ReasonRequested,
			Message: "looked at by " + r.program.Name + ", as was asked for"})
	}
}
