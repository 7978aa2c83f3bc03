package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reconcile starts, replaces or stops the controller of a controller object.
func (cs *Set) reconcile(ctx context.Context, key queue.Key) queue.Outcome {
	if i := cs.goControllerIndex(key); i >= 0 {
		return cs.reconcileGoController(ctx, key, i)
	}
	declared := cs.declared.get(key)
	if declared == nil || declared.Deleting() {
		cs.remove(key, declared)
		return queue.NoRequeue()
	}
	compiled, err := cs.compilation.compile(ctx, key, declared)
	if ctx.Err() != nil {
		return queue.NoRequeue()
	}
	if errors.Is(err, calls.ErrCompiling) {
		return queue.NoRequeue() // codeCompiled enqueues the controller.
	}
	outcome := cs.settle(ctx, key, controllerState{object: declared, rank: conflicts.Rank(declared), refusal: err}, compiled)
	cs.releaser.enqueue(key, declared)
	return outcome
}

// settle starts, replaces, stops or refuses a controller. One that runs goes on while the API server does not
// answer what has to be known of its latest spec.
func (cs *Set) settle(ctx context.Context, key queue.Key, now controllerState, compiled *compile.Compiled) queue.Outcome {
	refusal, refused := errors.AsType[*compile.Refusal](now.refusal)
	if now.refusal != nil && !refused {
		refusal = &compile.Refusal{Reason: setpoint.ReasonAPIUnavailable, Err: fmt.Errorf("%w; trying again", now.refusal)}
	}
	if refusal != nil {
		now.refusal = refusal
	}
	e := cs.registry.entry(key)
	if e.running == nil || !now.refused(setpoint.ReasonAPIUnavailable) {
		waits := refusal == nil && len(compiled.Excluded)+len(compiled.Absent)+len(compiled.Unserved) > 0
		cs.replace(ctx, key, now, compiled)
		if waits {
			return queue.Retry()
		}
		return outcomeOf(refusal)
	}
	refusal.Err = fmt.Errorf("%w; until then the controller runs as before", refusal.Err)
	cs.report(key, e, func(s *controllerState) { s.refusal = refusal })
	return queue.Retry()
}

// outcomeOf retries refusals that may end without an event: access, aggregated APIs, the Leases of others and
// the API server itself change without one.
func outcomeOf(refusal *compile.Refusal) queue.Outcome {
	retried := []string{setpoint.ReasonForbidden, setpoint.ReasonResourceNotFound, setpoint.ReasonConflictingSetpoint,
		setpoint.ReasonAPIUnavailable}
	if refusal != nil && slices.Contains(retried, refusal.Reason) {
		return queue.Retry()
	}
	return queue.NoRequeue()
}

// replace replaces the running controller of a key.
func (cs *Set) replace(ctx context.Context, key queue.Key, now controllerState, compiled *compile.Compiled) {
	e, refusal := cs.registry.entry(key), now.refusal
	if e.running != nil && refusal == nil && !compiled.Suspended && e.running.equivalent(compiled) &&
		cs.keepRunning(e, now.object, compiled) {
		compiled.Close()
		cs.report(key, e, func(s *controllerState) {
			s.refusal, s.notes, s.incomplete, s.absent, s.outdated = nil, compiled.Notes, compiled.Incomplete, compiled.Absent,
				compiled.Code.Outdated
		})
		return
	}
	previous, before := e.running, e.String()
	if refusal == nil {
		now.notes, now.unstored, now.suspended, now.incomplete = compiled.Notes, compiled.StatusWarning, compiled.Suspended,
			compiled.Incomplete
		now.absent, now.outdated = compiled.Absent, compiled.Code.Outdated
		if now.suspended {
			now.kinds = kindsOf(compiled)
			compiled.Close()
		} else {
			now.running = cs.newRunningController(compiled, now.object)
		}
	}
	if previous != nil {
		previous.shutdown()
		cs.recordStopped(key, e.object)
	}
	cs.registry.change(e, func(e *controllerEntry) { e.controllerState = now })
	cs.updateWebhooks(key, now)
	if next := now.running; next != nil {
		cs.stopYounger(key, now.rank, next)
		next.launch(ctx, cs.Leader, func(ctx context.Context) bool {
			if now.object == nil {
				return true // A controller of a Go program has no object to prepare.
			}
			if !cs.ownership.await(ctx, key) {
				return false
			}
			cs.restoreHeldDeletions(key, next)
			if !cs.rollouts.restore(ctx, key, next) || !cs.setFinalizer(ctx, key, next) {
				return false
			}
			cs.recordLifecycle(key, now.object, metacontroller.EventStarting, metacontroller.EventStarted)
			return true
		})
	}
	if previous != nil || now.running != nil {
		cs.requeueConflicting(key)
	}
	if declares := now.object != nil; declares && (now.running != nil || now.String() != before) {
		cs.logAcceptance(key, now)
	}
}

// stopYounger stops the younger controllers that conflict with a starting one, before it
// writes anything. Those that only have to yield the status restart.
func (cs *Set) stopYounger(key queue.Key, rank string, next *runningController) {
	for other, e := range cs.registry.youngerConflicting(key, rank, next) {
		found, conflicting := conflicts.Find(e.running.Compiled, next.Compiled)
		e.running.shutdown()
		cs.recordStopped(other, e.object)
		cs.registry.change(e, func(e *controllerEntry) {
			e.running = nil
			if conflicting {
				e.refusal = found.Refusal(key)
			}
		})
		if !conflicting {
			cs.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
			continue
		}
		cs.logAcceptance(other, e.controllerState)
	}
}

// logAcceptance logs whether a controller is accepted. A refusal is a warning, since a user
// has to act.
func (cs *Set) logAcceptance(key queue.Key, now controllerState) {
	refused, isRefused := errors.AsType[*compile.Refusal](now.problem())
	if !isRefused && now.outdated != nil {
		cs.Log.Warn("older code stays in use", "controller", key.String(), "reason", now.outdated.Reason, "message",
			now.outdated.Error())
		return
	}
	if !isRefused {
		cs.Log.Info("controller accepted", "controller", key.String(), "suspended", now.suspended)
		return
	}
	cs.Log.Warn("controller not accepted", "controller", key.String(), "reason", refused.Reason, "message", refused.Error())
	if refused.Reason == setpoint.ReasonConflictingSetpoint && cs.Leader.Leads() {
		// The status is that of the other Setpoint.
		cs.RecordEvent(key, hook.Event{Type: corev1.EventTypeWarning, Reason: refused.Reason, Message: refused.Error()})
	}
}

// report changes what is reported of a controller that keeps running: why it does not run in some
// namespaces, or not with the latest code or spec.
func (cs *Set) report(key queue.Key, e *controllerEntry, change func(*controllerState)) {
	before := e.String()
	cs.registry.change(e, func(e *controllerEntry) { change(&e.controllerState) })
	if e.String() != before {
		cs.logAcceptance(key, e.controllerState)
	}
}

// keepRunning reports whether a controller keeps running after a change of its object. It
// reconciles all objects if the user requested that.
func (cs *Set) keepRunning(e *controllerEntry, declared *object.Object, compiled *compile.Compiled) bool {
	if unchanged(declared, e.object) {
		return true
	}
	if !onlyCommandAnnotations(declared, e.object) && !onlyRollout(declared, e.object) {
		return false
	}
	before, rolledOut := e.object, e.running.Rollout
	cs.registry.change(e, func(e *controllerEntry) { e.object, e.running.Rollout = declared, compiled.Rollout })
	e.running.setRollbackWhen(rolledOut)
	e.running.allowDeletions(declared)
	if reconcileRequested(declared, before) {
		e.running.syncAll(controller.RequestCause(declared))
	}
	return true
}

// onlyCommandAnnotations reports whether only annotations changed that request an action. All
// other changes are visible to hooks.
func onlyCommandAnnotations(declared, before *object.Object) bool {
	return declared != nil && before != nil && declared.UID() == before.UID() && declared.Generation() == before.Generation() &&
		maps.Equal(labelsOf(declared), labelsOf(before)) && maps.Equal(nonCommandAnnotations(declared), nonCommandAnnotations(before))
}

// reconcileRequested reports whether a user requested to reconcile all objects, by annotation,
// and changed nothing else.
func reconcileRequested(declared, before *object.Object) bool {
	return onlyCommandAnnotations(declared, before) && plan.ReconcileRequested(before, declared)
}

func labelsOf(o *object.Object) map[string]string {
	labels := map[string]string{}
	for label := range o.Labels().All() {
		labels[label.Key] = label.Value
	}
	return labels
}

// nonCommandAnnotations returns the annotations that request no action.
func nonCommandAnnotations(o *object.Object) map[string]string {
	var all map[string]string
	if field := o.Field("metadata", "annotations"); field == nil || json.Unmarshal(field, &all) != nil {
		return nil
	}
	delete(all, setpoint.AnnotationReconcileAt)
	delete(all, setpoint.AnnotationAllowDeletions)
	delete(all, setpoint.AnnotationRolloutRetryAt)
	return all
}

// updateWebhooks registers the webhooks of a controller, or removes them.
func (cs *Set) updateWebhooks(key queue.Key, now controllerState) {
	switch {
	case now.refused(setpoint.ReasonConflictingSetpoint), now.refused(setpoint.ReasonForbidden):
		// Without the right to write webhook configurations, a deleted one must not come back.
		cs.Webhooks.Yield(key)
	case now.refusal != nil:
		cs.Webhooks.Reject(key)
	case now.running == nil:
		cs.Webhooks.Set(key, nil)
	default:
		cs.Webhooks.Set(key, cs.InFlight.WrapReviews(now.running.Admission))
	}
}

// unchanged reports whether a user has changed nothing. Controllers of a Go program have no
// object.
func unchanged(declared, before *object.Object) bool {
	return declared == before || declared.UID() == before.UID() && declared.IntentDigest() == before.IntentDigest()
}

// remove stops the controller of a deleted object. While the object is being deleted, its
// entry stays until its finalizers are removed.
func (cs *Set) remove(key queue.Key, going *object.Object) {
	e := cs.registry.remove(key)
	cs.compilation.dropCode(key)
	if e != nil && e.running != nil {
		e.running.shutdown()
		cs.recordStopped(key, e.object)
	}
	cs.Webhooks.Set(key, nil)
	if e != nil && e.running != nil {
		cs.Metrics.DeleteController(e.running.Name())
		cs.Webhooks.DropFailures(e.running.Name())
		cs.Endpoints.Remove(e.running.Name())
	}
	cs.History.Drop(key.String())
	if e != nil && e.releasing == "" {
		cs.requeueConflicting(key)
		cs.Log.Info("controller removed", "controller", key.String())
	}
	if going == nil {
		cs.ownership.unselected.Store(true)
	}
	if going == nil || !finalizers.ReleasesParents(going) {
		return
	}
	cs.registry.change(cs.registry.entry(key), func(e *controllerEntry) {
		e.object, e.releasing = going, "removing its finalizer from parents"
	})
	cs.releaser.enqueue(key, going)
}
