package handler

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// run is one reconcile of one object.
type run struct {
	*Controller
	*controller.Run

	memory *memory
	// causes are those of the item, as long as they can bring about a call.
	causes queue.Causes
	// storedState is the record on the object.
	storedState handledState
	// owned are the objects that the object controls, by kind in the order of the program.
	// ownedDigest is their digest, for programs with Drift handlers.
	owned       [][]*object.Object
	ownedDigest string
	// digests caches digests.
	digests digestCache
	pending pendingCalls
	// ownedNow are the owned objects after our writes.
	ownedNow []*object.Object
	// calls counts the calls, written means that the object was written, and stale that writes
	// have outdated what was observed. writing is the response in progress.
	calls          int
	written, stale bool
	writing        *pendingResponse
	// applied means that owned objects were written, resolved that a conflict ended.
	applied, resolved bool
	// changeCount is the number of changes in the run: the calls of the handler with the most
	// calls. latestChange is the latest call because of a change.
	changeCount, sameHandlerCount int
	latestChange                  *call
	// failure is the error of the run as a whole, handlerFailing means that a handler failed.
	failure        error
	handlerFailing bool
	// failedExpressions are the handlers whose Expression failed in this run.
	failedExpressions []*handlerMemory
	// detached means that this is a write outside of the object's worker, without a memory.
	detached bool
	// dry is nil unless this is a dry run.
	dry *dryRun
	// conflicted means that an object changed during the run.
	conflicted bool
}

// reconcile runs the steps for one object. Each handler fails and retries separately.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	if c.gate.holds(item) {
		return queue.NoRequeue()
	}
	events := c.eventBuffer.take(item.Key)
	c.handleDeletions(ctx, events)
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run, remembered controller.Remembered,
		fresh bool) (record.Outcome, queue.Outcome) {
		r := c.newRun(of, remembered, fresh)
		r.observe()
		r.takeEvents(events)
		r.fail(r.releaseAbandoned(ctx, r.Recover(func() error { return r.reconcileObject(ctx) })))
		return r.finish(ctx), queue.NoRequeue()
	})
}

// reconcileObject calls the pending handlers and writes their responses.
func (r *run) reconcileObject(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if !r.IsDry() {
		r.syncDaemons(ctx)
	}
	if r.Phase == controller.PhasePaused {
		return nil
	}
	if r.Phase == controller.PhaseManaged {
		r.decide()
	}
	err := r.callHandlers(ctx)
	if errors.Is(err, errGone) || ctx.Err() != nil {
		err = nil
	}
	return err
}

// prepare takes the steps before the calls.
func (r *run) prepare(ctx context.Context) error {
	if err := r.checkReads(ctx); err != nil {
		return err
	}
	if err := r.findApplied(ctx); err != nil {
		return err
	}
	if err := r.matchHandlers(ctx); err != nil {
		return err
	}
	if err := r.setFinalizer(ctx); err != nil {
		return err
	}
	return r.loadPreviousStates(ctx)
}

// decide is the step that finds the pending calls.
func (r *run) decide() {
	r.pending = r.pendingCalls()
	r.recordFirstSeen()
	r.clearFailures()
}

// retriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (r *run) retriesCalls() bool {
	return r.causes.Has(queue.ReconcileRequested) || r.causes.Has(queue.HookChanged)
}

// retriesWrites reports whether failed writes are retried at once.
func (r *run) retriesWrites() bool { return r.retriesCalls() || r.causes.Has(queue.Retrying) }

// recordFirstSeen adds the entries that need no call.
func (r *run) recordFirstSeen() {
	for _, h := range r.pending.firstSeen {
		e := h.entry()
		if e.Digest == "" {
			// Later writes of this run may change the object before it is observed again.
			e.Digest, e.edition, h.handled = h.watched, r.editionOf(h.Handler, r.Stored), r.Stored
		}
		if h.handles(hook.ReasonDrift) {
			e.OwnedDigest = r.ownedDigest
		}
		h.pendingEntry, h.resumed = &e, true
	}
}

// clearFailures clears the errors of handlers without a pending call: the failing change was
// reverted.
func (r *run) clearFailures() {
	for _, h := range r.memory.handlers {
		if r.clearExpressionFailure(h) {
			continue
		}
		e := h.entry()
		if h.Daemon != nil || h.attempt.count+e.Attempts == 0 && e.Progress == "" || r.pending.includes(h) || r.memory.hasPending(h, nil) {
			continue
		}
		h.succeed()
		if e.Attempts > 0 || e.Progress != "" {
			e.Attempts, e.Since = 0, 0
			e.clearProgress()
			h.pendingEntry = &e
		}
	}
}

// includes reports whether a handler is to be called, now or later.
func (a *pendingCalls) includes(h *handlerMemory) bool {
	return slices.Contains(a.waiting, h) || a.calls.includes(h)
}
