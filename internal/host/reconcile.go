package host

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
func (f *fleet) reconcile(ctx context.Context, key queue.Key) queue.Outcome {
	if i := f.ownIndex(key); i >= 0 {
		return f.reconcileOwn(ctx, key, i)
	}
	declared := f.kinds[key.Namespace].view.Get("", key.Name)
	if declared == nil || declared.Deleting() {
		f.remove(key, declared)
		return queue.Settled()
	}
	compiled, err := f.compile(ctx, key, declared)
	var refusal *compile.Refusal
	if ctx.Err() != nil {
		return queue.Settled()
	}
	if err != nil && !errors.As(err, &refusal) {
		f.host.log.Warn("cannot look up what a controller needs; trying again", "controller", key.String(), "error", err.Error())
		// Until this succeeds, what the API server has registered for it stays.
		f.host.gate.refuse(key)
		return queue.Retry()
	}
	f.settle(ctx, key, state{object: declared, rank: rankOf(declared), refusal: err}, compiled)
	f.considerRelease(key, declared)
	return outcomeOf(refusal)
}

// outcomeOf says whether to try again what was refused, if it was.
func outcomeOf(refusal *compile.Refusal) queue.Outcome {
	if refusal != nil && (refusal.Reason == setpoint.ReasonForbidden || refusal.Reason == setpoint.ReasonResourceNotFound) {
		// Permissions and aggregated APIs appear without an event.
		return queue.Retry()
	}
	return queue.Settled()
}

// compile makes programs of an object that may also be run here and now.
func (f *fleet) compile(ctx context.Context, key queue.Key, declared *object.Object) (*compile.Compiled, error) {
	kind := f.kinds[key.Namespace]
	compiled, err := kind.Compile(ctx, declared, f.host.environment())
	if err != nil {
		return nil, err
	}
	if err := f.runnable(ctx, key, declared, compiled); err != nil {
		compiled.Release()
		return nil, err
	}
	return compiled, nil
}

// runnable says what keeps a controller from running beside all else that does.
func (f *fleet) runnable(ctx context.Context, key queue.Key, declared *object.Object, compiled *compile.Compiled) error {
	kind := f.kinds[key.Namespace]
	if kind.Metacontroller() {
		note, err := f.host.neighbours.conflict(ctx, declared)
		if err != nil {
			return err
		}
		if note != "" {
			compiled.Notes = append(compiled.Notes, note)
		}
	}
	if err := f.rival(key, rankOf(declared), compiled); err != nil {
		return err
	}
	return f.host.permitted(ctx, key.Name, needs(kind.Resource, compiled, &f.host.options))
}

// settle replaces what runs for a controller.
func (f *fleet) settle(ctx context.Context, key queue.Key, now state, compiled *compile.Compiled) {
	m, refusal := f.member(key), now.refusal
	if m.running != nil && refusal == nil && !compiled.Suspended && m.running.same(compiled) && f.goesOn(m, now.object) {
		compiled.Release()
		return
	}
	former, said := m.running, m.String()
	if refusal == nil {
		now.notes, now.unstored, now.suspended = compiled.Notes, compiled.Unstored, compiled.Suspended
		if now.suspended {
			now.kinds, now.children = kindsInspected(compiled)
			now.keeps = kindsKept(compiled)
		}
		now.running = f.start(compiled, now.object)
	}
	if former != nil {
		former.end()
		f.tellStopped(key, m.object)
	}
	f.mu.Lock()
	m.state = now
	f.mu.Unlock()
	f.admit(key, now)
	if next := now.running; next != nil {
		f.displace(key, now.rank, next)
		next.launch(ctx, f.host.office, func(ctx context.Context) bool {
			f.recallDeletions(key, next)
			if !f.hold(ctx, key, next) {
				return false
			}
			f.tellStarted(key, now.object)
			return true
		})
	}
	if former != nil || now.running != nil {
		f.wakeRivals(key)
	}
	if declares := now.object != nil; declares && (now.running != nil || now.String() != said) {
		f.logDeclared(key, now)
	}
}

// logDeclared says what became of a controller object. A refusal is a warning: the author
// of the object has to act, and may be looking at a terminal.
func (f *fleet) logDeclared(key queue.Key, now state) {
	refused, isRefused := errors.AsType[*compile.Refusal](now.refusal)
	if !isRefused {
		f.host.log.Info("controller accepted", "controller", key.String(), "suspended", now.suspended)
		return
	}
	f.host.log.Warn("controller not accepted", "controller", key.String(), "reason", refused.Reason, "message", refused.Error())
}

// goesOn says that what runs for an object goes on as it does, after the run about all
// objects that a user may have asked for.
func (f *fleet) goesOn(m *member, declared *object.Object) bool {
	if unchanged(declared, m.object) {
		return true
	}
	if !onlyOrders(declared, m.object) {
		return false
	}
	before := m.object
	f.mu.Lock()
	m.object = declared
	f.mu.Unlock()
	m.running.allowDeletions(declared)
	if asked(declared, before) {
		m.running.syncAll(queue.UserAsked)
	}
	return true
}

// onlyOrders says that a user has edited nothing but the annotations that order
// something to be done now: hooks see all of the rest.
func onlyOrders(declared, before *object.Object) bool {
	return declared != nil && before != nil && declared.UID() == before.UID() && declared.Generation() == before.Generation() &&
		maps.Equal(labelsOf(declared), labelsOf(before)) && maps.Equal(otherAnnotations(declared), otherAnnotations(before))
}

// asked says that a user has asked for a run about all objects, by the annotation that
// asks for it at one of them, and has edited nothing else.
func asked(declared, before *object.Object) bool {
	if !onlyOrders(declared, before) {
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

// otherAnnotations are those but the ones that order something to be done now.
func otherAnnotations(o *object.Object) map[string]string {
	var all map[string]string
	if field := o.Field("metadata", "annotations"); field == nil || json.Unmarshal(field, &all) != nil {
		return nil
	}
	delete(all, setpoint.AnnotationReconcileAt)
	delete(all, setpoint.AnnotationAllowDeletions)
	return all
}

// admit has the API server ask a controller before it stores objects, if the
// controller wants that.
func (f *fleet) admit(key queue.Key, now state) {
	switch {
	case now.refusal != nil:
		f.host.gate.refuse(key)
	case now.running == nil:
		f.host.gate.put(key, nil)
	default:
		f.host.gate.put(key, now.running.Admission)
	}
}

// start prepares what is to run; nil where that is nothing.
func (f *fleet) start(compiled *compile.Compiled, declared *object.Object) *running {
	if compiled.Suspended {
		compiled.Release()
		return nil
	}
	return f.prepare(compiled, declared)
}

// unchanged says that a user has edited nothing in between. A Go program's own
// controllers have no object that could be edited.
func unchanged(declared, before *object.Object) bool {
	return declared == before || declared.UID() == before.UID() && declared.Intent() == before.Intent()
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// member returns the entry of a key, a fresh one if there is none.
func (f *fleet) member(key queue.Key) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[key]
	if m == nil {
		m = &member{kind: key.Namespace}
		f.members[key] = m
	}
	return m
}

// remove ends the controller of an object that is gone, or going: that one is
// kept in sight until its finalizers are released.
func (f *fleet) remove(key queue.Key, going *object.Object) {
	f.mu.Lock()
	m := f.members[key]
	delete(f.members, key)
	f.mu.Unlock()
	if m != nil && m.running != nil {
		m.running.end()
		f.tellStopped(key, m.object)
	}
	f.host.gate.drop(key)
	if m != nil && m.running != nil {
		f.host.metrics.forget(m.running.Name())
		f.host.gate.forget(m.running.Name())
		f.host.endpoints.forget(m.running.Name())
	}
	f.host.book.Forget(key.String())
	if m != nil && m.leaving == "" {
		f.wakeRivals(key)
		f.host.log.Info("controller removed", "controller", key.String())
	}
	if going == nil || !held(going) {
		return
	}
	f.mu.Lock()
	f.members[key] = &member{kind: key.Namespace, state: state{object: going, leaving: "its finalizers are being removed from its parents"}}
	f.mu.Unlock()
	f.considerRelease(key, going)
}
