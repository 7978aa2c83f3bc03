package composite

import (
	"context"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// run is one reconcile of one parent.
type run struct {
	*writes

	// logic is the version that is called for the parent.
	logic    controller.Logic
	status   parentStatus
	family   family
	relation relation
	// rollout is nil if no child rule is rolling.
	rollout     *rollingUpdate
	inputDigest uint64
	response    *hook.Response
	calls       int
	// nondeterminismErr is set if responses to the same request differ.
	nondeterminismErr error
	// unservedErr is set if the latest response has children of kinds that are not served any more.
	unservedErr error
	// initialChildren is how many children there were when the run started.
	initialChildren int
	// guarded is the decision about the deletions in the latest plan.
	guarded guard.Decision
	// updatedChildren is how many children were moved to the latest revision.
	updatedChildren int
}

func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered) *run {
	w := &writes{Controller: c, Run: of, memory: remembered.(*memory), planner: c.program.planner(of.Stored)}
	w.planner.Secrets = of.Secrets
	r := &run{
		writes: w, logic: c.Router.Of(of.Stored), status: parentStatus{writes: w, wanted: of.Stored}, family: family{writes: w},
	}
	r.relation = relation{writes: w, status: &r.status, family: &r.family, logic: r.logic}
	return r
}

// callsNothing reports whether no hook is called in the current phase.
func (r *run) callsNothing() bool { return r.Phase == controller.PhaseManaged && r.logic.Sync == nil }

// routed is the run as the router sees it.
func (r *run) routed() *router.Run {
	return &router.Run{Run: r.Run, Logic: r.logic, Children: func() ([]*object.Object, bool) {
		return r.family.observedChildren(), len(r.family.byKind) == len(r.program.Children)
	}}
}

// PhaseOf returns the phase of the parent for the version that the run calls, also if it moves meanwhile.
func (r *run) PhaseOf(parent *object.Object) controller.Phase {
	return r.program.phaseOf(parent, r.logic.Finalize != nil)
}

// Relate calls the customize hook for a parent, without a run: events of its related objects enqueue it
// from then on.
func (c *Controller) Relate(ctx context.Context, key queue.Key) error {
	parent := c.Get(key)
	if parent == nil || c.related == nil || c.PhaseOf(parent) == controller.PhaseIgnored {
		return nil
	}
	of, memory, _ := c.NewRun(queue.Item{Key: key}, parent)
	return of.Secrets.Error(c.newRun(of, memory).relation.findRelated(ctx))
}
