package handle

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// run is one turn of one object.
type run struct {
	*Controller
	item queue.Item
	// record says what the run did; nil in a rehearsal.
	record *record.Record
	memory *memory
	phase  phase
	// stored is the object as it is known to be stored.
	stored *object.Object
	// storedState is the record on the object, watched are the digests of what the
	// handlers watch of it.
	storedState    handledState
	watchedDigests []string
	// owned are the objects that the object controls, in the order of the
	// program, and ownedDigest is what they are as a digest.
	owned       [][]*object.Object
	ownedDigest string
	// digests are the digests of what has been looked at.
	digests digestCache
	pending pendingCalls
	// ownedNow are the owned objects after our writes.
	ownedNow []*object.Object
	// calls counts the calls that were made, written says that the object was, and stale
	// that there were writes since it was surveyed. writing is the response at hand.
	calls          int
	written, stale bool
	writing        *pendingResponse
	// applied says that owned objects were written, change is the latest call that was made
	// because of a change, and resolved says that a conflict ended.
	applied, resolved bool
	// changeCount is how many changes the run served: as many as the handler was called for
	// that was called for most.
	changeCount, sameHandlerCount int
	latestChange                  *call
	// failure is that of the run as a whole, handlerFailing says that a handler failed.
	failure        error
	handlerFailing bool
	// detached says that the run is a write beside those of the object's worker: it
	// has no memory.
	detached bool
	// isDryRun says that nothing is written: see Preview.
	isDryRun bool
	// conflicted says that an object had changed under the hands of the run.
	conflicted bool
}

// reconcile gives one object its turn. Whatever is to be tried again is on an
// agenda: each handler of an object fails by itself.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	events := c.eventBuffer.take(item.Key)
	c.handleDeletions(ctx, events)
	r, open := c.startRun(item, events)
	if !open {
		return queue.NoRequeue()
	}
	r.record = c.startRecord(r.stored, item)
	r.record.SetAttempt(r.memory.Attempts)
	if paused := r.phase == phasePaused; c.memories.SetPaused(r.memory, paused) {
		c.ReportPause(r.record, r.stored, paused)
	}
	r.fail(r.Recover(item.Key, func() error { return r.reconcileObject(ctx) }))
	outcome := r.finish(ctx)
	if c.program.phaseOf(r.stored) == phaseIgnored {
		c.memories.Drop(item.Key)
	}
	r.finishRecord(outcome)
	return queue.NoRequeue()
}

// reconcileObject tells the handlers what they are to be told, and writes what they
// answer.
func (r *run) reconcileObject(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	r.syncDaemons(ctx)
	if r.phase == phasePaused {
		return nil
	}
	if r.phase == phaseManaged {
		r.decide()
	}
	err := r.callHandlers(ctx)
	if errors.Is(err, errGone) || ctx.Err() != nil {
		err = nil
	}
	return err
}

// prepare is what comes before anybody is told.
func (r *run) prepare(ctx context.Context) error {
	if err := r.setFinalizer(ctx); err != nil {
		return err
	}
	return r.loadPreviousStates(ctx)
}

// decide is the step that finds out who is to be told what.
func (r *run) decide() {
	r.pending = r.observation(r.item.Causes).pendingCalls()
	r.recordFirstSeen()
	r.clearFailures()
}

// observation is what decides which handlers the object is due for.
func (r *run) observation(causes queue.Causes) *observation {
	called := causes.Has(queue.ReconcileRequested)
	return &observation{
		program:        &r.program,
		object:         r.stored,
		hasFinalizer:   r.program.hasFinalizer(r.stored),
		state:          r.currentState(),
		watchedDigests: r.watchedDigests,
		ownedDigest:    r.ownedDigest,
		memory:         r.memory,
		requested:      called,
		retryCalls:     called || causes.Has(queue.HookChanged),
		throttled:      r.throttled(),
		now:            r.tools.Now(),
	}
}

// retriesCalls says that a user, or another hook, has failed calls retried at once.
func (r *run) retriesCalls() bool {
	return r.item.Causes.Has(queue.ReconcileRequested) || r.item.Causes.Has(queue.HookChanged)
}

// retriesWrites says that failed writes are retried at once.
func (r *run) retriesWrites() bool { return r.retriesCalls() || r.item.Causes.Has(queue.Retrying) }

// recordFirstSeen makes the entries that handlers get unasked.
func (r *run) recordFirstSeen() {
	known := r.currentState()
	for _, i := range r.pending.firstSeen {
		e := known[r.program.Handlers[i].Name]
		if e.Digest == "" {
			e.Digest = r.watchedDigests[i]
		}
		if r.program.Handlers[i].handles(hook.ReasonDrift) {
			e.OwnedDigest = r.ownedDigest
		}
		m := &r.memory.handlers[i]
		m.pendingEntry, m.digestBefore, m.resumed = &e, "", true
	}
}

// clearFailures forgets the failures of handlers that have nothing to be told of any
// more: what they failed with was undone.
func (r *run) clearFailures() {
	known := r.currentState()
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		if h.Do == nil || m.attempt.count+e.Attempts == 0 || r.pending.includes(i) || r.memory.hasPending(i, nil) {
			continue
		}
		m.attempt, m.errorMessage = attempt{}, ""
		if e.Attempts > 0 {
			e.Attempts, e.Since = 0, 0
			m.pendingEntry = &e
		}
	}
}

// includes says whether a handler is to be called, now or later.
func (a *pendingCalls) includes(handler int) bool {
	return slices.Contains(a.waiting, handler) || a.calls.includes(handler)
}
