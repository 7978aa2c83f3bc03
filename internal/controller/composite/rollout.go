package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// conditionUpdated is True when every child of a parent with a rolling update method is at the
// latest revision.
const conditionUpdated = "Updated"

// childRollout is the state of the parent's revisions in a run.
type childRollout struct {
	history rolling.History
	// responses are those for the former revisions, in the order of the history; nil if there was
	// no call or it failed with err.
	responses []*hook.Response
	err       error
	progress  rolling.Progress
	// writes come before those of the children.
	writes plan.Plan
}

func (r *run) hasRollout() bool { return r.revisions != nil && !r.leavesChildren() }

// revisionsOf returns the stored revisions of the parent.
func (c *Controller) revisionsOf(parent *object.Object) []*object.Object {
	if c.revisions == nil {
		return nil
	}
	return c.revisions.Owned(parent)
}

// loadRevisions reads the revision history of the parent.
func (r *run) loadRevisions() error {
	r.rollout = nil
	if !r.hasRollout() {
		return nil
	}
	revisions := rolling.Revisions{
		Controller: r.program.Name, Parents: r.program.Parent,
		FieldPaths: r.program.Revisions.FieldPaths, Namespace: r.program.Revisions.Namespace,
	}
	history, err := revisions.History(&r.planner, r.storedRevisions, r.observed())
	if err != nil {
		return failure.WithReason(ReasonRolloutFailed, err)
	}
	r.rollout = &childRollout{history: history, responses: make([]*hook.Response, len(history.Former))}
	return nil
}

// callFormer calls the hook for each former revision that still has children. It returns at once;
// the function that it returns waits for the responses.
func (r *run) callFormer(ctx context.Context, h hook.Hook) (wait func()) {
	if r.rollout == nil {
		return func() {}
	}
	var calls sync.WaitGroup
	errs := make([]error, len(r.rollout.responses))
	for i, former := range r.rollout.history.Former {
		if !needsCall(former) {
			continue
		}
		call := func() { r.rollout.responses[i], errs[i] = r.callAt(ctx, h, former) }
		if r.tools.Sequential {
			call()
			continue
		}
		calls.Go(call)
	}
	return func() {
		calls.Wait()
		r.rollout.err = joinErrors(errs)
	}
}

// needsCall reports whether the hook has to be called for a former revision.
func needsCall(former rolling.Revision) bool { return len(former.Claims) > 0 && former.Known() }

func (r *run) callAt(ctx context.Context, h hook.Hook, former rolling.Revision) (*hook.Response, error) {
	then, err := r.rollout.history.ParentAt(r.visibleParent(), former)
	if err != nil {
		return nil, failure.WithReason(ReasonRolloutFailed, err)
	}
	at := record.Revision{Name: strings.Clone(former.Name), Number: former.Number, Previous: true}
	response, err := r.call(ctx, h, r.request(then), at)
	if err != nil {
		return nil, r.formerRevisionError(former, err)
	}
	return response, nil
}

// latestRevision returns the revision of the current spec; zero without a rollout.
func (r *run) latestRevision() record.Revision {
	if r.rollout == nil {
		return record.Revision{}
	}
	at := &r.rollout.history.Latest
	return record.Revision{Name: strings.Clone(at.Name), Number: at.Number}
}

// formerRevisionError adds the revision to the error of a call.
func (r *run) formerRevisionError(former rolling.Revision, err error) error {
	return hookFailure(fmt.Sprintf("former revision %s: %s", former.Name, r.hookName()), err)
}

// mergeResponses merges finalized and the resync delay of the former revisions' responses into the
// latest.
func (r *run) mergeResponses() {
	if r.rollout == nil {
		return
	}
	for i, former := range r.rollout.history.Former {
		if !needsCall(former) {
			continue
		}
		response := r.rollout.responses[i]
		r.response.Finalized = r.response.Finalized && response != nil && response.Finalized
		if response != nil {
			r.response.ResyncAfter = ShorterDelay(r.response.ResyncAfter, response.ResyncAfter)
		}
	}
}

// ShorterDelay returns the shorter of two delays; zero means none.
func ShorterDelay(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// planRollout decides which revision each child follows. It returns the desired children and adds
// the progress to the response.
func (r *run) planRollout(latest []plan.Child) ([]plan.Child, error) {
	if r.rollout == nil {
		return latest, nil
	}
	frozen := r.Phase == controller.PhaseFinalizing
	todo := rolling.Rollout{
		Family: &r.planner, Observed: r.observed(), Latest: latest, Former: r.formerChildren(), UpToDate: r.memory.upToDate.contains,
		Frozen: frozen,
	}
	step, err := todo.Step()
	if err != nil {
		return nil, hookFailure(r.hookName(), plan.Malformed(err))
	}
	if frozen {
		return step.Desired, nil
	}
	if r.rollout.writes, err = r.rollout.history.Writes(step.Claims); err != nil {
		return nil, failure.WithReason(ReasonRolloutFailed, err)
	}
	if err := joinErrors(step.Failed); err != nil {
		r.rollout.err = joinErrors([]error{r.rollout.err, failure.WithReason(ReasonRolloutFailed, err)})
	}
	r.updatedChildren += step.Moved
	r.rollout.progress = step.Progress
	return step.Desired, r.setProgressCondition(step.Progress)
}

// formerChildren returns the children that the former revisions want. Malformed responses are
// reported and leave their children as they are.
func (r *run) formerChildren() []rolling.Former {
	errs := []error{r.rollout.err}
	former := make([]rolling.Former, len(r.rollout.responses))
	for i, response := range r.rollout.responses {
		former[i].Claims = r.rollout.history.Former[i].Claims
		if response == nil {
			continue
		}
		children, _, err := r.planner.Desired(response.Children)
		if err != nil {
			errs = append(errs, r.formerRevisionError(r.rollout.history.Former[i], plan.Malformed(err)))
			continue
		}
		former[i].Children = children
	}
	r.rollout.err = joinErrors(errs)
	return former
}

// setProgressCondition sets the condition Updated in the response.
func (r *run) setProgressCondition(progress rolling.Progress) error {
	updated := hook.Condition{Type: conditionUpdated, Status: "False", Reason: progress.Reason, Message: r.Secrets.Text(progress.Message)}
	if progress.Done() {
		updated.Status = "True"
	}
	if len(r.response.Conditions) == 0 {
		status, err := withConditions(r.response.Status)
		if err != nil {
			return hookFailure(r.hookName(), &hook.MalformedError{Path: "status", Err: err})
		}
		r.response.Status = status
	}
	named := func(c hook.Condition) bool { return c.Type == conditionUpdated }
	r.response.Conditions = append(slices.DeleteFunc(slices.Clone(r.response.Conditions), named), updated)
	return nil
}

// withConditions adds an empty list of conditions to a status, so that merged conditions do not
// bring back those of the stored status.
func withConditions(status json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if status != nil {
		if err := json.Unmarshal(status, &members); err != nil {
			return nil, err
		}
	}
	if members["conditions"] != nil {
		return status, nil
	}
	members["conditions"] = json.RawMessage("[]")
	return json.Marshal(members)
}

// watchRevisions starts the watch of revisions if a child rule is rolling.
func (c *Controller) watchRevisions() {
	if !c.program.Children.Rolling() {
		return
	}
	selection := cache.Selection{
		Resource: plan.ControllerRevisions, Namespace: c.program.RevisionNamespace(), Labels: plan.ParentUIDLabel,
		Managed: c.program.FullObjects,
	}
	c.revisions = c.tools.Store.Watch(selection, c.revisionChanged)
	c.AddWatch(selection, c.revisions)
}

// revisionChanged enqueues the parent of a changed revision.
func (c *Controller) revisionChanged(e cache.Event) {
	c.AwaitWatches()
	if e.Old != nil && e.New != nil && e.Old.Digest() == e.New.Digest() {
		return
	}
	if e.New == nil {
		c.enqueueNameWaiters(e.Old)
		c.enqueueOwner(e.Old)
		return
	}
	c.enqueueOwner(e.New)
}

// storeRevisions stores which children follow which revision, before anything is written to the
// children. It reports whether there was anything to store.
func (r *run) storeRevisions(ctx context.Context) (bool, error) {
	if r.rollout == nil || r.rollout.writes.Empty() {
		return false, nil
	}
	if !r.StillExists() {
		return false, controller.ErrConflict
	}
	r.Record.Planned(r.rollout.writes, 0)
	for _, stage := range r.rollout.writes.Stages {
		// The stages depend on each other: stop at the first that fails.
		for _, result := range r.applyPlan(ctx, plan.Plan{Stages: [][]plan.Action{stage}}) {
			if err := r.observeRevision(ctx, result); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

func (r *run) observeRevision(ctx context.Context, result apply.Result) error {
	action, err := result.Action, result.Err
	switch {
	case err == nil && result.Stored == nil:
		r.ObserveDelete(action.Resource, action.Before)
	case err == nil:
		r.ObserveWrite(action.Resource, result.Stored)
	case apply.AlreadyExists(err):
		return r.handleExistingRevision(ctx, action)
	case apply.NotFound(err) && action.Before != nil:
		r.ObserveDelete(action.Resource, action.Before)
		return controller.ErrConflict
	case apply.Conflict(err):
		return controller.ErrConflict
	default:
		return failure.WithReason(ReasonRolloutFailed, err)
	}
	r.Log.Debug("revision written", "verb", string(action.Verb), "revision", action.Ref.String(),
		"parent", r.Stored.Ref().String(), "reason", action.Reason)
	return nil
}

// handleExistingRevision handles a create of a revision whose name is taken. It is the parent's own
// if the parent controls it: then the cache is behind, or the label was removed.
func (r *run) handleExistingRevision(ctx context.Context, action plan.Action) error {
	live, err := r.readExisting(ctx, action)
	switch {
	case err != nil:
		return revisionError(err)
	case live.Deleting():
		return r.waitForName(live, "is being deleted")
	case !live.ControlledBy(r.Stored.UID()):
		return r.waitForName(live, "does not belong to "+r.Stored.Ref().String()+"; delete it")
	case live.Labels().Get(plan.ParentUIDLabel) == r.Stored.UID():
		r.ObserveWrite(action.Resource, live)
		return controller.ErrConflict
	}
	return revisionError(r.relabel(ctx, action.Resource, live, plan.ParentUIDLabel))
}

// revisionError returns the error of a run that met a revision which the cache did not have.
func revisionError(err error) error {
	if err == nil || errors.Is(err, controller.ErrConflict) {
		return controller.ErrConflict
	}
	return failure.WithReason(ReasonRolloutFailed, err)
}
