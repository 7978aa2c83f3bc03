package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// rollouts moves the parents of controllers to changed hooks, step by step, and follows the versions in responses.
type rollouts struct{ shared }

// restore moves the parents of a starting controller as far as the stored status says. It returns false if
// the context ends first, or if the controller was compiled for another rollout.
func (m *rollouts) restore(ctx context.Context, key queue.Key, r *running.Controller) bool {
	if r.Assignment == nil {
		return true
	}
	resource, gone := m.declared.Resource(key), false
	done := retryUntil(ctx, func(ctx context.Context) bool {
		// The cache of a new leader may be behind what the leader before stored.
		stored, err := m.Writer().Get(ctx, resource, "", key.Name)
		gone = apply.NotFound(err)
		cached := m.declared.Get(key)
		return gone || err == nil && cached != nil && cached.Version() >= stored.Version()
	})
	return done && !gone && m.setPosition(key, r)
}

// setPosition moves parents as far as the stored status says. It compiles the controller again if that was compiled
// with another version for the parents that have not moved.
func (m *rollouts) setPosition(key queue.Key, r *running.Controller) bool {
	done := r.SetPosition(func() *object.Object { return m.declared.Get(key) })
	if !done && r.Outdated() {
		m.queue.Add(key, queue.Cause{Kind: queue.LogicChanged})
	}
	return done
}

// advance sets the next status of the rollout of a running controller.
func (m *rollouts) advance(ctx context.Context, e *controllerEntry, status *setpoint.ControllerStatus, stored *object.Object,
	observed rollout.Observed) {
	if e.running == nil || e.object == nil {
		return
	}
	policy := e.running.Policy()
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
func (m *rollouts) carryOut(e *controllerEntry) {
	if e.running != nil && m.setPosition(e.key, e.running) {
		e.running.QueueShadow()
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

// followLogicVersion sets the version that responses have, and says when it changes or cannot be followed.
func (m *rollouts) followLogicVersion(e *controllerEntry, status *setpoint.ControllerStatus) {
	if e.running == nil || e.object == nil {
		return
	}
	state, known := e.running.LogicVersion()
	if !known {
		return
	}
	if state.Known {
		status.LogicVersion = state.Current
	}
	stable := conditionState{ok: state.Problem == "", reason: setpoint.ReasonLogicVersionStable}
	if !stable.ok {
		stable.reason, stable.message = setpoint.ReasonLogicVersionChanging, state.Problem
	}
	e.setProblemCondition(status, setpoint.ConditionLogicVersionStable, stable)
	if state.Before != "" {
		m.Events.Event(e.object, hook.Event{Type: corev1.EventTypeNormal, Reason: setpoint.ReasonLogicVersionChanged,
			Message: fmt.Sprintf("responses have logicVersion %q, before %q: objects with another one are reconciled again",
				state.Current, state.Before)})
	}
}
