package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// maxPasses bounds how often one run asks the hook: once for what is there, once
// for what our own writes made of it, and some more for hooks that work in steps.
const maxPasses = 6

// run is one turn of one parent.
type run struct {
	*Controller
	item queue.Item
	// record says what the run did; nil in a rehearsal.
	record *record.Record
	memory *memory
	phase  phase
	// stored is the parent as the cache has it, which is what hooks are shown; parent
	// is the same with what the latest responses say of it laid over.
	stored, parent *object.Object
	// visible is what of stored hooks are shown, of the version it is made from.
	visible struct{ of, as *object.Object }
	planner plan.Planner
	// children are the observed children, in the order of the rules.
	children [][]*object.Object
	// storedRevisions are the stored revisions of the parent, rollout what follows from
	// them; nil where no child has to wait for its turn.
	storedRevisions []*object.Object
	rollout         *rollout
	// relatedObjects is what the hook is shown beside the children.
	relatedObjects related.Snapshot
	inputDigest    uint64
	response       *hook.Response
	calls          int
	// latestWrite is the first write of the latest plan, in words.
	latestWrite string
	// latestLocations is where that was to be.
	latestLocations []record.Location
	// nondeterminismErr is the error of a hook whose responses differ for the same request.
	nondeterminismErr error
	// initialChildren is how many children there were when the run began.
	initialChildren int
	// guardDecision is what becomes of the deletions of the latest plan, removed those of them
	// that are not made now.
	guardDecision guardDecision
	withheld      []plan.Action
	// updatedChildren is how many children were moved to the latest revision.
	updatedChildren int
}

// reconcile gives one parent its turn.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	r, open := c.startRun(item)
	if !open {
		return queue.NoRequeue()
	}
	r.startRecord()
	outcome, requeue := record.Skipped, queue.NoRequeue()
	r.reportPause()
	if r.phase == phasePaused {
		c.deletionGuard.drop(r.guardedParent())
	} else {
		outcome, requeue = r.finish(ctx, r.attempt(ctx))
	}
	if c.program.phaseOf(r.stored) == phaseIgnored {
		c.dropParent(item.Key)
	}
	r.finishRecord(outcome, requeue)
	return requeue
}

// attempt does what there is to do, and has the parent say how that went if it failed.
func (r *run) attempt(ctx context.Context) error {
	err := r.recoverPanic(ctx, r.reconcileParent)
	if err == nil {
		return nil
	}
	statusErr := r.recoverPanic(ctx, func(ctx context.Context) error { return r.storeFailure(ctx, err) })
	if statusErr == nil {
		return err
	}
	return joinErrors([]error{err, statusErr})
}

// recoverPanic does a step, with a panic made an error: a defect met by one parent must
// not take the others down.
func (r *run) recoverPanic(ctx context.Context, step func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("run panicked", "parent", r.item.Key.String(), "panic", p, "stack", string(debug.Stack()))
			err = failure.WithReason(ReasonInternalError, failure.FromPanic("setpoint met a defect of its own", p))
		}
	}()
	return step(ctx)
}

// reconcileParent does for a parent what its stance asks for.
func (r *run) reconcileParent(ctx context.Context) error {
	if r.phase == phaseReleasing {
		if err := r.removeFinalizer(ctx); err != nil {
			return err
		}
		if r.phase = r.program.phaseOf(r.stored); r.phase != phaseManaged {
			return nil
		}
	}
	if err := r.setFinalizer(ctx); err != nil || r.hasNoHook() {
		return err
	}
	return r.syncLoop(ctx)
}

// hasNoHook says that there is no hook to call about the parent as it is now.
func (r *run) hasNoHook() bool { return r.phase == phaseManaged && r.program.Sync == nil }

// syncLoop asks the hook, and does as it says, until it has nothing to add to what
// it sees.
func (r *run) syncLoop(ctx context.Context) error {
	for pass := range maxPasses {
		if err := r.claim(ctx); err != nil {
			return err
		}
		if pass == 0 {
			r.initialChildren = r.countChildren()
		}
		if r.finalized() {
			return r.completeFinalization(ctx)
		}
		if err := r.relate(ctx); err != nil {
			return err
		}
		if !r.inputChanged() {
			return r.withheldError()
		}
		if err := r.callHook(ctx); err != nil {
			return err
		}
		todo, err := r.buildPlan()
		if err != nil {
			return err
		}
		if err := r.apply(ctx, todo); err != nil || r.nondeterminismErr != nil {
			return joinErrors([]error{r.nondeterminismErr, err})
		}
		r.reportResponseEvents()
		if r.memory.finalized = r.phase == phaseFinalizing && r.response.Finalized; r.memory.finalized {
			continue
		}
		if err := r.storeResponse(ctx); err != nil {
			return err
		}
	}
	return r.notConvergedError()
}

// storeResponse writes what the latest response says of the parent, so that the hook is shown
// nothing but what is stored. The status waits until the children are done: it mostly
// speaks of them.
func (r *run) storeResponse(ctx context.Context) error {
	if r.memory.syncedInput != 0 && len(r.withheld) > 0 {
		return nil // That deletions are held back is said at the end, with the status.
	}
	if r.memory.syncedInput != 0 {
		if err := r.setConditions(r.syncReport()); err != nil {
			return err
		}
		return r.storeStatus(ctx)
	}
	if r.decorationChanged() {
		return r.decorate(ctx)
	}
	return nil
}

// notConvergedError is the error of a hook that never has enough.
func (r *run) notConvergedError() error {
	if r.countChildren() > r.initialChildren || r.updatedChildren > 0 {
		// It works in steps, one child after the other; so does a rollout.
		return errIncomplete
	}
	if fits := r.memory.flapping.Children(r.tools.Now()); len(fits) > 0 {
		return failure.WithReason(ReasonFlapping, errors.New(flappingMessage(fits[0])))
	}
	return failure.WithReason(ReasonConflicting, fmt.Errorf("%s hook: its responses did not settle in %d calls in a row: "+
		"what is written of each changes what the next call shows; the latest difference: %s", r.hookName(), maxPasses, cmp.Or(r.latestWrite, "in the status")))
}

// since is how long ago a moment was, by the controller's clock.
func (c *Controller) since(t time.Time) time.Duration { return c.tools.Now().Sub(t) }
