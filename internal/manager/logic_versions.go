package manager

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// newLogicVersions returns what follows the versions in responses. It knows the one that counted before a restart.
func newLogicVersions(compiled *compile.Compiled, declared *object.Object) *composite.LogicVersions {
	restored := ""
	if declared != nil {
		restored = storedStatus(declared).LogicVersion
	}
	return composite.NewLogicVersions(cmp.Or(compiled.Former(), compiled.Programs[0].Version), restored)
}

// followLogicVersion sets the version that responses have, and says when it changes or cannot be followed.
func (cs *controllerSet) followLogicVersion(e *controllerEntry, status *setpoint.ControllerStatus) {
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
		cs.manager.events.Event(e.object, hook.Event{Type: corev1.EventTypeNormal, Reason: setpoint.ReasonLogicVersionChanged,
			Message: message})
	}
}

// queueOlder queues objects that a hook of an older version has reconciled. It is called each second.
func (cs *controllerSet) queueOlder(r *runningController) {
	if r == nil {
		return
	}
	left := cmp.Or(perSecond(r.policy(cs)), setpoint.DefaultParentsPerSecond)
	for _, w := range r.workers {
		if c, is := w.(*composite.Controller); is && left > 0 {
			left = c.QueueOlder(left)
		}
	}
}
