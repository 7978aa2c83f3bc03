package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reconciler starts, replaces and stops controllers, one at a time.
type reconciler struct {
	shared

	changes     *changes
	compilation *compilation
	ownership   *ownership
	releaser    *releaser
	rollouts    *rollouts
}

// reconcile starts, replaces or stops the controller of a controller object, or one of a Go program.
func (r *reconciler) reconcile(ctx context.Context, key queue.Key) queue.Outcome {
	now := controllerState{key: key}
	var compiled *compile.Compiled
	if i := slices.IndexFunc(r.GoControllers, func(own GoController) bool { return goControllerKey(own.Name) == key }); i >= 0 {
		now.rank = goControllerRank(i)
		compiled, now.refusal = r.compilation.compileGoController(ctx, key, i)
	} else {
		if now.object = r.declared.Get(key); now.object == nil || now.object.Deleting() {
			r.remove(key, now.object)
			return queue.NoRequeue()
		}
		now.rank = conflicts.Rank(now.object)
		compiled, now.refusal = r.compilation.compileDeclared(ctx, key, now.object)
	}
	if ctx.Err() != nil || errors.Is(now.refusal, calls.ErrCompiling) {
		return queue.NoRequeue() // codeCompiled enqueues the controller.
	}
	outcome := r.settle(ctx, now, compiled)
	if now.object != nil {
		r.releaser.enqueue(key, now.object)
	}
	return outcome
}

// settle starts, replaces, stops or refuses a controller. One that runs goes on while the API server does not
// answer what has to be known of its latest spec.
func (r *reconciler) settle(ctx context.Context, now controllerState, compiled *compile.Compiled) queue.Outcome {
	refusal, refused := errors.AsType[*compile.Refusal](now.refusal)
	if now.refusal != nil && !refused {
		refusal = &compile.Refusal{Reason: setpoint.ReasonAPIUnavailable, Err: fmt.Errorf("%w; trying again", now.refusal)}
	}
	if refusal != nil {
		now.refusal = refusal
	}
	if now.refused(setpoint.ReasonAPIUnavailable) && r.registry.get(now.key).running != nil {
		refusal.Err = fmt.Errorf("%w; until then the controller runs as before", refusal.Err)
		r.report(now.key, func(s *controllerState) { s.refusal = refusal })
		return queue.Retry()
	}
	r.replace(ctx, now, compiled)
	// Access, aggregated APIs, the Leases of others and the API server itself change without an event.
	retried := []string{setpoint.ReasonForbidden, setpoint.ReasonResourceNotFound, setpoint.ReasonConflictingSetpoint,
		setpoint.ReasonAPIUnavailable}
	if refusal != nil && slices.Contains(retried, refusal.Reason) ||
		refusal == nil && len(compiled.Excluded)+len(compiled.Absent)+len(compiled.Unserved) > 0 {
		return queue.Retry()
	}
	return queue.NoRequeue()
}

// replace replaces the running controller of a key, unless that can go on.
func (r *reconciler) replace(ctx context.Context, now controllerState, compiled *compile.Compiled) {
	before := r.registry.get(now.key)
	if now.refusal == nil {
		if before.running != nil && !compiled.Suspended && before.running.Equivalent(compiled) &&
			r.keepRunning(before, now.object, compiled) {
			compiled.Close()
			r.report(now.key, func(s *controllerState) { s.accept(compiled) })
			return
		}
		now.accept(compiled)
		if now.suspended {
			now.kinds = kindsOf(compiled)
			compiled.Close()
		} else {
			now.running = running.New(&r.Dependencies.Dependencies, compiled, now.object)
		}
	}
	if before.running != nil {
		before.running.Shutdown()
		r.recordStopped(&before.controllerState)
	}
	r.registry.set(now)
	r.updateWebhooks(now)
	if now.running != nil {
		r.stopYounger(now)
		now.running.Launch(ctx, r.Leader, func(ctx context.Context) bool { return r.prepareStart(ctx, &now) })
	}
	if before.running != nil || now.running != nil {
		r.changes.requeueConflicting(now.key)
	}
	if now.object != nil && (now.running != nil || now.logged() != before.logged()) {
		r.logAcceptance(now)
	}
}

// prepareStart prepares the object that declares a controller for its start; one of a Go program has none. It returns
// false if the controller must not start.
func (r *reconciler) prepareStart(ctx context.Context, now *controllerState) bool {
	if now.object == nil {
		return true
	}
	if !r.ownership.await(ctx, now.key) {
		return false
	}
	// What was held when the status was last written is held again.
	held, stored := now.running.Deletions, r.declared.Get(now.key)
	if held != nil && stored != nil && HasHeldDeletions(compile.StoredStatus(stored).Conditions) {
		held.RestoreHeld()
	}
	if !r.rollouts.restore(ctx, now.key, now.running) || !r.setFinalizer(ctx, now.key, now.running) {
		return false
	}
	r.recordLifecycle(now, metacontroller.EventStarting, metacontroller.EventStarted)
	return true
}

// stopYounger stops the younger controllers that conflict with a starting one, before it writes anything. Those that only
// have to yield the status restart.
func (r *reconciler) stopYounger(next controllerState) {
	for _, e := range r.registry.all().youngerConflicting(next) {
		found, conflicting := conflicts.Find(e.running.Compiled, next.running.Compiled)
		e.running.Shutdown()
		r.recordStopped(&e.controllerState)
		now := r.registry.change(e.key, func(e *controllerEntry) {
			e.running = nil
			if conflicting {
				e.refusal = found.Refusal(next.key)
			}
		})
		if !conflicting {
			r.queue.Add(e.key, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: next.key})
			continue
		}
		r.logAcceptance(now.controllerState)
	}
}

// logAcceptance logs whether a controller is accepted. A refusal is a warning, since a user has to act.
func (r *reconciler) logAcceptance(now controllerState) {
	log := r.Log.With("controller", now.key.String())
	refused, isRefused := errors.AsType[*compile.Refusal](now.problem())
	switch {
	case !isRefused && now.outdated != nil:
		log.Warn("older code stays in use", "reason", now.outdated.Reason, "message", now.outdated.Error())
		return
	case !isRefused:
		log.Info("controller accepted", "suspended", now.suspended)
		return
	}
	log.Warn("controller not accepted", "reason", refused.Reason, "message", refused.Error())
	if refused.Reason == setpoint.ReasonConflictingSetpoint && r.Leader.Leads() {
		// The status is that of the other Setpoint.
		r.Events.Event(now.object, hook.Event{Type: corev1.EventTypeWarning, Reason: refused.Reason, Message: refused.Error()})
	}
}

// report changes what is reported of a controller that keeps running: why it does not run in some namespaces, or not with
// the latest code or spec.
func (r *reconciler) report(key queue.Key, change func(*controllerState)) {
	before := ""
	now := r.registry.change(key, func(e *controllerEntry) {
		before = e.logged()
		change(&e.controllerState)
	})
	if now.logged() != before {
		r.logAcceptance(now.controllerState)
	}
}

// keepRunning reports whether a controller keeps running after a change of its object. It reconciles all objects if the
// user requested that.
func (r *reconciler) keepRunning(e controllerEntry, next *object.Object, compiled *compile.Compiled) bool {
	if declared.Unchanged(next, e.object) {
		return true
	}
	if !declared.OnlyCommands(next, e.object) && !declared.OnlyRollout(next, e.object) {
		return false
	}
	r.registry.change(e.key, func(e *controllerEntry) { e.object = next })
	e.running.SetPolicy(compiled.Rollout)
	e.running.AllowDeletions(next)
	if declared.ReconcileRequested(next, e.object) {
		e.running.SyncAll(controller.RequestCause(next))
	}
	return true
}

// updateWebhooks registers the webhooks of a controller, or removes them.
func (r *reconciler) updateWebhooks(now controllerState) {
	switch {
	case now.refused(setpoint.ReasonConflictingSetpoint), now.refused(setpoint.ReasonForbidden):
		// Without the right to write webhook configurations, a deleted one must not come back.
		r.Webhooks.Yield(now.key)
	case now.refusal != nil:
		r.Webhooks.Reject(now.key)
	case now.running == nil:
		r.Webhooks.Set(now.key, nil)
	default:
		r.Webhooks.Set(now.key, r.InFlight.WrapReviews(now.running.Admission))
	}
}

// remove stops the controller of a deleted object. While the object is being deleted, its entry stays until its finalizers
// are removed.
func (r *reconciler) remove(key queue.Key, going *object.Object) {
	e := r.registry.remove(key)
	r.compilation.dropCode(key)
	if e.running != nil {
		e.running.Shutdown()
		r.recordStopped(&e.controllerState)
	}
	r.Webhooks.Set(key, nil)
	if e.running != nil {
		r.Metrics.DeleteController(e.running.Name())
		r.Webhooks.DropFailures(e.running.Name())
		r.Endpoints.Remove(e.running.Name())
	}
	r.History.Drop(key.String())
	if e.object != nil && e.releasing == "" {
		r.changes.requeueConflicting(key)
		r.Log.Info("controller removed", "controller", key.String())
	}
	if going == nil {
		r.ownership.unselected.Store(true)
	}
	if going == nil || !finalizers.ReleasesParents(going) {
		return
	}
	r.registry.set(controllerState{key: key, object: going, releasing: "removing its finalizer from parents"})
	r.releaser.enqueue(key, going)
}
