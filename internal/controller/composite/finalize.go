package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// holdParent adds the finalizer before the first hook call, so that the parent cannot be deleted
// without a call of the finalize hook. What that call needs must have been there once.
func (r *run) holdParent(ctx context.Context) error {
	if !r.lacksFinalizer() {
		return nil
	}
	if err := r.relate(ctx); err != nil {
		return err
	}
	edited, err := r.withFinalizer()
	if err := r.storeFinalizers(ctx, "add the finalizer to", edited, err); err != nil {
		return err
	}
	if r.related != nil {
		r.memory.customizedParent = r.customizeDigest() // The finalizer makes no difference.
	}
	return nil
}

func (r *run) lacksFinalizer() bool {
	return r.logic.Finalize != nil && r.Phase == controller.PhaseManaged && !r.program.hasFinalizer(r.Stored)
}

func (r *run) withFinalizer() (*object.Object, error) {
	return withFinalizers(r.Stored, append(r.Stored.Finalizers(), r.program.Finalizer))
}

func (r *run) removeFinalizer(ctx context.Context) error {
	edited, err := r.withoutFinalizer(r.Stored)
	return r.storeFinalizers(ctx, "remove the finalizer from", edited, err)
}

// withoutFinalizer returns the parent without the controller's finalizer.
func (r *run) withoutFinalizer(parent *object.Object) (*object.Object, error) {
	ours := func(name string) bool { return name == r.program.Finalizer }
	return withFinalizers(parent, slices.DeleteFunc(parent.Finalizers(), ours))
}

// finalized reports whether a response with finalized: true was applied. It stays true: later calls
// may not find what the hook deleted.
func (r *run) finalized() bool {
	return r.Phase == controller.PhaseFinalizing && r.memory.finalResponse != nil
}

// noteFinalized keeps what the last response says about the parent until it is stored, which may take several runs.
func (r *run) noteFinalized() bool {
	r.memory.finalResponse = nil
	if r.Phase == controller.PhaseFinalizing && r.response.Finalized {
		final := *r.response
		final.Children, final.Events = nil, nil
		r.memory.finalResponse = &final
	}
	return r.memory.finalResponse != nil
}

// completeFinalization removes the finalizer once all children that are being deleted are gone. What the last
// response says about the parent is stored before, or in the same write.
func (r *run) completeFinalization(ctx context.Context) error {
	if r.response == nil {
		r.response = r.memory.finalResponse
		overlaid, err := r.overlayResponse()
		if err != nil {
			return hookFailure(r.hookName(), &hook.MalformedError{Path: "status", Err: err})
		}
		r.parent = overlaid
	}
	if waiting := r.waitingChildren(); waiting != "" {
		if err := r.reportWaiting(waiting); err != nil {
			return err
		}
		return r.storeStatus(ctx)
	}
	if !r.Stored.Deleting() || len(r.Stored.Finalizers()) > 1 {
		// The parent stays, so store its status without Setpoint's conditions.
		if err := r.setConditions(plan.StatusReport{}); err != nil {
			return err
		}
		if err := r.storeStatus(ctx); err != nil {
			return err
		}
	}
	if err := r.removeFinalizer(ctx); err != nil {
		return err
	}
	r.memory.finalResponse = nil
	return nil
}

// waitingChildren names the first child that is being deleted, and its finalizers; "" if there is none.
func (r *run) waitingChildren() string {
	var going []*object.Object
	for _, child := range r.observed() {
		if child.Deleting() {
			going = append(going, child)
		}
	}
	if len(going) == 0 {
		return ""
	}
	text := going[0].Ref().String()
	if names := going[0].Finalizers(); len(names) > 0 {
		text += " with the finalizers " + strings.Join(names, ", ")
	}
	if len(going) > 1 {
		text += fmt.Sprintf(" and %d more", len(going)-1)
	}
	return "waits for the deletion of " + text
}

// reportWaiting says on a parent that is being finalized what it waits for.
func (r *run) reportWaiting(what string) error {
	r.ReportWaiting(what)
	return r.setConditions(plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonFinalizing, Message: what})
}

// releaseAbandoned removes the finalizer after an error if the namespace is terminating and the ServiceAccount cannot.
// It returns the error if the parent has to wait.
func (r *run) releaseAbandoned(ctx context.Context, cause error) error {
	stored, err := r.ReleaseAbandoned(ctx, controller.Abandoned{
		Forbidden: controller.IsForbidden(cause), Why: failure.OneLine(cause), Finalizer: r.program.Finalizer, Own: r.tools.Writer,
		Left: len(r.Children(r.Stored)),
	})
	switch {
	case err != nil:
		return joinErrors([]error{cause, err})
	case stored == nil:
		return cause
	}
	r.ObserveWrite(r.program.Parent, stored)
	r.Stored, r.parent = stored, stored
	return nil
}

// storeFinalizers stores the edited parent, unless the edit failed.
func (r *run) storeFinalizers(ctx context.Context, what string, edited *object.Object, err error) error {
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	if !r.StillExists() {
		return controller.ErrConflict
	}
	return r.storeParent(ctx, what, edited)
}

func withFinalizers(o *object.Object, names []string) (*object.Object, error) {
	if len(names) == 0 {
		return o.With(nil, "metadata", "finalizers")
	}
	text, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	return o.With(text, "metadata", "finalizers")
}

// storeParent updates the parent without its status.
func (r *run) storeParent(ctx context.Context, what string, edited *object.Object) error {
	stored, err := r.update(ctx, r.program.Parent, what, r.Stored, edited)
	if err != nil {
		return r.dropRejected(err)
	}
	return r.setStored(stored)
}

// setStored makes an object the stored parent and keeps the status that is not stored yet.
func (r *run) setStored(stored *object.Object) error {
	unstoredStatus := r.parent.Field("status")
	pending := r.parent != r.Stored && object.DigestOf(unstoredStatus) != statusDigest(r.Stored)
	r.Stored, r.parent, r.planner.Parent = stored, stored, stored
	if !pending {
		return nil
	}
	overlaid, err := stored.With(unstoredStatus, "status")
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	r.parent = overlaid
	return nil
}

// finish ends the run: it updates the memory and returns how the key is requeued.
func (r *run) finish(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	outcome, requeue := r.end(ctx, err)
	r.memory.version = r.logic.Version
	r.Router.Ended(r.routed(), &router.End{Outcome: outcome, Err: err, Blame: blameFor(err), Called: r.calls > 0})
	return outcome, requeue
}

func (r *run) end(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	r.Memories.EndRun(r.Run, r.conflict(err), r.tools.Now())
	if ctx.Err() == nil {
		r.Record.Failed(err)
	}
	delay, delayed := hook.RetryDelay(err)
	var wait *guard.PendingError
	switch {
	case err == nil:
		return r.succeeded(), queue.NoRequeue()
	case ctx.Err() != nil:
		// The context ended: nothing has failed as far as we know.
		return record.Postponed, queue.Retry()
	case delayed:
		// The hook chose the delay: that needs no warning.
		r.Log.Debug("run postponed by the hook", "parent", r.Stored.Ref().String(), "delay", delay, "error", failure.OneLine(err))
		r.recordFailure(err)
		return record.Postponed, queue.RetryAfter(delay)
	case errors.As(err, &wait):
		return record.Postponed, queue.RetryAfter(wait.Delay)
	case errors.Is(err, errRelatedPending):
		return record.Postponed, queue.NoRequeue()
	case hook.IsTerminal(err):
		return r.failed(err), queue.NoRequeue()
	case r.recoveryProbe.tryAcquire(r.Item.Key, err, r.tools.Now()):
		return r.failed(err), queue.RetryAfter(probeInterval)
	case errors.Is(err, errIncomplete):
		return record.Postponed, queue.RetryAfter(time.Millisecond)
	case errors.Is(err, controller.ErrConflict) && r.memory.Conflicts < controller.MaxConflicts:
		r.memory.Conflicts++
		return record.Postponed, queue.RetryAfter(controller.ConflictDelay)
	case isConflicting(err):
		outcome := r.failed(err)
		return outcome, queue.RetryAfter(conflictBackoff(r.memory.Attempts))
	}
	return r.failed(err), queue.RetryIn(r.Queue.Backoff(r.Item))
}

func (r *run) failed(err error) record.Outcome {
	r.reportFailure(err)
	r.recordFailure(err)
	return record.Failed
}

// minResync is the shortest delay that a response can request: a shorter one would call the hook at full speed.
const minResync = 100 * time.Millisecond

// resyncDelay returns the delay that a response requests; zero for none.
func resyncDelay(response *hook.Response) time.Duration {
	if response == nil || response.ResyncAfter <= 0 {
		return 0
	}
	return max(response.ResyncAfter, minResync)
}

func (r *run) succeeded() record.Outcome {
	r.pruneUpToDate()
	r.memory.Conflicts = 0
	if r.calls > 0 {
		r.memory.edits.Pending = false
	}
	r.recordResult(controller.Result{}, nil)
	r.memory.ForgetReported()
	r.ReportManualReconcile()
	if delay := resyncDelay(r.response); delay > 0 {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, delay)
	}
	if again := r.retryPruned(); !again.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(again.Sub(r.tools.Now()), minResync))
	}
	r.scheduleResync(r.Item.Key)
	if r.calls == 0 {
		return record.Skipped
	}
	return record.Synced
}

// recordResult stores the result in the memory. If the hook is reachable again, it retries the
// parents that failed because it was not.
func (r *run) recordResult(now controller.Result, last *controller.LastError) {
	recovered := r.memory.Result.Unreachable && !now.Unreachable
	r.Memories.SetChildren(r.memory, r.countChildren())
	r.Memories.SetResult(r.memory, now, last)
	if recovered {
		r.recoveryProbe.reset()
		r.Queue.RetryKeysNow(r.Memories.Keys(func(result controller.Result) bool { return result.Unreachable }))
	}
}

func (r *run) recordFailure(err error) {
	now := controller.Result{
		Failing: true, HookFailing: isHookFailure(err), Unreachable: hook.IsUnreachable(err),
		RelatedMissing: controller.ReasonOf(err) == ReasonRelatedMissing,
		Invalid:        controller.ReasonOf(err) == ReasonInvalidParent,
		Message:        failure.OneLine(err), Fault: record.FaultOf(err), Since: r.tools.Now(), Locations: r.Record.Refused(),
	}
	for _, a := range r.guarded.Withheld {
		// The message may name these children.
		now.Locations = record.AddLocations(now.Locations, record.Location{Resource: a.Resource, Namespace: strings.Clone(a.Ref.Namespace)})
	}
	if controller.ReasonOf(err) == ReasonConflicting {
		now.Locations = record.AddLocations(now.Locations, r.latestLocations...)
	}
	r.recordResult(now, &controller.LastError{
		Message: now.Message, Object: r.Item.Key.String(), Time: r.tools.Now(), Locations: now.Locations,
	})
}

// reportFailure reports a failure. Held deletions are reported once: only a user can end them.
func (r *run) reportFailure(err error) {
	reason := controller.ReasonOf(err)
	r.ReportFailure(controller.Failure{
		Err: err, Event: r.program.warningEvent(reason, failure.OneLine(err)), Once: reason == ReasonDeletionsHeld,
	})
}

func (p *Program) warningEvent(reason, message string) hook.Event {
	if p.FailureReason == "" {
		return hook.Event{Type: controller.Warning, Reason: reason, Message: message}
	}
	return hook.Event{Type: controller.Warning, Reason: p.FailureReason, Message: "Sync error: " + reason + ": " + message}
}

// pruneUpToDate drops children that no longer exist.
func (r *run) pruneUpToDate() {
	if max(len(r.memory.upToDate), len(r.memory.coOwned)) <= r.countChildren() {
		return
	}
	present := make(map[uint64]bool, r.countChildren())
	for _, child := range r.observed() {
		present[childDigest(child)] = true
	}
	r.memory.upToDate.prune(present)
	maps.DeleteFunc(r.memory.coOwned, func(child uint64, _ bool) bool { return !present[child] })
}

func (r *run) countChildren() int {
	n := 0
	for _, children := range r.children {
		n += len(children)
	}
	return n
}
