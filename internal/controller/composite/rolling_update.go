package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ConditionUpdated is True when every child of a parent with a rolling update method is at the latest revision.
const ConditionUpdated = "Updated"

// rollingUpdate is what a run makes of the revisions of its parent. A nil one does nothing.
type rollingUpdate struct {
	*writes

	family  *family
	history rolling.History
	// responses are those for the previous revisions, in the order of the history; nil without a call, or if it failed.
	responses []*hook.Response
	err       error
	progress  rolling.Progress
	// These writes come before those of the children.
	todo plan.Plan
}

// hookCall calls a hook about a state of the parent.
type hookCall func(parent *object.Object, at *record.Revision) (*hook.Response, error)

// callPrevious calls the hook for each previous revision that still has children. It returns at once;
// the function that it returns waits for the responses.
func (u *rollingUpdate) callPrevious(parent *object.Object, do hookCall) (wait func()) {
	if u == nil {
		return func() {}
	}
	var calls sync.WaitGroup
	errs := make([]error, len(u.responses))
	for i, previous := range u.history.Previous {
		if !needsCall(previous) {
			continue
		}
		calling := func() { u.responses[i], errs[i] = u.callAt(parent, previous, do) }
		if u.Sequential {
			calling()
			continue
		}
		calls.Go(calling)
	}
	return func() {
		calls.Wait()
		u.err = joinErrors(errs)
	}
}

// needsCall reports whether the hook has to be called for a previous revision.
func needsCall(previous rolling.Revision) bool { return len(previous.Claims) > 0 && previous.Known() }

func (u *rollingUpdate) callAt(parent *object.Object, previous rolling.Revision, do hookCall) (*hook.Response, error) {
	then, err := u.history.ParentAt(parent, previous)
	if err != nil {
		return nil, failure.WithReason(ReasonRolloutFailed, err)
	}
	at := &record.Revision{Name: strings.Clone(previous.Name), Number: previous.Number, Previous: true}
	response, err := do(then, at)
	if err != nil {
		return nil, u.previousError(previous, err)
	}
	return response, nil
}

// latestRevision returns the revision of the current spec; nil without a rollout.
func (u *rollingUpdate) latestRevision() *record.Revision {
	if u == nil {
		return nil
	}
	at := &u.history.Latest
	return &record.Revision{Name: strings.Clone(at.Name), Number: at.Number}
}

// previousError adds the revision to the error of a call.
func (u *rollingUpdate) previousError(previous rolling.Revision, err error) error {
	return hookFailure(fmt.Sprintf("former revision %s: %s", previous.Name, hookName(u.Phase)), err)
}

// mergeInto merges finalized and the resync delay of the previous revisions' responses into the latest.
func (u *rollingUpdate) mergeInto(latest *hook.Response) {
	if u == nil {
		return
	}
	for i, previous := range u.history.Previous {
		if !needsCall(previous) {
			continue
		}
		response := u.responses[i]
		latest.Finalized = latest.Finalized && response != nil && response.Finalized
		if response != nil {
			latest.ResyncAfter = ShorterDelay(latest.ResyncAfter, response.ResyncAfter)
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

// planUpdate decides which revision each child follows. It returns the desired children, and how many move to the latest
// revision, and adds the progress to the response.
func (u *rollingUpdate) planUpdate(latest []plan.Child, response *hook.Response) (desired []plan.Child, moved int, err error) {
	if u == nil {
		return latest, 0, nil
	}
	frozen := u.Phase == controller.PhaseFinalizing
	u.readPrevious()
	todo := rolling.Rollout{
		Family: &u.planner, Observed: u.family.observedChildren(), Latest: latest, Previous: u.history.Previous,
		UpToDate: u.memory.upToDate.contains, Frozen: frozen,
	}
	step, err := todo.Step()
	if err != nil {
		return nil, 0, hookFailure(hookName(u.Phase), plan.Malformed(err))
	}
	if frozen {
		return step.Desired, 0, nil
	}
	if u.todo, err = u.history.Writes(step.Claims); err != nil {
		return nil, 0, failure.WithReason(ReasonRolloutFailed, err)
	}
	if err := joinErrors(step.Failed); err != nil {
		u.err = joinErrors([]error{u.err, failure.WithReason(ReasonRolloutFailed, err)})
	}
	u.progress = step.Progress
	return step.Desired, step.Moved, u.setProgressCondition(response)
}

// readPrevious finds the children of the previous revisions. Malformed responses are reported, and leave theirs.
func (u *rollingUpdate) readPrevious() {
	errs := []error{u.err}
	for i, response := range u.responses {
		if response == nil {
			continue
		}
		previous := &u.history.Previous[i]
		var err error
		if previous.Children, _, err = u.planner.Desired(response.Children); err != nil {
			errs = append(errs, u.previousError(*previous, plan.Malformed(err)))
		}
	}
	u.err = joinErrors(errs)
}

// setProgressCondition sets the condition Updated in the response.
func (u *rollingUpdate) setProgressCondition(response *hook.Response) error {
	updated := hook.Condition{
		Type: ConditionUpdated, Status: "False", Reason: u.progress.Reason, Message: u.Secrets.Text(u.progress.Message),
	}
	if u.progress.Done() {
		updated.Status = "True"
	}
	if len(response.Conditions) == 0 {
		status, err := withConditions(response.Status)
		if err != nil {
			return hookFailure(hookName(u.Phase), &hook.MalformedError{Path: "status", Err: err})
		}
		response.Status = status
	}
	named := func(c hook.Condition) bool { return c.Type == ConditionUpdated }
	response.Conditions = append(slices.DeleteFunc(slices.Clone(response.Conditions), named), updated)
	return nil
}

// withConditions adds an empty list of conditions to a status, so that a merge does not bring back the stored ones.
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

// storeRevisions stores which children follow which revision, before they are written. It reports whether it had to.
func (u *rollingUpdate) storeRevisions(ctx context.Context) (bool, error) {
	if u == nil || u.todo.Empty() {
		return false, nil
	}
	if !u.StillExists() {
		return false, controller.ErrConflict
	}
	u.Record.Planned(u.todo, 0)
	for _, stage := range u.todo.Stages {
		// The stages depend on each other: stop at the first that fails.
		for _, result := range u.apply(ctx, plan.Plan{Stages: [][]plan.Action{stage}}) {
			if err := u.observeRevision(ctx, result); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}
