package controllers

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// controllerSnapshot is the state of a controller at one moment.
type controllerSnapshot struct {
	name string
	controllerState
	// stored is the controller object in the cache; nil without one. previous is the status
	// that was reported, and crd the condition of its CRD.
	stored   *object.Object
	previous setpoint.ControllerStatus
	crd      conditionState
	resource object.Resource
}

// snapshots returns all controllers, sorted by name.
func (cs *Set) snapshots() []controllerSnapshot {
	members := cs.registry.all()
	all := make([]controllerSnapshot, 0, len(members))
	for key, e := range members {
		now := cs.registry.copyOf(e)
		s := controllerSnapshot{name: key.String(), controllerState: now.controllerState}
		if kind := cs.declared.kinds[key.Namespace]; kind != nil {
			s.resource = kind.Resource
			if s.stored = cs.declared.get(key); s.stored != nil {
				s.previous, s.crd = now.lastReported.previous(s.stored), cs.crdCondition(kind)
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b controllerSnapshot) int { return cmp.Compare(a.name, b.name) })
	return all
}

// snapshot returns a controller by its name; nil if there is none.
func (cs *Set) snapshot(name string) *controllerSnapshot {
	all := cs.snapshots()
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

// Has reports whether there is a controller with a name.
func (cs *Set) Has(name string) bool { return cs.snapshot(name) != nil }

// Inspect returns what others see of all controllers, sorted by name.
func (cs *Set) Inspect() []inspect.Controller {
	all := []inspect.Controller{}
	for _, one := range cs.snapshots() {
		all = append(all, cs.controller(&one))
	}
	return all
}

// controller converts a snapshot.
func (cs *Set) controller(one *controllerSnapshot) inspect.Controller {
	c := inspect.Controller{
		Name: one.name, Process: cs.Process, Description: []string{},
		Notes: one.notes, Suspended: one.suspended, Reviews: one.resource.Kind == setpoint.AdmissionControllerKind,
		Calls: cs.History.Calls(one.name), Series: cs.History.Series(one.name, time.Now()),
	}
	if one.object != nil {
		declared := inspect.RefOf(one.resource, one.object)
		c.Declared = &declared
	}
	health, _ := one.health()
	kinds := one.kinds
	if r := one.running; r != nil {
		kinds = kindsOf(r.Compiled)
		c.RelatedKinds = r.relatedKinds()
		c.Reviews, c.AllReplicas = r.Admission != nil, r.allReplicas()
		c.Description = inspect.Describe(inspect.Programs{Hooks: r.Programs, Handlers: r.Handlers, Reviews: r.Admission,
			Addresses: r.HookAddresses})
	}
	c.Kinds, c.Children, c.RevisionKinds = append([]object.Kind{}, kinds.managed...), kinds.written, kinds.history
	c.Objects, c.Owned, c.Failing = health.Parents, health.Children, health.Failing
	c.Paused, c.Conflicting, c.HeldDeletions, c.AllowDeletions = health.Paused, health.Conflicting, health.Held.Count, health.Held.Value
	if cs.knowsQueue(c.AllReplicas) {
		c.Queue.Add(health.Queue)
	}
	c.Rollout, c.LogicVersion = one.previous.Rollout, one.previous.LogicVersion
	c.Last = inspect.FailureOf(health.LastError)
	c.Conditions = cs.conditions(one, health)
	if cs.isStandby(one) {
		applyLeaderStatus(&c, one)
	}
	return c
}

// knowsQueue reports whether the queue of a controller is that of its work: a standby replica has all
// objects queued. Every replica serves webhooks.
func (cs *Set) knowsQueue(allReplicas bool) bool {
	return !cs.Leader.Enabled || cs.Leader.Leads() || allReplicas
}

// allReplicas reports whether every replica does what the controller does: it has only webhooks.
func (r *runningController) allReplicas() bool { return len(r.Programs)+len(r.Handlers) == 0 }

// isStandby reports whether another replica runs a controller object and reports its status.
func (cs *Set) isStandby(one *controllerSnapshot) bool {
	return one.stored != nil && cs.Leader.Enabled && !cs.Leader.Leads()
}

// applyLeaderStatus adds the status that the leader reported.
func applyLeaderStatus(c *inspect.Controller, one *controllerSnapshot) {
	reported := compile.StoredStatus(one.stored)
	c.Owned, c.Failing, c.Paused = int(reported.Children), int(reported.ParentsInError), int(reported.Paused)
	if held := reported.HeldDeletions; held != nil {
		c.HeldDeletions, c.AllowDeletions = int(held.Count), held.Value
	}
	if last := reported.LastError; last != nil {
		c.Last = &inspect.Failure{Message: last.Message, Object: last.Object, Time: last.Time.Time}
	}
}

// conditions returns the reported conditions in a standby replica, else current ones.
func (cs *Set) conditions(one *controllerSnapshot, health controller.Health) []inspect.Condition {
	switch {
	case cs.isStandby(one):
		return modelConditions(compile.StoredStatus(one.stored).Conditions)
	case one.stored != nil && one.object != nil:
		e := controllerEntry{controllerState: one.controllerState}
		return modelConditions(e.status(one.previous, one.crd).Conditions)
	}
	condition := one.accepted(health)
	findings := []metav1.Condition{condition.condition("Accepted", 0), readyCondition(condition, &one.controllerState,
		health).condition("Ready", 0)}
	if health.Held.Count > 0 {
		findings = append(findings, deletionsHeldCondition(one.name, health.Held).condition("DeletionsHeld", 0))
	}
	if health.Conflicting > 0 {
		findings = append(findings, conflictCondition(health).condition(setpoint.ConditionConflicting, 0))
	}
	return modelConditions(findings)
}

func modelConditions(all []metav1.Condition) []inspect.Condition {
	return append([]inspect.Condition{}, lists.Map(all, func(c metav1.Condition) inspect.Condition {
		return inspect.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		}
	})...)
}

// controllerKinds are the kinds of a controller's objects, those of the children and other
// objects that it may write, and those of owned objects in which it stores history.
type controllerKinds struct{ managed, written, history []object.Kind }

func kindsOf(c *compile.Compiled) controllerKinds {
	managed, written, _ := c.Resources()
	kinds := controllerKinds{managed: uniqueKinds(slices.Concat(managed, c.AdmissionKinds)), written: uniqueKinds(written)}
	if slices.ContainsFunc(c.Programs, func(p composite.Program) bool { return p.Children.Rolling() }) ||
		slices.ContainsFunc(c.Handlers, func(p handler.Program) bool { return p.KeepsPreviousState() }) {
		kinds.history = []object.Kind{object.KindOf(plan.ControllerRevisions)}
	}
	return kinds
}

// uniqueKinds returns sorted kinds without duplicates.
func uniqueKinds(resources []object.Resource) []object.Kind {
	kinds := []object.Kind{}
	kinds = append(kinds, lists.Map(resources, object.KindOf)...)
	slices.SortFunc(kinds, func(a, b object.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(kinds)
}

// relatedKinds returns the kinds of the related objects that a controller watches.
func (r *runningController) relatedKinds() []object.Kind {
	return lists.Union(nil, lists.Map(r.relatedResources(), object.KindOf))
}

func (r *runningController) relatedResources() []object.Resource {
	var all []object.Resource
	for _, w := range r.workers {
		if watching, related := w.(interface{ RelatedKinds() []object.Resource }); related {
			all = append(all, watching.RelatedKinds()...)
		}
	}
	return all
}

// Digest returns the digest of the state of all controllers and of leadership.
func (cs *Set) Digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, cs.Leader.Leads())
	for _, one := range cs.snapshots() {
		health, _ := one.health()
		maphash.WriteComparable(&h, fmt.Sprint(one.name, one.suspended, health.Parents, health.Children, health.Failing, health.Paused,
			health.Conflicting, health.Held))
		if one.stored != nil {
			maphash.WriteComparable(&h, one.stored.Version())
		}
		condition := one.accepted(health)
		maphash.WriteComparable(&h, condition)
		maphash.WriteComparable(&h, readyCondition(condition, &one.controllerState, health))
	}
	return h.Sum64()
}

// digestSeed makes digests differ between processes.
var digestSeed = maphash.MakeSeed()
