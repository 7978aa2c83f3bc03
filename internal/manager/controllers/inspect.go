package controllers

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// controllerSnapshot is the state of a controller at one moment.
type controllerSnapshot struct {
	controllerEntry
	// stored is the controller object in the cache; nil without one. previous is the status that was reported.
	stored   *object.Object
	previous setpoint.ControllerStatus
}

// inspection is what metrics, the dashboard and setpoint get read of controllers.
type inspection struct{ shared }

// snapshots returns all controllers, sorted by name.
func (v *inspection) snapshots() []controllerSnapshot {
	var all []controllerSnapshot
	for key, e := range v.registry.all() {
		s := controllerSnapshot{controllerEntry: e}
		if s.stored = v.declared.Get(key); s.stored != nil {
			s.previous = e.lastReported.Previous(s.stored)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b controllerSnapshot) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return all
}

// Has reports whether there is a controller with a name.
func (v *inspection) Has(name string) bool {
	_, exists := v.registry.named(name)
	return exists
}

// Controllers implements inspect.Source.
func (v *inspection) Controllers(context.Context) ([]inspect.Controller, error) {
	all := []inspect.Controller{}
	for _, one := range v.snapshots() {
		all = append(all, v.describe(&one))
	}
	return all, nil
}

// describe returns what others see of a controller.
func (v *inspection) describe(one *controllerSnapshot) inspect.Controller {
	name, resource := one.key.String(), v.declared.Resource(one.key)
	c := inspect.Controller{
		Name: name, Process: v.Process, Description: []string{},
		Notes: one.notes, Suspended: one.suspended, Reviews: resource.Kind == setpoint.AdmissionControllerKind,
		Calls: v.History.Calls(name), Series: v.History.Series(name, time.Now()),
	}
	if one.object != nil {
		declared := inspect.RefOf(resource, one.object)
		c.Declared = &declared
	}
	health, _ := one.health()
	kinds := one.kinds
	if r := one.running; r != nil {
		kinds = kindsOf(r.Compiled)
		c.RelatedKinds = lists.Union(nil, lists.Map(r.RelatedKinds(), object.KindOf))
		c.Reviews, c.AllReplicas = r.Admission != nil, r.AllReplicas()
		c.Description = inspect.Describe(inspect.Programs{Hooks: r.Programs, Handlers: r.Handlers, Reviews: r.Admission,
			Addresses: r.HookAddresses})
	}
	c.Kinds, c.Children, c.RevisionKinds = append([]object.Kind{}, kinds.managed...), kinds.written, kinds.history
	c.Objects, c.Owned, c.Failing = health.Parents, health.Children, health.Failing
	c.Paused, c.Conflicting, c.HeldDeletions, c.AllowDeletions = health.Paused, health.Conflicting, health.Held.Count, health.Held.Value
	if v.knowsQueue(one.running) {
		c.Queue.Add(health.Queue)
	}
	c.Rollout, c.LogicVersion = one.previous.Rollout, one.previous.LogicVersion
	if last := health.LastError; !last.Time.IsZero() {
		c.Last = &last
	}
	c.Conditions = v.conditionsOf(one, health)
	if v.isStandby(one) {
		applyLeaderStatus(&c, one)
	}
	return c
}

// knowsQueue reports whether the queue of a controller is that of its work: a standby replica has all objects queued. Every
// replica serves webhooks.
func (v *inspection) knowsQueue(r *running.Controller) bool {
	return !v.Leader.Enabled || v.Leader.Leads() || r != nil && r.AllReplicas()
}

// isStandby reports whether another replica runs a controller object and reports its status.
func (v *inspection) isStandby(one *controllerSnapshot) bool {
	return one.stored != nil && v.Leader.Enabled && !v.Leader.Leads()
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

// conditionsOf returns the reported conditions in a standby replica, else current ones.
func (v *inspection) conditionsOf(one *controllerSnapshot, health controller.Health) []inspect.Condition {
	var found []metav1.Condition
	switch accepted := one.accepted(health); {
	case v.isStandby(one):
		found = compile.StoredStatus(one.stored).Conditions
	case one.stored != nil && one.object != nil:
		found = one.currentStatus(one.previous, v.crdCondition(one.key)).Conditions
	default:
		found = append(found, accepted.condition("Accepted", 0), one.ready(accepted, health).condition("Ready", 0))
		if health.Held.Count > 0 {
			found = append(found, deletionsHeldCondition(one.key.String(), health.Held).condition("DeletionsHeld", 0))
		}
		if health.Conflicting > 0 {
			found = append(found, conflictCondition(health).condition(setpoint.ConditionConflicting, 0))
		}
	}
	return append([]inspect.Condition{}, lists.Map(found, func(c metav1.Condition) inspect.Condition {
		return inspect.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		}
	})...)
}

// ActiveStatusOwners returns the status owners of the running program that p is a copy of.
func (v *inspection) ActiveStatusOwners(p *composite.Program) []composite.StatusOwner {
	for _, r := range v.registry.running() {
		for _, working := range r.Programs {
			if working.Name == p.Name && working.Parent == p.Parent && working.Namespace == p.Namespace {
				return working.StatusOwners
			}
		}
	}
	return nil
}

// Gauges returns what metrics show of each controller, by name.
func (v *inspection) Gauges() map[string]serving.ControllerState {
	all := map[string]serving.ControllerState{}
	for _, one := range v.snapshots() {
		health, runs := one.health()
		gauges := serving.ControllerState{
			Ready: one.overallCondition(health).ok, Conditions: v.conditionsOf(&one, health), QueueKnown: v.knowsQueue(one.running),
			Rollout: one.previous.Rollout,
		}
		if runs {
			gauges.Health = &health
		}
		all[one.key.String()] = gauges
	}
	return all
}

// Healths returns the health of the running controllers by name.
func (v *inspection) Healths() map[string]controller.Health {
	all := map[string]controller.Health{}
	for _, r := range v.registry.running() {
		all[r.Name()] = r.Health()
	}
	return all
}

// Objects implements inspect.Source.
func (v *inspection) Objects(_ context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	entry, exists := v.registry.named(controller)
	if !exists {
		return inspect.Page{}, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	var all []inspect.ManagedObject
	if r := entry.running; r != nil {
		for _, w := range r.Workers {
			for _, objectState := range w.ObjectStates() {
				all = append(all, inspect.ManagedObject{Resource: w.Resource(), ObjectState: objectState})
			}
		}
	}
	page := inspect.NewPage(all, q)
	for i := range page.Objects {
		page.Objects[i].Controller, page.Objects[i].Process = controller, v.Process
	}
	return page, nil
}

// States implements inspect.Source. It sorts by the names of the controllers.
func (v *inspection) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	all := []inspect.ObjectState{}
	key := queue.Key{Namespace: ref.Namespace, Name: ref.Name}
	for _, r := range v.registry.running() {
		for _, w := range r.Workers {
			if !matchesKind(ref, object.KindOf(w.Resource())) {
				continue
			}
			objectState, ours := w.ObjectState(key)
			if !ours || ref.UID != "" && ref.UID != objectState.Object.UID() {
				continue
			}
			words := (&inspect.ManagedObject{Resource: w.Resource(), ObjectState: objectState}).View()
			words.Controller, words.Process = r.Name(), v.Process
			words.ChildStates = append([]inspect.Child{}, lists.Map(w.Children(objectState.Object), inspect.ChildOf)...)
			all = append(all, words)
		}
	}
	for _, one := range v.snapshots() {
		if one.suspended && slices.ContainsFunc(one.kinds.managed, func(k object.Kind) bool { return matchesKind(ref, k) }) {
			all = append(all, inspect.ObjectState{Ref: ref, State: inspect.StateUnknown, Suspended: true, Controller: one.key.String(),
				Process: v.Process})
		}
	}
	slices.SortFunc(all, func(a, b inspect.ObjectState) int { return cmp.Compare(a.Controller, b.Controller) })
	return all, nil
}

// matchesKind reports whether a reference is of a kind, in any version.
func matchesKind(ref object.Ref, k object.Kind) bool {
	return ref.Group == k.Group && (ref.Kind.Kind == k.Kind || ref.Kind.Kind == "" && ref.Plural == k.Plural)
}

func kindsOf(c *compile.Compiled) controllerKinds {
	managed, written, _ := c.Resources()
	kinds := controllerKinds{managed: uniqueKinds(slices.Concat(managed, c.AdmissionKinds)), written: uniqueKinds(written)}
	if slices.ContainsFunc(c.Programs, func(p composite.Program) bool { return p.Children.Rolling() }) {
		kinds.history = []object.Kind{object.KindOf(plan.ControllerRevisions)}
	}
	return kinds
}

// uniqueKinds returns sorted kinds without duplicates.
func uniqueKinds(resources []object.Resource) []object.Kind {
	kinds := append([]object.Kind{}, lists.Map(resources, object.KindOf)...)
	slices.SortFunc(kinds, func(a, b object.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(kinds)
}

// StateDigest returns the digest of the state of all controllers and of leadership.
func (v *inspection) StateDigest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, v.Leader.Leads())
	for _, one := range v.snapshots() {
		health, _ := one.health()
		maphash.WriteComparable(&h, fmt.Sprint(one.key, one.suspended, health.Parents, health.Children, health.Failing, health.Paused,
			health.Conflicting, health.Held))
		if one.stored != nil {
			maphash.WriteComparable(&h, one.stored.Version())
		}
		condition := one.accepted(health)
		maphash.WriteComparable(&h, condition)
		maphash.WriteComparable(&h, one.ready(condition, health))
	}
	return h.Sum64()
}

// digestSeed makes digests differ between processes.
var digestSeed = maphash.MakeSeed()
