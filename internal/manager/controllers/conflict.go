package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

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

// requeueConflicting enqueues controllers that conflict with this one, or did before it
// changed.
func (cs *Set) requeueConflicting(key queue.Key) {
	changed := cs.registry.state(key)
	cs.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key},
		func(other queue.Key, e *controllerEntry) bool {
			return other != key && affects(key, changed.running, e)
		})
}

// affects reports whether a change of one controller concerns another: a refused one may
// now run, one that yields its status may have to store it, a running one may conflict.
func affects(key queue.Key, changed *runningController, other *controllerEntry) bool {
	switch {
	case other.refusal != nil:
		return other.refused(setpoint.ReasonConflictingController)
	case other.running == nil:
		return false
	case other.running.yieldsStatusTo(key.String()):
		return true
	}
	return changed != nil && conflicts.Overlap(changed.Compiled, other.running.Compiled)
}

// yieldsStatusTo reports whether another controller stores the status of this one's parents.
func (r *runningController) yieldsStatusTo(name string) bool {
	return slices.ContainsFunc(r.Programs, func(p composite.Program) bool {
		return slices.ContainsFunc(p.StatusOwners, func(o composite.StatusOwner) bool { return o.Name == name })
	})
}

// otherInterval is how often a dev run looks for controllers of others.
const otherInterval = 10 * time.Second

// watchOthers looks for the controllers of others in a dev run, and enqueues its own that have to yield, or need
// not any more.
func (cs *Set) watchOthers(ctx context.Context) {
	if cs.Others.DevRun == "" {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := cs.Others.Refresh(ctx); err != nil {
			cs.Log.Debug("controllers of others not listed", "error", failure.Text(err))
			return
		}
		cs.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController"}, func(_ queue.Key, e *controllerEntry) bool {
			return e.refused(setpoint.ReasonConflictingController) ||
				e.running != nil && cs.Others.Check(e.rank, e.running.Compiled) != nil
		})
	}, otherInterval)
}

// watchMetacontrollers detects Metacontrollers periodically while there are controllers that
// they could run, and enqueues these when the result changes.
func (cs *Set) watchMetacontrollers(ctx context.Context) {
	concerned := func(key queue.Key, _ *controllerEntry) bool { return cs.declared.forMetacontroller(key) }
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if len(cs.registry.keys(concerned)) > 0 && cs.Metacontrollers.RefreshChanged(ctx) {
			cs.enqueue(queue.Cause{Kind: queue.RelatedChanged, Detail: conflicts.MetacontrollerName}, concerned)
		}
	}, conflicts.DetectInterval)
}
