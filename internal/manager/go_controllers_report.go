package manager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// overallCondition returns Accepted if it is False, else Ready.
func (s *controllerState) overallCondition(health controller.Health) conditionState {
	understood := acceptedCondition(s.refusal, s.notes, health)
	if !understood.ok {
		return understood
	}
	return readyCondition(understood, s, health)
}

// states returns the states of all controllers.
func (cs *controllerSet) states() map[queue.Key]controllerState {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := make(map[queue.Key]controllerState, len(cs.entries))
	for key, e := range cs.entries {
		all[key] = e.controllerState
	}
	return all
}

// gauges returns what metrics show of each controller, by name.
func (cs *controllerSet) gauges() map[string]serving.ControllerState {
	all := map[string]serving.ControllerState{}
	read := source{cs.manager}
	for _, one := range cs.snapshots() {
		health, runs := one.health()
		gauges := serving.ControllerState{
			Ready: one.overallCondition(health).ok, Conditions: read.conditions(&one, health),
			QueueKnown: read.knowsQueue(one.running != nil && one.running.allReplicas()),
		}
		if runs {
			gauges.Health = &health
		}
		gauges.Rollout = rolloutGauges(&one.previous)
		all[one.name] = gauges
	}
	return all
}

// logGoControllers logs the conditions of a Go program's controllers when they change, since
// they have no status.
func (cs *controllerSet) logGoControllers(ctx context.Context) {
	logged := map[queue.Key]conditionState{}
	wait.UntilWithContext(ctx, func(context.Context) {
		for key, s := range cs.states() {
			health, _ := s.health()
			now := s.overallCondition(health)
			before := logged[key]
			logged[key] = now
			if now.changedFrom(before, s.running != nil) {
				cs.logCondition(key, now)
			}
		}
	}, reportEvery)
}

// changedFrom reports whether a change is worth a log line. Messages of running controllers
// may change with every object, so they do not count.
func (f conditionState) changedFrom(before conditionState, runs bool) bool {
	return f.ok != before.ok || f.reason != before.reason || !runs && f.message != before.message
}

func (cs *controllerSet) logCondition(key queue.Key, now conditionState) {
	switch {
	case now.ok:
		cs.manager.log.Info("controller ready", "controller", key.String())
	case now.reason == setpoint.ReasonStarting:
		cs.manager.log.Info("controller starting", "controller", key.String(), "message", now.message)
	default:
		cs.manager.log.Warn("controller not ready", "controller", key.String(), "reason", now.reason, "message", now.message)
	}
}

// goControllerError returns why a Go program is not ready although its caches are synced: a
// refused controller. Kinds that are not served yet do not count.
func (cs *controllerSet) goControllerError() error {
	states := cs.states()
	for _, own := range cs.manager.options.GoControllers {
		s := states[goControllerKey(own.Name)]
		if s.refusal != nil && !s.refused(setpoint.ReasonResourceNotFound) {
			return fmt.Errorf("%s: %w", own.Name, s.refusal)
		}
	}
	return nil
}
