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
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
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

// inspection is what metrics, the dashboard and setpoint get read of controllers.
type inspection struct {
	*Dependencies
	declared *declarations
	registry *registry
}

// snapshots returns all controllers, sorted by name.
func (v *inspection) snapshots() []controllerSnapshot {
	members := v.registry.all()
	all := make([]controllerSnapshot, 0, len(members))
	for key, e := range members {
		now := v.registry.copyOf(e)
		s := controllerSnapshot{name: key.String(), controllerState: now.controllerState}
		if kind := v.declared.kinds[key.Namespace]; kind != nil {
			s.resource = kind.Resource
			if s.stored = v.declared.get(key); s.stored != nil {
				s.previous, s.crd = now.lastReported.previous(s.stored), v.crdCondition(kind)
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b controllerSnapshot) int { return cmp.Compare(a.name, b.name) })
	return all
}

// snapshot returns a controller by its name; nil if there is none.
func (v *inspection) snapshot(name string) *controllerSnapshot {
	for _, one := range v.snapshots() {
		if one.name == name {
			return &one
		}
	}
	return nil
}

// Has reports whether there is a controller with a name.
func (v *inspection) Has(name string) bool { return v.snapshot(name) != nil }

// Inspect returns what others see of all controllers, sorted by name.
func (v *inspection) Inspect() []inspect.Controller {
	all := []inspect.Controller{}
	for _, one := range v.snapshots() {
		all = append(all, v.controller(&one))
	}
	return all
}

// controller converts a snapshot.
func (v *inspection) controller(one *controllerSnapshot) inspect.Controller {
	c := inspect.Controller{
		Name: one.name, Process: v.Process, Description: []string{},
		Notes: one.notes, Suspended: one.suspended, Reviews: one.resource.Kind == setpoint.AdmissionControllerKind,
		Calls: v.History.Calls(one.name), Series: v.History.Series(one.name, time.Now()),
	}
	if one.object != nil {
		declared := inspect.RefOf(one.resource, one.object)
		c.Declared = &declared
	}
	health, _ := one.health()
	kinds := one.kinds
	if r := one.running; r != nil {
		kinds = kindsOf(r.Compiled)
		c.RelatedKinds = lists.Union(nil, lists.Map(r.relatedResources(), object.KindOf))
		c.Reviews, c.AllReplicas = r.Admission != nil, r.allReplicas()
		c.Description = inspect.Describe(inspect.Programs{Hooks: r.Programs, Handlers: r.Handlers, Reviews: r.Admission,
			Addresses: r.HookAddresses})
	}
	c.Kinds, c.Children, c.RevisionKinds = append([]object.Kind{}, kinds.managed...), kinds.written, kinds.history
	c.Objects, c.Owned, c.Failing = health.Parents, health.Children, health.Failing
	c.Paused, c.Conflicting, c.HeldDeletions, c.AllowDeletions = health.Paused, health.Conflicting, health.Held.Count, health.Held.Value
	if v.knowsQueue(c.AllReplicas) {
		c.Queue.Add(health.Queue)
	}
	c.Rollout, c.LogicVersion = one.previous.Rollout, one.previous.LogicVersion
	if last := health.LastError; !last.Time.IsZero() {
		c.Last = &last
	}
	c.Conditions = v.conditions(one, health)
	if v.isStandby(one) {
		applyLeaderStatus(&c, one)
	}
	return c
}

// knowsQueue reports whether the queue of a controller is that of its work: a standby replica has all
// objects queued. Every replica serves webhooks.
func (v *inspection) knowsQueue(allReplicas bool) bool {
	return !v.Leader.Enabled || v.Leader.Leads() || allReplicas
}

// allReplicas reports whether every replica does what the controller does: it has only webhooks.
func (r *runningController) allReplicas() bool { return len(r.Programs)+len(r.Handlers) == 0 }

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

// conditions returns the reported conditions in a standby replica, else current ones.
func (v *inspection) conditions(one *controllerSnapshot, health controller.Health) []inspect.Condition {
	switch {
	case v.isStandby(one):
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
			Ready: one.overallCondition(health).ok, Conditions: v.conditions(&one, health),
			QueueKnown: v.knowsQueue(one.running != nil && one.running.allReplicas()),
		}
		if runs {
			gauges.Health = &health
		}
		gauges.Rollout = rolloutGauges(&one.previous)
		all[one.name] = gauges
	}
	return all
}

// Health returns the health of the running controllers by name.
func (v *inspection) Health() map[string]controller.Health {
	all := map[string]controller.Health{}
	for _, r := range v.registry.running() {
		all[r.Name()] = r.health()
	}
	return all
}

// Objects returns the objects of a controller.
func (v *inspection) Objects(controller string, q inspect.Query) (inspect.Page, error) {
	r := v.snapshot(controller)
	if r == nil {
		return inspect.Page{}, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	var all []inspect.ManagedObject
	if r.running != nil {
		for _, w := range workersOf[objectWorker](r.running) {
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

// States returns what controllers know of an object, sorted by their names.
func (v *inspection) States(ref object.Ref) []inspect.ObjectState {
	all := []inspect.ObjectState{}
	key := queue.Key{Namespace: ref.Namespace, Name: ref.Name}
	for _, r := range v.registry.running() {
		for _, w := range workersOf[objectWorker](r) {
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
			all = append(all, inspect.ObjectState{Ref: ref, State: inspect.StateUnknown, Suspended: true, Controller: one.name,
				Process: v.Process})
		}
	}
	slices.SortFunc(all, func(a, b inspect.ObjectState) int { return cmp.Compare(a.Controller, b.Controller) })
	return all
}

// matchesKind reports whether a reference is of a kind, in any version.
func matchesKind(ref object.Ref, k object.Kind) bool {
	return ref.Group == k.Group && (ref.Kind.Kind == k.Kind || ref.Kind.Kind == "" && ref.Plural == k.Plural)
}

// objectWorker is a worker that manages objects.
type objectWorker interface {
	worker
	// Resource is the kind of the objects.
	Resource() object.Resource
	// ObjectStates returns the state of each object, ObjectState that of one.
	ObjectStates() []record.ObjectState
	ObjectState(key queue.Key) (record.ObjectState, bool)
	// Children returns the children of an object.
	Children(o *object.Object) []record.Child
}

// controllerKinds are the kinds of a controller's objects, those of the children and other
// objects that it may write, and those of owned objects in which it stores history.
type controllerKinds struct{ managed, written, history []object.Kind }

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

// relatedResources returns the kinds of the related objects that a controller watches.
func (r *runningController) relatedResources() []object.Resource {
	var all []object.Resource
	for _, w := range workersOf[interface{ RelatedKinds() []object.Resource }](r) {
		all = append(all, w.RelatedKinds()...)
	}
	return all
}

// Digest returns the digest of the state of all controllers and of leadership.
func (v *inspection) Digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, v.Leader.Leads())
	for _, one := range v.snapshots() {
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
