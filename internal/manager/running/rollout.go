package running

import (
	"cmp"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/rollout"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// Policy returns the rollout that the spec declares; nil for none.
func (c *Controller) Policy() *compile.Rollout { return c.Snapshot().Rollout }

// Snapshot returns what runs, with the current rollout.
func (c *Controller) Snapshot() *compile.Compiled {
	c.policy.Lock()
	defer c.policy.Unlock()
	return new(*c.Compiled)
}

// SetPolicy replaces the rollout that the spec declares. It restarts nothing.
func (c *Controller) SetPolicy(next *compile.Rollout) {
	c.policy.Lock()
	before := c.Rollout
	c.Rollout = next
	c.policy.Unlock()
	c.setRollbackWhen(before)
}

// setRollbackWhen sets the condition of a rollback. If the policy before had another one, it is evaluated for all moved
// parents.
func (c *Controller) setRollbackWhen(before *compile.Rollout) {
	if c.Assignment == nil {
		return
	}
	var when router.When
	now := c.Policy()
	if now != nil {
		when = now.When
	}
	c.Assignment.SetWhen(when)
	if before != nil && now != nil && before.Spec.Rollback.When != now.Spec.Rollback.When {
		c.queueMoved(0, c.Assignment.Position(), now)
	}
}

// SetPosition moves parents as far as the status of the stored object says. It returns false if there is none, or if the
// controller was compiled with another version for the parents that have not moved: see Outdated.
func (c *Controller) SetPosition(stored func() *object.Object) bool {
	c.moving.Lock()
	defer c.moving.Unlock()
	declared := stored()
	if declared == nil {
		return false
	}
	status := compile.StoredStatus(declared).Rollout
	spec, position := c.Policy(), rollout.End
	if spec != nil {
		if previous := rollout.Former(status, spec.Version); previous != "" && previous != c.Former() {
			c.outdated.Store(true)
			return false
		}
		position = rollout.Position(status, spec.Version)
	}
	if c.Assignment == nil {
		return true
	}
	c.Assignment.SetShadow(spec != nil && rollout.Compares(status, spec.Version), perSecond(spec))
	if before := c.Assignment.SetPosition(position); before != position {
		c.queueMoved(before, position, spec)
	}
	return true
}

// Outdated reports whether the version of the parents that have not moved is another one by now, so that the controller
// has to be compiled again.
func (c *Controller) Outdated() bool { return c.outdated.Load() }

// perSecond is how many parents are reconciled in a second because of a rollout; 0 for no limit.
func perSecond(spec *compile.Rollout) int {
	if spec == nil {
		return 0
	}
	return rollout.ParentsPerSecond(spec.Spec)
}

// queueMoved queues the parents between two positions, as fast as spec.rollout says.
func (c *Controller) queueMoved(from, to int64, spec *compile.Rollout) {
	for _, w := range workersOf[*composite.Controller](c) {
		w.Router.QueueMoved(from, to, perSecond(spec))
	}
}

// QueueShadow queues the parents for which versions are to be compared.
func (c *Controller) QueueShadow() {
	if c.Assignment == nil {
		return
	}
	for _, w := range workersOf[*composite.Controller](c) {
		w.Router.QueueShadow()
	}
}

// QueueOlder queues objects that a hook of an older version has reconciled. It is called each second.
func (c *Controller) QueueOlder() {
	left := cmp.Or(perSecond(c.Policy()), setpoint.DefaultParentsPerSecond)
	for _, w := range workersOf[*composite.Controller](c) {
		if left > 0 {
			left = w.Router.QueueOlder(left)
		}
	}
}

// rolloutEquivalent reports whether the versions of a controller are those that run already.
func (c *Controller) rolloutEquivalent(compiled *compile.Compiled) bool {
	if c.Outdated() {
		return false
	}
	if now, next := c.Policy(), compiled.Rollout; now != nil && next != nil && now.Version != next.Version {
		return false
	}
	return compiled.Former() == "" || compiled.Former() == c.Former()
}

// ObserveRollout returns what is known of the parents, if a rollout with this status needs it.
func (c *Controller) ObserveRollout(status *setpoint.RolloutStatus) (all rollout.Observed) {
	if c.Assignment == nil || status == nil || status.Phase == setpoint.RolloutComplete {
		return all
	}
	for _, w := range workersOf[interface{ Rollout() rollout.Observed }](c) {
		all.Add(w.Rollout())
	}
	all.Shadow.Held = c.Deletions.WouldHold(all.Shadow.Removals())
	return all
}

// newReported returns what follows the versions in responses. It knows the one that counted before a restart.
func newReported(compiled *compile.Compiled, declared *object.Object) *router.Reported {
	restored := ""
	if declared != nil {
		restored = compile.StoredStatus(declared).LogicVersion
	}
	return router.NewReported(cmp.Or(compiled.Former(), compiled.Programs[0].Version), restored)
}

// LogicVersion returns what is known of the version in responses; false without hooks. What runs counts: spec.rollout may
// have been added or removed since, which restarts nothing.
func (c *Controller) LogicVersion() (state router.ReportedState, known bool) {
	if c.Reported == nil {
		return state, false
	}
	return c.Reported.Settle(c.Programs[0].Version, time.Now()), true
}
