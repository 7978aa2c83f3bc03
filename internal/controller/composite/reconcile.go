package composite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// run is one reconcile of one parent.
type run struct {
	*writes

	status   parentStatus
	family   family
	relation relation
	// rollout is nil if no child rule is rolling.
	rollout     *rollingUpdate
	inputDigest uint64
	response    *hook.Response
	calls       int
	// nondeterminismErr is set if responses to the same request differ.
	nondeterminismErr error
	// unservedErr is set if the latest response has children of kinds that are not served any more.
	unservedErr error
	// initialChildren is how many children there were when the run started.
	initialChildren int
	// removals are the deletions in the latest plan that count for the deletion guard, and guarded is its decision.
	removals []plan.Action
	guarded  guard.Decision
	// updatedChildren is how many children were moved to the latest revision.
	updatedChildren int
}

func (c *Controller) newRun(of *controller.Run) *run {
	w := &writes{
		Controller: c, Run: of, memory: of.Remembered.(*memory), logic: c.Router.Of(of.Stored), writer: c.WriterFor(of.Stored.Namespace()),
	}
	r := &run{writes: w, status: parentStatus{writes: w, wanted: of.Stored}, family: family{writes: w}}
	r.planner, r.family.selectorErr = c.program.Planner(of.Stored)
	r.planner.Secrets = of.Secrets
	r.relation = relation{writes: w, status: &r.status, family: &r.family}
	return r
}

// callsNothing reports whether no hook is called in the current phase.
func (r *run) callsNothing() bool { return r.Phase == controller.PhaseManaged && r.logic.Sync == nil }

// routed is the run as the router sees it.
func (r *run) routed() *router.Run {
	return &router.Run{Run: r.Run, Logic: r.logic, Children: func() ([]*object.Object, bool) {
		return r.family.observedChildren(), len(r.family.byKind) == len(r.program.Children)
	}}
}

// PhaseOf returns the phase of the parent for the version that the run calls, also if it moves meanwhile.
func (r *run) PhaseOf(parent *object.Object) controller.Phase {
	return r.program.phaseOf(parent, r.logic.Finalize != nil)
}

// Relate calls the customize hook for a parent, without a run: events of its related objects enqueue it from then on.
func (c *Controller) Relate(ctx context.Context, key queue.Key) error {
	parent := c.Get(key)
	if parent == nil || c.related == nil || c.PhaseOf(parent) == controller.PhaseIgnored {
		return nil
	}
	r := c.newRun(c.NewRun(queue.Item{Key: key}, parent))
	return r.Secrets.Error(r.relation.findRelated(ctx))
}

// maxPasses bounds the hook calls of a run: for the observed state, the result of the writes, and hooks with steps.
const maxPasses = 6

// RunItem reconciles one parent in the caller's goroutine. It must not run at the same time as Run.
func (c *Controller) RunItem(ctx context.Context, item queue.Item) queue.Outcome {
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run) (record.Outcome, queue.Outcome) {
		r := c.newRun(of)
		switch r.Phase = r.PhaseOf(r.Stored); r.Phase {
		case controller.PhasePaused:
			c.deletionGuard.Drop(r.ID(r.Item.Key))
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
	if err == nil || errors.Is(err, identity.ErrForbidden) {
		return err // The ServiceAccount cannot be expected to write the status.
	}
	if statusErr := r.Recover(func() error { return r.storeFailure(ctx, err) }); statusErr != nil {
		return joinErrors([]error{err, statusErr})
	}
	return err
}

// reconcileParent does what the phase of the parent requires.
func (r *run) reconcileParent(ctx context.Context) error {
	if err := r.CheckReads(ctx); err != nil {
		return err
	}
	if r.Phase == controller.PhaseReleasing {
		if err := r.status.removeFinalizer(ctx); err != nil {
			return err
		}
		if r.Phase = r.PhaseOf(r.Stored); r.Phase != controller.PhaseManaged {
			return nil
		}
	}
	if err := r.holdParent(ctx); err != nil || r.callsNothing() {
		return err
	}
	return r.syncLoop(ctx)
}

// syncLoop calls the hook and applies the response until the input no longer changes.
func (r *run) syncLoop(ctx context.Context) error {
	for pass := range maxPasses {
		if err := r.family.claim(ctx); err != nil {
			return err
		}
		if pass == 0 {
			r.initialChildren = r.family.countChildren()
		}
		if r.Phase == controller.PhaseFinalizing && r.memory.finalResponse != nil {
			return r.completeFinalization(ctx)
		}
		if err := r.relation.findRelated(ctx); err != nil {
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
		if r.noteFinalized() && (r.dry == nil || r.dry.Plan.Empty()) {
			continue // A dry run does not know what the API server makes of its writes.
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
	switch synced := r.memory.syncedInput != 0; {
	case synced && (len(r.guarded.Withheld) > 0 || r.unservedErr != nil):
		return nil //nolint:nilerr // The status is stored at the end, with what is held or missing.
	case synced:
		return r.status.report(ctx, r.syncReport())
	case r.status.decorationChanged():
		return r.status.decorate(ctx)
	}
	return nil
}

// notConvergedError returns the error of a run that has used all passes.
func (r *run) notConvergedError() error {
	// Responses may differ until recreated children are ready. One that is recreated again is one about which they conflict.
	onlyRecreates := len(r.recreated) > 0 && slices.Max(slices.Collect(maps.Values(r.recreated))) == 1
	if r.family.countChildren() > r.initialChildren || r.updatedChildren > 0 || onlyRecreates {
		// Hooks may work in steps, and so do rollouts.
		return errIncomplete
	}
	if fits := r.memory.flapping.Children(r.Now()); len(fits) > 0 {
		return failure.WithReason(ReasonFlapping, errors.New(flappingMessage(fits[0])))
	}
	return failure.WithReason(ReasonConflicting, fmt.Errorf("%s hook: its responses did not converge in %d calls: "+
		"applying each response changes the next request; latest difference: %s",
		hookName(r.Phase), maxPasses, cmp.Or(r.first, "in the status")))
}

// reportResponseEvents sends the events of an applied response. An event that is in every response is sent once.
func (r *run) reportResponseEvents() {
	reported := make([]uint64, 0, len(r.response.Events))
	for _, event := range r.response.Events {
		digest := maphash.Comparable(inputSeed, event)
		if !slices.Contains(r.memory.sentEvents, digest) && !slices.Contains(reported, digest) {
			r.SendEvent(event)
		}
		reported = append(reported, digest)
	}
	r.memory.sentEvents = reported
}

// buildPlan plans the children of the response and sets its status on the parent, after it has validated all of it.
func (r *run) buildPlan() (plan.Plan, error) {
	desired, ignored, err := r.planner.Desired(r.response.Children)
	if err != nil {
		return plan.Plan{}, hookFailure(hookName(r.Phase), plan.Malformed(err))
	}
	r.response.Events = append(slices.Clone(r.response.Events), warnings(ignored)...)
	desired = r.withoutUnserved(desired)
	desired, moved, err := r.rollout.planUpdate(desired, r.response)
	if err != nil {
		return plan.Plan{}, err
	}
	r.updatedChildren += moved
	overlaid, err := r.status.overlay(r.response)
	if err != nil {
		return plan.Plan{}, err
	}
	var todo plan.Plan
	if !leavesChildren(r.Phase, r.Stored) {
		if todo, err = r.planner.Changes(r.family.observedChildren(), desired, r.memory.upToDate.contains); err != nil {
			return plan.Plan{}, hookFailure(hookName(r.Phase), plan.Malformed(err))
		}
	}
	r.status.wanted = overlaid
	if r.program.Conditions {
		r.memory.hookConditions = plan.HookConditions(r.response)
	}
	return todo, nil
}

// warnings are the events about the parts of the response that are ignored.
func warnings(ignored []plan.Ignored) (all []hook.Event) {
	for _, part := range ignored {
		reason := ReasonNamespaceIgnored
		if part.Undeclared != (object.GroupKind{}) {
			reason = ReasonChildUndeclared
		}
		all = append(all, hook.Event{Type: controller.Warning, Reason: reason, Message: part.Path + ": ignored: " + part.Problem})
	}
	return all
}

// withoutUnserved leaves out desired children of kinds that are not served any more. They make the run fail once
// the others are as desired, but not in a deletion, which must not wait for them.
func (r *run) withoutUnserved(desired []plan.Child) []plan.Child {
	r.unservedErr = nil
	return slices.DeleteFunc(desired, func(child plan.Child) bool {
		if child.Rule.Resource.Unserved && r.Phase != controller.PhaseFinalizing {
			r.unservedErr = failure.WithReason(setpoint.ReasonResourceNotFound,
				fmt.Errorf("%s: %s: %w any more; all other children are up to date",
					child.Object.Ref(), child.Rule.Resource, served.ErrNotServed))
		}
		return child.Rule.Resource.Unserved
	})
}

// apply writes the plan. It marks the input as synced if there was nothing to write.
func (r *run) apply(ctx context.Context, todo plan.Plan) error {
	r.memory.syncedInput = 0
	kept, err := r.rollout.storeRevisions(ctx)
	if err != nil {
		return err
	}
	whole := r.throttle(todo)
	todo = r.guardDeletions(whole)
	r.Record.Planned(r.guarded.Recorded(todo), r.family.unwritten(whole))
	if !todo.Empty() {
		if !r.StillExists() {
			return controller.ErrConflict
		}
		r.memory.hasWritten = true
		r.memory.skipUpdates(todo)
		if err := r.observeResults(ctx, r.writes.apply(ctx, todo)); err != nil {
			return err
		}
	}
	r.memory.upToDate.grow(len(todo.Equal))
	for _, same := range todo.Equal {
		r.memory.upToDate.add(same.Observed, same.Desired)
	}
	if r.rollout != nil && r.rollout.err != nil {
		return r.rollout.err
	}
	if todo.Empty() && !kept || r.dry != nil {
		// After a write the hook is called again with the result. A dry run shows what it has responded now.
		r.memory.syncedInput = r.inputDigest
	}
	return nil
}

// guardDeletions removes from a plan the deletions that the guard holds or delays.
func (r *run) guardDeletions(todo plan.Plan) plan.Plan {
	r.guarded = guard.Decision{}
	if r.Phase != controller.PhaseManaged {
		r.deletionGuard.Drop(r.ID(r.Item.Key))
		return todo
	}
	r.removals = r.unexplainedDeletions(todo)
	if r.dry != nil {
		return todo // Whether they are too many depends on other parents.
	}
	confirms := plan.Annotation(r.Stored, setpoint.AnnotationAllowDeletions)
	r.guarded = r.deletionGuard.Decide(r.ID(r.Item.Key), r.Router.Of(r.Stored).Moved, r.removals, confirms)
	if len(r.guarded.Withheld) > 0 {
		return todo.Without(r.guarded.Withheld)
	}
	return todo
}

// unexplainedDeletions returns the deletions that only the hook response explains, not an edit of
// the parent's spec. An edit does not explain deletions that were held before it, nor those of another version.
func (r *run) unexplainedDeletions(todo plan.Plan) []plan.Action {
	removals, edits := todo.Removals(), &r.memory.edits
	if r.memory.version != r.logic.Version {
		edits.At, edits.Pending = time.Time{}, false
	}
	// The controller stores the status of custom resources of composites.
	storesStatus := !r.program.isDecorator() && r.program.Parent.Custom && r.program.Parent.Status
	if edits.Explain(r.Stored, storesStatus, r.Now()) {
		return r.deletionGuard.FilterHeld(r.ID(r.Item.Key), removals)
	}
	return removals
}

// withheldError returns the error of a run whose deletions are withheld; nil if there are none.
func (r *run) withheldError() error {
	err := r.guarded.Err()
	if err == nil {
		return nil
	}
	r.memory.syncedInput = 0
	if _, waits := errors.AsType[*guard.PendingError](err); waits {
		return err
	}
	return failure.WithReason(ReasonDeletionsHeld, err)
}

// CountChildren counts the cached children of all parents, or of those that have moved in a rollout.
func (c *Controller) CountChildren(moved bool) int {
	n := 0
	for parent := range c.Managed() {
		if !moved || c.Router.Of(parent).Moved {
			n += c.countOwned(parent)
		}
	}
	return n
}
