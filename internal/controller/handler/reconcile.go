package handler

import (
	"context"
	"errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// reconcile runs the steps for one object. Each handler fails and retries separately.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	if c.gate.Holds(item) {
		return queue.NoRequeue()
	}
	events := c.eventBuffer.Take(item.Key)
	c.handleDeletions(ctx, events)
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run, remembered controller.Remembered,
		fresh bool) (record.Outcome, queue.Outcome) {
		r := c.newRun(of, remembered, fresh)
		r.observe()
		r.pass.TakeEvents(events)
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
		r.pass.Decide()
	}
	err := r.callHandlers(ctx)
	if errors.Is(err, errGone) || ctx.Err() != nil {
		err = nil
	}
	return err
}

// prepare takes the steps before the calls.
func (r *run) prepare(ctx context.Context) error {
	if err := r.CheckReads(ctx); err != nil {
		return err
	}
	switch asked, err := r.dependents.findApplied(ctx); {
	case err != nil:
		return err
	case asked:
		r.pass.OwnedDigest = r.pass.Digests.Owned(r.dependents.appliedNow())
	}
	if err := r.matchHandlers(ctx); err != nil {
		return err
	}
	return r.setFinalizer(ctx)
}

// newRun is the first step: it loads the memory of the object. For a fresh one, the record on
// the object decides what to resume.
func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered, fresh bool) *run {
	r := c.newDetached(of)
	r.memory = remembered.(*memory)
	r.pass = trigger.NewPass(trigger.Observation{
		Rules: c.rules, Object: r.Stored, Causes: of.Item.Causes, Managed: r.Phase == controller.PhaseManaged, Dry: r.IsDry(),
		Now: c.Tools.Now, Random: c.Tools.Queue.Random, Fail: r.recordError,
	}, &r.memory.States)
	r.object.pass, r.object.memory = r.pass, r.memory
	r.dependents.remembered, r.dependents.reapplies = &r.memory.applied, r.pass.RetriesWrites()
	if fresh {
		r.dependents.restoreApplied(r.pass.Recorded)
		r.memory.daemons = newDaemons(r.memory.Handlers)
	}
	return r
}

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	defer r.seeCached()
	r.object.stale = false
	r.dependents.observe()
	digest := ""
	if r.rules.Handles(hook.ReasonDrift) {
		digest = r.pass.Digests.Owned(r.dependents.appliedNow())
	}
	if r.pass.Observe(r.Stored, digest) {
		r.memory.noteStateRemoval(r.Tools.Now(), r.Tools.Queue.Random)
		r.Log.Info("another client removed the handled state; writing it again", "object", r.Stored.Ref().String())
	}
}

// seeCached adds the values of the Secrets that a write may quote before the first call: those of the objects, and of
// responses of earlier runs.
func (r *run) seeCached() {
	controller.SeeObjects(r.Secrets, []*object.Object{r.Stored})
	controller.SeeObjects(r.Secrets, r.dependents.byKind...)
	for _, o := range r.memory.Responses {
		if !o.Fresh {
			r.See(&record.Request{}, &record.Response{Handler: o.Response})
		}
	}
}
