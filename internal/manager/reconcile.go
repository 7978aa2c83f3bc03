package manager

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reconcile makes what runs for a controller object what the object says.
func (f *controllerSet) reconcile(ctx context.Context, key queue.Key) queue.Outcome {
	if i := f.goControllerIndex(key); i >= 0 {
		return f.reconcileGoController(ctx, key, i)
	}
	declared := f.kinds[key.Namespace].view.Get("", key.Name)
	if declared == nil || declared.Deleting() {
		f.remove(key, declared)
		return queue.NoRequeue()
	}
	compiled, err := f.compile(ctx, key, declared)
	var refusal *compile.Refusal
	if ctx.Err() != nil {
		return queue.NoRequeue()
	}
	if err != nil && !errors.As(err, &refusal) {
		f.manager.log.Warn("cannot look up what a controller needs; trying again", "controller", key.String(), "error", err.Error())
		// Until this succeeds, what the API server has registered for it stays.
		f.manager.webhooks.reject(key)
		return queue.Retry()
	}
	f.replace(ctx, key, controllerState{object: declared, rank: rankOf(declared), refusal: err}, compiled)
	f.enqueueRelease(key, declared)
	return outcomeOf(refusal)
}

// outcomeOf says whether to try again what was refused, if it was.
func outcomeOf(refusal *compile.Refusal) queue.Outcome {
	if refusal != nil && (refusal.Reason == setpoint.ReasonForbidden || refusal.Reason == setpoint.ReasonResourceNotFound) {
		// Permissions and aggregated APIs appear without an event.
		return queue.Retry()
	}
	return queue.NoRequeue()
}

// compile makes programs of an object that may also be run here and now.
func (f *controllerSet) compile(ctx context.Context, key queue.Key, declared *object.Object) (*compile.Compiled, error) {
	kind := f.kinds[key.Namespace]
	compiled, err := kind.Compile(ctx, declared, f.manager.compileEnvironment())
	if err != nil {
		return nil, err
	}
	if err := f.checkRunnable(ctx, key, declared, compiled); err != nil {
		compiled.Release()
		return nil, err
	}
	return compiled, nil
}

// checkRunnable says what keeps a controller from running beside all else that does.
func (f *controllerSet) checkRunnable(ctx context.Context, key queue.Key, declared *object.Object, compiled *compile.Compiled) error {
	kind := f.kinds[key.Namespace]
	if kind.Metacontroller() {
		note, err := f.manager.metacontrollers.conflict(ctx, declared)
		if err != nil {
			return err
		}
		if note != "" {
			compiled.Notes = append(compiled.Notes, note)
		}
	}
	if err := f.checkConflict(key, rankOf(declared), compiled); err != nil {
		return err
	}
	return f.manager.checkAccess(ctx, key.Name, controllerPermissions(kind.Resource, compiled, &f.manager.options))
}

// replace replaces what runs for a controller.
func (f *controllerSet) replace(ctx context.Context, key queue.Key, now controllerState, compiled *compile.Compiled) {
	m, refusal := f.entry(key), now.refusal
	if m.running != nil && refusal == nil && !compiled.Suspended && m.running.equivalent(compiled) && f.keepRunning(m, now.object) {
		compiled.Release()
		return
	}
	previous, said := m.running, m.String()
	if refusal == nil {
		now.notes, now.unstored, now.suspended = compiled.Notes, compiled.StatusWarning, compiled.Suspended
		if now.suspended {
			now.kinds, now.children = controllerKinds(compiled)
			now.historyKinds = historyKindsOf(compiled)
		}
		now.running = f.start(compiled, now.object)
	}
	if previous != nil {
		previous.shutdown()
		f.recordStopped(key, m.object)
	}
	f.mu.Lock()
	m.controllerState = now
	f.mu.Unlock()
	f.updateWebhooks(key, now)
	if next := now.running; next != nil {
		f.stopYounger(key, now.rank, next)
		next.launch(ctx, f.manager.leadership, func(ctx context.Context) bool {
			f.restoreHeldDeletions(key, next)
			if !f.setFinalizer(ctx, key, next) {
				return false
			}
			f.recordStarted(key, now.object)
			return true
		})
	}
	if previous != nil || now.running != nil {
		f.requeueConflicting(key)
	}
	if declares := now.object != nil; declares && (now.running != nil || now.String() != said) {
		f.logAcceptance(key, now)
	}
}

// logAcceptance says what became of a controller object. A refusal is a warning: the author
// of the object has to act, and may be looking at a terminal.
func (f *controllerSet) logAcceptance(key queue.Key, now controllerState) {
	refused, isRefused := errors.AsType[*compile.Refusal](now.refusal)
	if !isRefused {
		f.manager.log.Info("controller accepted", "controller", key.String(), "suspended", now.suspended)
		return
	}
	f.manager.log.Warn("controller not accepted", "controller", key.String(), "reason", refused.Reason, "message", refused.Error())
}

// keepRunning says that what runs for an object goes on as it does, after the run about all
// objects that a user may have asked for.
func (f *controllerSet) keepRunning(m *controllerEntry, declared *object.Object) bool {
	if unchanged(declared, m.object) {
		return true
	}
	if !onlyCommandAnnotations(declared, m.object) {
		return false
	}
	before := m.object
	f.mu.Lock()
	m.object = declared
	f.mu.Unlock()
	m.running.allowDeletions(declared)
	if reconcileRequested(declared, before) {
		m.running.syncAll(queue.ReconcileRequested)
	}
	return true
}

// onlyCommandAnnotations says that a user has edited nothing but the annotations that order
// something to be done now: hooks see all of the rest.
func onlyCommandAnnotations(declared, before *object.Object) bool {
	return declared != nil && before != nil && declared.UID() == before.UID() && declared.Generation() == before.Generation() &&
		maps.Equal(labelsOf(declared), labelsOf(before)) && maps.Equal(nonCommandAnnotations(declared), nonCommandAnnotations(before))
}

// reconcileRequested says that a user has asked for a run about all objects, by the annotation that
// asks for it at one of them, and has edited nothing else.
func reconcileRequested(declared, before *object.Object) bool {
	if !onlyCommandAnnotations(declared, before) {
		return false
	}
	at := plan.Annotation(declared, setpoint.AnnotationReconcileAt)
	return at != "" && at != plan.Annotation(before, setpoint.AnnotationReconcileAt)
}

func labelsOf(o *object.Object) map[string]string {
	labels := map[string]string{}
	for label := range o.Labels().All() {
		labels[label.Key] = label.Value
	}
	return labels
}

// nonCommandAnnotations are those but the ones that order something to be done now.
func nonCommandAnnotations(o *object.Object) map[string]string {
	var all map[string]string
	if field := o.Field("metadata", "annotations"); field == nil || json.Unmarshal(field, &all) != nil {
		return nil
	}
	delete(all, setpoint.AnnotationReconcileAt)
	delete(all, setpoint.AnnotationAllowDeletions)
	return all
}

// updateWebhooks has the API server ask a controller before it stores objects, if the
// controller wants that.
func (f *controllerSet) updateWebhooks(key queue.Key, now controllerState) {
	switch {
	case now.refusal != nil:
		f.manager.webhooks.reject(key)
	case now.running == nil:
		f.manager.webhooks.set(key, nil)
	default:
		f.manager.webhooks.set(key, now.running.Admission)
	}
}

// start prepares what is to run; nil where that is nothing.
func (f *controllerSet) start(compiled *compile.Compiled, declared *object.Object) *runningController {
	if compiled.Suspended {
		compiled.Release()
		return nil
	}
	return f.newRunningController(compiled, declared)
}

// unchanged says that a user has edited nothing in between. A Go program's own
// controllers have no object that could be edited.
func unchanged(declared, before *object.Object) bool {
	return declared == before || declared.UID() == before.UID() && declared.IntentDigest() == before.IntentDigest()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// entry returns the entry of a key, a fresh one if there is none.
func (f *controllerSet) entry(key queue.Key) *controllerEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.entries[key]
	if m == nil {
		m = &controllerEntry{kind: key.Namespace}
		f.entries[key] = m
	}
	return m
}

// remove ends the controller of an object that is gone, or going: that one is
// kept in sight until its finalizers are released.
func (f *controllerSet) remove(key queue.Key, going *object.Object) {
	f.mu.Lock()
	m := f.entries[key]
	delete(f.entries, key)
	f.mu.Unlock()
	if m != nil && m.running != nil {
		m.running.shutdown()
		f.recordStopped(key, m.object)
	}
	f.manager.webhooks.remove(key)
	if m != nil && m.running != nil {
		f.manager.metrics.deleteController(m.running.Name())
		f.manager.webhooks.dropFailures(m.running.Name())
		f.manager.endpoints.remove(m.running.Name())
	}
	f.manager.history.Drop(key.String())
	if m != nil && m.releasing == "" {
		f.requeueConflicting(key)
		f.manager.log.Info("controller removed", "controller", key.String())
	}
	if going == nil || !hasReleaseFinalizer(going) {
		return
	}
	f.mu.Lock()
	f.entries[key] = &controllerEntry{kind: key.Namespace, controllerState: controllerState{object: going, releasing: "its finalizers are being removed from its parents"}}
	f.mu.Unlock()
	f.enqueueRelease(key, going)
}
