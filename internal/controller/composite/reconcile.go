package composite

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// maxPasses bounds the hook calls of one run: one for the observed state, one for the result of the
// writes, and more for hooks that work in steps.
const maxPasses = 6

// run is one reconcile of one parent.
type run struct {
	*Controller
	*controller.Run

	memory *memory
	// dry is nil unless this is a dry run.
	dry *dryRun
	// logic is the version that is called for the parent.
	logic Logic
	// parent is the stored parent with the latest response applied.
	parent *object.Object
	// visible caches visibleParent for a stored parent.
	visible struct{ of, as *object.Object }
	planner plan.Planner
	// children are the observed children, in the order of the rules.
	children [][]*object.Object
	// storedRevisions are the stored revisions of the parent. rollout is nil if no child rule is
	// rolling.
	storedRevisions []*object.Object
	rollout         *childRollout
	// relatedObjects are the related objects of the request.
	relatedObjects related.Snapshot
	inputDigest    uint64
	response       *hook.Response
	calls          int
	// latestWrite describes the first write of the latest plan.
	latestWrite string
	// latestLocations is where it was.
	latestLocations []record.Location
	// nondeterminismErr is set if responses to the same request differ.
	nondeterminismErr error
	// unservedErr is set if the latest response has children of kinds that are not served any more.
	unservedErr error
	// initialChildren is how many children there were when the run started.
	initialChildren int
	// guardDecision is the decision about the deletions in the latest plan. withheld are those that
	// are not made now.
	guardDecision guardDecision
	withheld      []plan.Action
	// updatedChildren is how many children were moved to the latest revision.
	updatedChildren int
	// recreated counts how often each child was recreated; nil for none.
	recreated map[object.Ref]int
}

// reconcile runs one parent.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run, remembered controller.Remembered, _ bool) (record.Outcome,
		queue.Outcome) {
		r := c.newRun(of, remembered)
		switch r.Phase = r.PhaseOf(r.Stored); r.Phase {
		case controller.PhasePaused:
			c.deletionGuard.drop(r.guardedParent())
			return record.Skipped, queue.NoRequeue()
		case controller.PhaseIgnored:
			return record.Skipped, queue.NoRequeue() // It moved to a version that ignores it.
		}
		return r.finish(ctx, r.attempt(ctx))
	})
}

// attempt reconciles the parent and stores the failure in its status.
func (r *run) attempt(ctx context.Context) error {
	err := r.Recover(func() error { return r.reconcileParent(ctx) })
	if err != nil {
		err = r.releaseAbandoned(ctx, err)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, identity.ErrForbidden) {
		return err // The ServiceAccount cannot be expected to write the status.
	}
	statusErr := r.Recover(func() error { return r.storeFailure(ctx, err) })
	if statusErr == nil {
		return err
	}
	return joinErrors([]error{err, statusErr})
}

// reconcileParent does what the phase of the parent requires.
func (r *run) reconcileParent(ctx context.Context) error {
	if err := r.checkReads(ctx); err != nil {
		return err
	}
	if r.Phase == controller.PhaseReleasing {
		if err := r.removeFinalizer(ctx); err != nil {
			return err
		}
		if r.Phase = r.PhaseOf(r.Stored); r.Phase != controller.PhaseManaged {
			return nil
		}
	}
	if err := r.holdParent(ctx); err != nil || r.hasNoHook() {
		return err
	}
	return r.syncLoop(ctx)
}

// hasNoHook reports whether no hook is called in the current phase.
func (r *run) hasNoHook() bool { return r.Phase == controller.PhaseManaged && r.logic.Sync == nil }

// syncLoop calls the hook and applies the response until the input no longer changes.
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
			return cmp.Or(r.withheldError(), r.unservedErr)
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
		if r.noteFinalized() && !r.hasPlanned() {
			continue
		}
		if err := r.storeResponse(ctx); err != nil || r.dry != nil {
			return cmp.Or(err, r.unservedErr) // What the next call of a dry run would get is not known.
		}
	}
	return r.notConvergedError()
}

// storeResponse stores what the latest response says about the parent, so that the hook only gets
// stored state. The status is stored once the children are done, because it mostly describes them.
func (r *run) storeResponse(ctx context.Context) error {
	if r.memory.syncedInput != 0 && (len(r.withheld) > 0 || r.unservedErr != nil) {
		return nil //nolint:nilerr // The status is stored at the end, with what is held or missing.
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

// notConvergedError returns the error of a run that has used all passes.
func (r *run) notConvergedError() error {
	if r.countChildren() > r.initialChildren || r.updatedChildren > 0 || r.onlyRecreates() {
		// Hooks may work in steps, and so do rollouts.
		return errIncomplete
	}
	if fits := r.memory.flapping.Children(r.tools.Now()); len(fits) > 0 {
		return failure.WithReason(ReasonFlapping, errors.New(flappingMessage(fits[0])))
	}
	return failure.WithReason(ReasonConflicting, fmt.Errorf("%s hook: its responses did not converge in %d calls: "+
		"applying each response changes the next request; latest difference: %s",
		r.hookName(), maxPasses, cmp.Or(r.latestWrite, "in the status")))
}
