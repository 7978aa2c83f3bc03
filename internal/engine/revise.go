package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// conditionUpdated is the parent's condition that says how far a rollout is.
const conditionUpdated = "Updated"

// rollout is what a run knows of the revisions of its parent.
type rollout struct {
	history plan.History
	// replies are those for the former revisions, in the order of the history;
	// nil where nobody was asked or the hook failed, with err.
	replies []*hook.Response
	err     error
	// progress is how far it is, once that is known.
	progress plan.Progress
	// writes are to be carried out before those of the children.
	writes plan.Plan
}

// rolls says whether the children of the parent may have to wait for their turn.
func (r *run) rolls() bool { return r.revisions != nil && !r.handsOff() }

// revisionsOf are the revisions that are kept of the parent.
func (c *Controller) revisionsOf(parent *object.Object) []*object.Object {
	if c.revisions == nil {
		return nil
	}
	return c.revisions.Owned(parent.UID())
}

// recall makes out the revisions of the parent.
func (r *run) recall() error {
	r.rollout = nil
	if !r.rolls() {
		return nil
	}
	keeper := plan.Revisions{
		Controller: r.program.Name, Parents: r.program.Parent,
		FieldPaths: r.program.Revisions.FieldPaths, Namespace: r.program.Revisions.Namespace,
	}
	history, err := keeper.History(&r.family, r.kept, r.observed())
	if err != nil {
		return failure.New(ReasonRolloutFailed, err)
	}
	r.rollout = &rollout{history: history, replies: make([]*hook.Response, len(history.Former))}
	return nil
}

// askFormer asks the hook about the parent at each of its former revisions that
// still has children. It returns at once; what it returns waits for the answers.
func (r *run) askFormer(ctx context.Context, asked hook.Hook) (wait func()) {
	if r.rollout == nil {
		return func() {}
	}
	var calls sync.WaitGroup
	errs := make([]error, len(r.rollout.replies))
	for i, former := range r.rollout.history.Former {
		if asksAt(former) {
			calls.Go(func() { r.rollout.replies[i], errs[i] = r.askAt(ctx, asked, former) })
		}
	}
	return func() {
		calls.Wait()
		r.rollout.err = worst(errs)
	}
}

// asksAt says whether the hook can and need be asked about a former revision.
func asksAt(former plan.Revision) bool { return len(former.Claims) > 0 && former.Known() }

func (r *run) askAt(ctx context.Context, asked hook.Hook, former plan.Revision) (*hook.Response, error) {
	then, err := r.rollout.history.ParentAt(r.shownParent(), former)
	if err != nil {
		return nil, failure.New(ReasonRolloutFailed, err)
	}
	at := trace.Revision{Name: strings.Clone(former.Name), Number: former.Number, Former: true}
	reply, err := r.call(ctx, asked, r.request(then), at)
	if err != nil {
		return nil, r.failedAt(former, err)
	}
	return reply, nil
}

// latestRevision is the revision that the parent is at; zero where none is kept.
func (r *run) latestRevision() trace.Revision {
	if r.rollout == nil {
		return trace.Revision{}
	}
	at := &r.rollout.history.Latest
	return trace.Revision{Name: strings.Clone(at.Name), Number: at.Number}
}

// failedAt is the failure of a hook that was asked about a former revision.
func (r *run) failedAt(former plan.Revision, err error) error {
	return hookFailure(fmt.Sprintf("%s hook, asked about the former revision %s", r.asks(), former.Name), err)
}

// blend takes into the latest reply what it has in common with the others.
func (r *run) blend() {
	if r.rollout == nil {
		return
	}
	for i, former := range r.rollout.history.Former {
		if !asksAt(former) {
			continue
		}
		reply := r.rollout.replies[i]
		r.reply.Finalized = r.reply.Finalized && reply != nil && reply.Finalized
		if reply != nil {
			r.reply.ResyncAfter = sooner(r.reply.ResyncAfter, reply.ResyncAfter)
		}
	}
}

// sooner is the shorter of two delays; zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// revise decides which revision each child is to follow. It returns what is to
// be planned for, and has the reply say how far the rollout is.
func (r *run) revise(latest []plan.Child) ([]plan.Child, error) {
	if r.rollout == nil {
		return latest, nil
	}
	frozen := r.stance == finalizing
	todo := plan.Rollout{
		Family: &r.family, Observed: r.observed(), Latest: latest, Former: r.former(), Settled: r.memory.settled.hold, Frozen: frozen,
	}
	step, err := todo.Step()
	if err != nil {
		return nil, hookFailure(r.asks(), malformed(err))
	}
	if frozen {
		return step.Desired, nil
	}
	if r.rollout.writes, err = r.rollout.history.Writes(step.Claims); err != nil {
		return nil, failure.New(ReasonRolloutFailed, err)
	}
	r.advanced += step.Moved
	r.rollout.progress = step.Progress
	return step.Desired, r.reportProgress(step.Progress)
}

// former is what the former revisions want. What one of them said that cannot be
// understood counts for nothing.
func (r *run) former() []plan.Former {
	errs := []error{r.rollout.err}
	former := make([]plan.Former, len(r.rollout.replies))
	for i, reply := range r.rollout.replies {
		former[i].Claims = r.rollout.history.Former[i].Claims
		if reply == nil {
			continue
		}
		children, err := r.family.Desired(reply.Children)
		if err != nil {
			errs = append(errs, r.failedAt(r.rollout.history.Former[i], malformed(err)))
			continue
		}
		former[i].Children = children
	}
	r.rollout.err = worst(errs)
	return former
}

// reportProgress puts the progress of the rollout among the conditions of the reply, in
// place of one that the hook may give.
func (r *run) reportProgress(progress plan.Progress) error {
	updated := hook.Condition{Type: conditionUpdated, Status: "False", Reason: progress.Reason, Message: progress.Message}
	if progress.Done() {
		updated.Status = "True"
	}
	if len(r.reply.Conditions) == 0 {
		status, err := withConditions(r.reply.Status)
		if err != nil {
			return hookFailure(r.asks(), &hook.MalformedError{Path: "status", Err: err})
		}
		r.reply.Status = status
	}
	named := func(c hook.Condition) bool { return c.Type == conditionUpdated }
	r.reply.Conditions = append(slices.DeleteFunc(slices.Clone(r.reply.Conditions), named), updated)
	return nil
}

// withConditions gives a status a list of conditions, so that one that is added
// joins those of this status, not those of the one it replaces.
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
