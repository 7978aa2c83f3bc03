package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

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
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// rollouts moves the parents of controllers to changed hooks, step by step, and follows the versions in responses.
type rollouts struct {
	*Dependencies
	declared *declarations
	registry *registry
	queue    *queue.Queue
}

// restore moves the parents of a starting controller as far as the stored status says. It returns false if
// the context ends first, or if the controller was compiled for another rollout.
func (m *rollouts) restore(ctx context.Context, key queue.Key, r *runningController) bool {
	if r.assignment == nil {
		return true
	}
	resource, gone := m.declared.kinds[key.Namespace].Resource, false
	done := retryUntil(ctx, func(ctx context.Context) bool {
		// The cache of a new leader may be behind what the leader before stored.
		stored, err := m.writer().Get(ctx, resource, "", key.Name)
		gone = apply.NotFound(err)
		cached := m.declared.get(key)
		return gone || err == nil && cached != nil && cached.Version() >= stored.Version()
	})
	return done && !gone && m.setPosition(key, r)
}

// setPosition moves parents as far as the stored status says. It compiles the controller again if that was compiled
// with another version for the parents that have not moved.
func (m *rollouts) setPosition(key queue.Key, r *runningController) bool {
	r.moving.Lock()
	defer r.moving.Unlock()
	stored := m.declared.get(key)
	if stored == nil {
		return false
	}
	status := compile.StoredStatus(stored).Rollout
	spec, position := m.registry.policy(r), rollout.End
	if spec != nil {
		if former := rollout.Former(status, spec.Version); former != "" && former != r.Former() {
			r.outdatedLogic.Store(true)
			m.queue.Add(key, queue.Cause{Kind: queue.LogicChanged})
			return false
		}
		position = rollout.Position(status, spec.Version)
	}
	if r.assignment == nil {
		return true
	}
	r.assignment.SetShadow(spec != nil && rollout.Compares(status, spec.Version), perSecond(spec))
	if before := r.assignment.SetPosition(position); before != position {
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
	for _, c := range workersOf[*composite.Controller](r) {
		c.Router.QueueMoved(from, to, perSecond(spec))
	}
}

// setRollbackWhen replaces the condition of a rollback. If it is another one, it is evaluated for all moved parents.
func (r *runningController) setRollbackWhen(before *compile.Rollout) {
	if r.assignment == nil {
		return
	}
	var when router.When
	if r.Rollout != nil {
		when = r.Rollout.When
	}
	r.assignment.SetWhen(when)
	if before != nil && r.Rollout != nil && before.Spec.Rollback.When != r.Rollout.Spec.Rollback.When {
		r.queueMoved(0, r.assignment.Position(), r.Rollout)
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
	if r == nil || r.assignment == nil || status == nil || status.Phase == setpoint.RolloutComplete {
		return all
	}
	for _, c := range workersOf[rollingWorker](r) {
		all.Add(c.Rollout())
	}
	all.Shadow.Held = r.deletions.WouldHold(all.Shadow.Removals())
	return all
}

// advance sets the next status of the rollout of a running controller.
func (m *rollouts) advance(ctx context.Context, e *controllerEntry, status *setpoint.ControllerStatus, stored *object.Object,
	observed rollout.Observed) {
	r := e.running
	if r == nil || e.object == nil {
		return
	}
	policy := m.registry.policy(r)
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
		if err := m.revisions().Put(ctx, stored, policy); err != nil {
			next = rollout.NotStored(before, err)
		}
	}
	next.Namespace, status.Rollout = m.Namespace, next
	ok, reason, message := rollout.Condition(policy.Spec, next)
	meta.SetStatusCondition(&status.Conditions, conditionState{ok, reason, message}.condition(setpoint.ConditionProgressing,
		e.object.Generation()))
}

// carryOut moves parents as far as the stored status says.
func (m *rollouts) carryOut(key queue.Key, e *controllerEntry) {
	if e.running == nil || !m.setPosition(key, e.running) || e.running.assignment == nil {
		return
	}
	for _, c := range workersOf[*composite.Controller](e.running) {
		c.Router.QueueShadow()
	}
}

// recordStep records an event for each transition of a rollout. Its message may change without one.
func (m *rollouts) recordStep(e *controllerEntry, previous, now setpoint.ControllerStatus) {
	before, after := meta.FindStatusCondition(previous.Conditions, setpoint.ConditionProgressing),
		meta.FindStatusCondition(now.Conditions, setpoint.ConditionProgressing)
	if after == nil || before == nil || before.Reason == after.Reason && rollout.SameStep(previous.Rollout, now.Rollout) {
		return
	}
	event := hook.Event{Type: corev1.EventTypeNormal, Reason: after.Reason, Message: after.Message}
	if after.Reason == setpoint.ReasonRolledBack || after.Reason == setpoint.ReasonRolloutBlocked {
		event.Type = corev1.EventTypeWarning
	}
	m.Events.Event(e.object, event)
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

// newReported returns what follows the versions in responses. It knows the one that counted before a restart.
func newReported(compiled *compile.Compiled, declared *object.Object) *router.Reported {
	restored := ""
	if declared != nil {
		restored = compile.StoredStatus(declared).LogicVersion
	}
	return router.NewReported(cmp.Or(compiled.Former(), compiled.Programs[0].Version), restored)
}

// followLogicVersion sets the version that responses have, and says when it changes or cannot be followed.
func (m *rollouts) followLogicVersion(e *controllerEntry, status *setpoint.ControllerStatus) {
	r := e.running
	if r == nil || r.reported == nil || e.object == nil {
		return
	}
	// What runs counts: spec.rollout may have been added or removed since, which restarts nothing.
	state := r.reported.Settle(r.Programs[0].Version, time.Now())
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
		m.Events.Event(e.object, hook.Event{Type: corev1.EventTypeNormal, Reason: setpoint.ReasonLogicVersionChanged,
			Message: message})
	}
}

// queueOlder queues objects that a hook of an older version has reconciled. It is called each second.
func (m *rollouts) queueOlder(r *runningController) {
	if r == nil {
		return
	}
	left := cmp.Or(perSecond(m.registry.policy(r)), setpoint.DefaultParentsPerSecond)
	for _, w := range r.workers {
		if c, is := w.(*composite.Controller); is && left > 0 {
			left = c.Router.QueueOlder(left)
		}
	}
}
