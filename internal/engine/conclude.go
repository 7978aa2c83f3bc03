package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// tellAgain is how soon an unchanged failure is told again. With the longest
// delay and the time in which a hook that hangs is given up by default, a
// failing parent is never silent for more than a minute.
const tellAgain = 15 * time.Second

// lookAgain is how soon a run is repeated that met an object which had changed
// under its hands: when the cache has heard of the change.
const lookAgain = 100 * time.Millisecond

// patience is how many runs in a row may end so before that is a failure like
// any other.
const patience = 20

// conclude is the last step: it draws the conclusion from how the run ended,
// for the queue, for the memory and for whoever looks on.
func (r *run) conclude(ctx context.Context, err error) (trace.Outcome, queue.Outcome) {
	r.memories.rest(r.item.Key, r.memory, r.unrest(err), r.tools.Now())
	r.account.Failed(err)
	delay, later := hook.Postponed(err)
	var wait *waitError
	switch {
	case err == nil:
		return r.succeeded(), queue.Settled()
	case ctx.Err() != nil:
		// Stopped in the middle: nothing is known to have failed.
		return trace.Postponed, queue.Retry()
	case later:
		// The hook says when to call again: no event warns of what works as it should.
		r.log.Debug("run postponed by the hook", "parent", r.stored.Ref().String(), "delay", delay, "error", failure.OneLine(err))
		r.remember(err, r.memory.trouble.told)
		return trace.Postponed, queue.RetryAfter(delay)
	case errors.As(err, &wait):
		return trace.Postponed, queue.RetryAfter(wait.delay)
	case errors.Is(err, errWaiting):
		return trace.Postponed, queue.Settled()
	case hook.Terminal(err):
		r.remember(err, r.tell(err))
		return trace.Failed, queue.Settled()
	case hook.Unreachable(err) && r.scout.is(r.item.Key):
		r.remember(err, r.tell(err))
		return trace.Failed, queue.RetryAfter(scoutEvery)
	case errors.Is(err, errMore):
		return trace.Postponed, queue.RetryAfter(time.Millisecond)
	case errors.Is(err, errMoved) && r.memory.moved < patience:
		r.memory.moved++
		return trace.Postponed, queue.RetryAfter(lookAgain)
	}
	r.remember(err, r.tell(err))
	if unrestful(err) {
		return trace.Failed, queue.RetryAfter(backoffOf(r.memory.failed))
	}
	return trace.Failed, queue.RetryIn(r.queue.Backoff(r.item))
}

func (r *run) succeeded() trace.Outcome {
	r.prune()
	r.memory.moved = 0
	if r.asked > 0 {
		r.memory.editPending = false
	}
	r.note(trouble{}, nil)
	r.tellRequest()
	if r.reply != nil && r.reply.ResyncAfter > 0 {
		r.queue.AddAfter(r.item.Key, queue.Cause{Kind: queue.Recheck}, r.reply.ResyncAfter)
	}
	r.scheduleResync(r.item.Key)
	if r.asked == 0 {
		return trace.Skipped
	}
	return trace.Synced
}

// note keeps how the run ended. Where the hook answers a parent again that it gave no
// answer before, in whatever way, the others without an answer need not wait out their
// backoffs. Those that it answered with an error do: that is about them alone.
func (r *run) note(now trouble, last *LastError) {
	answered := r.memory.trouble.unanswered && !now.unanswered
	r.memories.note(r.memory, r.countChildren(), now, last)
	if answered {
		r.scout.end()
		r.queue.RetryKeysNow(r.memories.unanswered())
	}
}

// remember notes a failure. told is when it was last told as an event.
func (r *run) remember(err error, told time.Time) {
	now := trouble{failing: true, ofHook: ofHook(err), unanswered: hook.Unreachable(err), message: failure.OneLine(err), fault: trace.FaultOf(err), told: told, since: r.tools.Now(), among: r.account.Refused()}
	for _, a := range r.removed {
		// The message may name them.
		now.among = trace.With(now.among, trace.Place{Resource: a.Resource, Namespace: strings.Clone(a.Ref.Namespace)})
	}
	if reasonOf(err) == ReasonUnsettled {
		now.among = trace.With(now.among, r.latestAt...)
	}
	r.note(now, &LastError{
		Message: now.message, Object: r.item.Key.String(), Time: r.tools.Now(), Among: now.among,
	})
}

// tell warns the parent's user and whoever reads the log, unless the same was
// said a moment ago. It returns when it was last said.
func (r *run) tell(err error) time.Time {
	message := failure.OneLine(err)
	log := r.log.With("parent", r.stored.Ref().String(), "attempt", r.item.Attempt+1, "error", message)
	last := r.memory.trouble
	again := reasonOf(err) != ReasonDeletionsHeld && r.since(last.told) >= tellAgain
	if last.message == message && !again {
		log.Debug("run failed again")
		return last.told
	}
	log.Warn("run failed")
	r.say(r.program.warningOf(reasonOf(err), message))
	return r.tools.Now()
}

// warningOf is the event that warns of a failed run.
func (p *Program) warningOf(reason, message string) hook.Event {
	if p.FailureReason == "" {
		return hook.Event{Type: warning, Reason: reason, Message: message}
	}
	return hook.Event{Type: warning, Reason: p.FailureReason, Message: "Sync error: " + reason + ": " + message}
}

// prune forgets the agreements on children that are gone.
func (r *run) prune() {
	if len(r.memory.settled) <= r.countChildren() {
		return
	}
	present := make(map[uint64]bool, r.countChildren())
	for _, child := range r.observed() {
		present[childOf(child)] = true
	}
	r.memory.settled.prune(present)
}

func (r *run) countChildren() int {
	n := 0
	for _, children := range r.children {
		n += len(children)
	}
	return n
}
