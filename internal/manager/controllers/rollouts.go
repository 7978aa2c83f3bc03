package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// formerLogic reads the version that reconciles the parents which have not moved to another one.
func (cs *Set) formerLogic(ctx context.Context, o *object.Object, version string) (string, json.RawMessage, error) {
	name := rollout.Former(compile.StoredStatus(o).Rollout, version)
	if name == "" {
		return "", nil, nil
	}
	revision, err := cs.writer().Get(ctx, plan.ControllerRevisions, cs.Namespace, name)
	switch {
	case apply.NotFound(err) || err == nil && !revision.ControlledBy(o.UID()):
		return "", nil, &compile.Refusal{Reason: setpoint.ReasonRevisionNotFound, Err: fmt.Errorf(
			"spec.rollout: the ControllerRevision %s/%s of this controller does not exist; it has the version of the hooks for parents "+
				"that have not moved; without spec.rollout all parents move at once",
			cs.Namespace, name)}
	case err != nil:
		return "", nil, fmt.Errorf("read the ControllerRevision %s/%s: %w", cs.Namespace, name, err)
	}
	return name, revision.Field("data"), nil
}

// restoreRollout moves the parents of a starting controller as far as the stored status says. It returns false if
// the context ends first, or if the controller was compiled for another rollout.
func (cs *Set) restoreRollout(ctx context.Context, key queue.Key, r *runningController) bool {
	if r.versions == nil {
		return true
	}
	kind, gone := cs.kinds[key.Namespace], false
	backoff := wait.Backoff{Duration: minRetryDelay, Factor: 2, Steps: 7, Cap: 5 * time.Second}
	err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		// The cache of a new leader may be behind what the leader before stored.
		stored, err := cs.writer().Get(ctx, kind.Resource, "", key.Name)
		gone = apply.NotFound(err)
		cached := kind.view.Get("", key.Name)
		return gone || err == nil && cached != nil && cached.Version() >= stored.Version(), nil
	})
	return err == nil && !gone && cs.setPosition(key, r)
}

// setPosition moves parents as far as the stored status says. It compiles the controller again if that was compiled
// with another version for the parents that have not moved.
func (cs *Set) setPosition(key queue.Key, r *runningController) bool {
	r.moving.Lock()
	defer r.moving.Unlock()
	stored := cs.kinds[key.Namespace].view.Get("", key.Name)
	if stored == nil {
		return false
	}
	status := compile.StoredStatus(stored).Rollout
	spec, position := cs.registry.policy(r), rollout.End
	if spec != nil {
		if former := rollout.Former(status, spec.Version); former != "" && former != r.Former() {
			r.outdatedLogic.Store(true)
			cs.queue.Add(key, queue.Cause{Kind: queue.LogicChanged})
			return false
		}
		position = rollout.Position(status, spec.Version)
	}
	if r.versions == nil {
		return true
	}
	r.versions.SetShadow(spec != nil && rollout.Compares(status, spec.Version), perSecond(spec))
	if before := r.versions.SetPosition(position); before != position {
		r.queueMoved(before, position, spec)
	}
	return true
}

// perSecond is how many parents are reconciled in a second because of a rollout; 0 for no limit.
func perSecond(spec *compile.Rollout) int {
	if spec == nil {
		return 0
	}
	return rollout.ParentsPerSecond(spec.Spec)
}

// queueMoved queues the parents between two positions, as fast as spec.rollout says.
func (r *runningController) queueMoved(from, to int64, spec *compile.Rollout) {
	for _, w := range r.workers {
		if c, is := w.(*composite.Controller); is {
			c.QueueMoved(from, to, perSecond(spec))
		}
	}
}

// setRollbackWhen replaces the condition of a rollback. If it is another one, it is evaluated for all moved parents.
func (r *runningController) setRollbackWhen(before *compile.Rollout) {
	if r.versions == nil {
		return
	}
	var when composite.When
	if r.Rollout != nil {
		when = r.Rollout.When
	}
	r.versions.SetWhen(when)
	if before != nil && r.Rollout != nil && before.Spec.Rollback.When != r.Rollout.Spec.Rollback.When {
		r.queueMoved(0, r.versions.Position(), r.Rollout)
	}
}

// rolloutEquivalent reports whether the versions of a controller are those that run already.
func (r *runningController) rolloutEquivalent(compiled *compile.Compiled) bool {
	if r.outdatedLogic.Load() {
		return false
	}
	if now, next := r.Rollout, compiled.Rollout; now != nil && next != nil && now.Version != next.Version {
		return false
	}
	return compiled.Former() == "" || compiled.Former() == r.Former()
}

// onlyRollout reports whether a user changed nothing but spec.rollout.
func onlyRollout(declared, before *object.Object) bool {
	if declared == nil || before == nil || declared.UID() != before.UID() || !maps.Equal(labelsOf(declared), labelsOf(before)) {
		return false
	}
	annotations := func(o *object.Object) map[string]string {
		all := nonCommandAnnotations(o)
		delete(all, corev1.LastAppliedConfigAnnotation) // kubectl apply stores the whole spec there.
		return all
	}
	return maps.Equal(annotations(declared), annotations(before)) && specWithoutRollout(declared) == specWithoutRollout(before)
}

func specWithoutRollout(o *object.Object) uint64 {
	bare, err := o.With(nil, "spec", "rollout")
	if err != nil {
		return o.Digest() // The object was parsed before, so editing it cannot fail.
	}
	return object.DigestOf(bare.Field("spec"))
}

// rollingWorker is a worker that calls two versions of hooks.
type rollingWorker interface {
	// Rollout returns what a rollout knows of the parents.
	Rollout() rollout.Observed
}

// observeRollout returns what is known of the parents of a running controller, if its rollout needs it.
func (e *controllerEntry) observeRollout(status *setpoint.RolloutStatus) (all rollout.Observed) {
	r := e.running
	if r == nil || r.versions == nil || status == nil || status.Phase == setpoint.RolloutComplete {
		return all
	}
	for _, w := range r.workers {
		if c, is := w.(rollingWorker); is {
			all.Add(c.Rollout())
		}
	}
	all.Shadow.Held = r.deletions.WouldHold(all.Shadow.Removals())
	return all
}

// advanceRollout sets the next status of the rollout of a running controller.
func (cs *Set) advanceRollout(
	ctx context.Context, e *controllerEntry, status *setpoint.ControllerStatus, stored *object.Object, observed rollout.Observed,
) {
	r := e.running
	if r == nil || e.object == nil {
		return
	}
	policy := cs.registry.policy(r)
	if policy == nil {
		status.Rollout = nil
		meta.RemoveStatusCondition(&status.Conditions, setpoint.ConditionProgressing)
		return
	}
	in := rollout.Input{
		Spec: policy.Spec, Version: policy.Version, RetryAt: plan.Annotation(stored, setpoint.AnnotationRolloutRetryAt),
		Status: status.Rollout, Observed: observed, Now: time.Now(),
	}
	next := rollout.Next(&in)
	if before := status.Rollout; before == nil || before.To != next.To {
		if err := cs.storeVersion(ctx, stored, policy); err != nil {
			next = rollout.NotStored(before, err)
		}
	}
	next.Namespace, status.Rollout = cs.Namespace, next
	ok, reason, message := rollout.Condition(policy.Spec, next)
	meta.SetStatusCondition(&status.Conditions, conditionState{ok, reason, message}.condition(setpoint.ConditionProgressing,
		e.object.Generation()))
}

// carryOutRollout moves parents as far as the stored status says.
func (cs *Set) carryOutRollout(key queue.Key, e *controllerEntry) {
	if e.running == nil || !cs.setPosition(key, e.running) || e.running.versions == nil {
		return
	}
	for _, w := range e.running.workers {
		if c, is := w.(*composite.Controller); is {
			c.QueueShadow()
		}
	}
}

// recordRollout records an event for each transition of a rollout. Its message may change without one.
func (cs *Set) recordRollout(e *controllerEntry, previous, now setpoint.ControllerStatus) {
	before, after := meta.FindStatusCondition(previous.Conditions, setpoint.ConditionProgressing),
		meta.FindStatusCondition(now.Conditions, setpoint.ConditionProgressing)
	if after == nil || before == nil || before.Reason == after.Reason && rollout.SameStep(previous.Rollout, now.Rollout) {
		return
	}
	event := hook.Event{Type: corev1.EventTypeNormal, Reason: after.Reason, Message: after.Message}
	if after.Reason == setpoint.ReasonRolledBack || after.Reason == setpoint.ReasonRolloutBlocked {
		event.Type = corev1.EventTypeWarning
	}
	cs.Events.Event(e.object, event)
}

// rolloutGauges returns what metrics show of the rollout that was reported of a controller; nil for none.
func rolloutGauges(reported *setpoint.ControllerStatus) *serving.RolloutState {
	if reported.Rollout == nil {
		return nil
	}
	state := &serving.RolloutState{Stopped: meta.IsStatusConditionFalse(reported.Conditions, setpoint.ConditionProgressing)}
	switch s := reported.Rollout; {
	case s.Phase == setpoint.RolloutComplete:
		state.Moved = 1
	case s.Total > 0:
		state.Moved = float64(s.Moved) / float64(s.Total)
	}
	if shadow := reported.Rollout.Shadow; shadow != nil {
		state.Compared = map[string]int{"same": int(shadow.Compared - shadow.Different - shadow.Failed), "different": int(shadow.Different),
			"failed": int(shadow.Failed)}
	}
	return state
}

// maxVersions is how many versions of the logic of a controller are stored.
const maxVersions = 10

// storeVersion stores the version in the spec of a controller as its latest revision.
func (cs *Set) storeVersion(ctx context.Context, declared *object.Object, version *compile.Rollout) error {
	w, namespace := cs.writer(), cs.Namespace
	stored, err := w.List(ctx, plan.ControllerRevisions, namespace, setpoint.LabelControllerUID+"="+declared.UID())
	if err != nil {
		return fmt.Errorf("list the ControllerRevisions in %s: %w", namespace, err)
	}
	slices.SortFunc(stored, func(a, b *object.Object) int { return cmp.Compare(rollout.Number(a), rollout.Number(b)) })
	number := int64(1)
	if len(stored) > 0 {
		number = rollout.Number(stored[len(stored)-1]) + 1
	}
	i := slices.IndexFunc(stored, func(o *object.Object) bool { return o.Name() == version.Version })
	switch {
	case i < 0:
		err = cs.createVersion(ctx, declared, version, number)
	case i < len(stored)-1:
		// It is the latest again, as with kubectl rollout undo.
		var again *object.Object
		if again, err = stored[i].With(strconv.AppendInt(nil, number, 10), "revision"); err == nil {
			_, err = w.Update(ctx, plan.ControllerRevisions, again)
		}
	}
	if err != nil {
		return fmt.Errorf("store the ControllerRevision %s/%s: %w", namespace, version.Version, err)
	}
	return cs.pruneVersions(ctx, declared, version.Version, stored)
}

func (cs *Set) createVersion(ctx context.Context, declared *object.Object, version *compile.Rollout, number int64) error {
	revision, err := object.Encode(map[string]any{
		"apiVersion": plan.ControllerRevisions.APIVersion(), "kind": plan.ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name": version.Version, "namespace": cs.Namespace,
			"labels":          map[string]any{setpoint.LabelControllerUID: declared.UID()},
			"ownerReferences": []any{plan.OwnerReferenceTo(declared)},
		},
		"data": version.Data, "revision": number,
	})
	if err != nil {
		return err
	}
	_, err = cs.writer().Create(ctx, plan.ControllerRevisions, revision)
	if apply.AlreadyExists(err) {
		return fmt.Errorf("%w; it does not have the label %s of this controller: delete it", err, setpoint.LabelControllerUID)
	}
	return err
}

// pruneVersions deletes the oldest versions, but none that is in use.
func (cs *Set) pruneVersions(ctx context.Context, declared *object.Object, latest string, oldest []*object.Object) error {
	used := rollout.Used(compile.StoredStatus(declared).Rollout)
	excess := len(oldest) - maxVersions
	if !slices.ContainsFunc(oldest, func(o *object.Object) bool { return o.Name() == latest }) {
		excess++
	}
	for _, revision := range oldest {
		if excess <= 0 {
			break
		}
		if revision.Name() == latest || slices.Contains(used, revision.Name()) {
			continue
		}
		if _, err := cs.writer().Delete(ctx, plan.ControllerRevisions, revision); err != nil && !apply.NotFound(err) {
			return fmt.Errorf("delete %s: %w", revision.Ref(), err)
		}
		excess--
	}
	return nil
}

// newLogicVersions returns what follows the versions in responses. It knows the one that counted before a restart.
func newLogicVersions(compiled *compile.Compiled, declared *object.Object) *composite.LogicVersions {
	restored := ""
	if declared != nil {
		restored = compile.StoredStatus(declared).LogicVersion
	}
	return composite.NewLogicVersions(cmp.Or(compiled.Former(), compiled.Programs[0].Version), restored)
}

// followLogicVersion sets the version that responses have, and says when it changes or cannot be followed.
func (cs *Set) followLogicVersion(e *controllerEntry, status *setpoint.ControllerStatus) {
	r := e.running
	if r == nil || r.logicVersions == nil || e.object == nil {
		return
	}
	// What runs counts: spec.rollout may have been added or removed since, which restarts nothing.
	state := r.logicVersions.Settle(r.Programs[0].Version, time.Now())
	if state.Known {
		status.LogicVersion = state.Current
	}
	stable := conditionState{ok: state.Problem == "", reason: setpoint.ReasonLogicVersionStable}
	if !stable.ok {
		stable.reason, stable.message = setpoint.ReasonLogicVersionChanging, state.Problem
	}
	e.setProblemCondition(status, setpoint.ConditionLogicVersionStable, stable)
	if state.Before != "" {
		message := fmt.Sprintf("responses have logicVersion %q, before %q: objects with another one are reconciled again",
			state.Current, state.Before)
		cs.Events.Event(e.object, hook.Event{Type: corev1.EventTypeNormal, Reason: setpoint.ReasonLogicVersionChanged,
			Message: message})
	}
}

// queueOlder queues objects that a hook of an older version has reconciled. It is called each second.
func (cs *Set) queueOlder(r *runningController) {
	if r == nil {
		return
	}
	left := cmp.Or(perSecond(cs.registry.policy(r)), setpoint.DefaultParentsPerSecond)
	for _, w := range r.workers {
		if c, is := w.(*composite.Controller); is && left > 0 {
			left = c.QueueOlder(left)
		}
	}
}
