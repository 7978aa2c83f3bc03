package controllers

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Objects returns the objects of a controller.
func (cs *Set) Objects(controller string, q inspect.Query) (inspect.Page, error) {
	r := cs.snapshot(controller)
	if r == nil {
		return inspect.Page{}, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	var all []inspect.ManagedObject
	if r.running != nil {
		for _, w := range r.running.objectWorkers() {
			for _, objectState := range w.ObjectStates() {
				all = append(all, inspect.ManagedObject{Resource: w.Resource(), ObjectState: objectState})
			}
		}
	}
	page := inspect.NewPage(all, q)
	for i := range page.Objects {
		page.Objects[i].Controller, page.Objects[i].Process = controller, cs.Process
	}
	return page, nil
}

// States returns what controllers know of an object, sorted by their names.
func (cs *Set) States(ref object.Ref) []inspect.ObjectState {
	all := []inspect.ObjectState{}
	key := queue.Key{Namespace: ref.Namespace, Name: ref.Name}
	for _, r := range cs.registry.running() {
		for _, w := range r.objectWorkers() {
			if !matchesKind(ref, object.KindOf(w.Resource())) {
				continue
			}
			objectState, ours := w.ObjectState(key)
			if !ours || ref.UID != "" && ref.UID != objectState.Object.UID() {
				continue
			}
			words := (&inspect.ManagedObject{Resource: w.Resource(), ObjectState: objectState}).View()
			words.Controller, words.Process, words.ChildStates = r.Name(), cs.Process, childrenOf(w, objectState.Object)
			all = append(all, words)
		}
	}
	all = append(all, cs.suspended(ref)...)
	slices.SortFunc(all, func(a, b inspect.ObjectState) int { return cmp.Compare(a.Controller, b.Controller) })
	return all
}

// suspended returns the suspended controllers of a kind.
func (cs *Set) suspended(ref object.Ref) (all []inspect.ObjectState) {
	for _, one := range cs.snapshots() {
		if one.suspended && slices.ContainsFunc(one.kinds.managed, func(k object.Kind) bool { return matchesKind(ref, k) }) {
			all = append(all, inspect.ObjectState{Ref: ref, State: inspect.StateUnknown, Suspended: true, Controller: one.name,
				Process: cs.Process})
		}
	}
	return all
}

// matchesKind reports whether a reference is of a kind, in any version.
func matchesKind(ref object.Ref, k object.Kind) bool {
	return ref.Group == k.Group && (ref.Kind.Kind == k.Kind || ref.Kind.Kind == "" && ref.Plural == k.Plural)
}

func childrenOf(w objectWorker, o *object.Object) []inspect.Child {
	family := []inspect.Child{}
	family = append(family, lists.Map(w.Children(o), inspect.ChildOf)...)
	return family
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

// objectWorkers returns the workers that manage objects.
func (r *runningController) objectWorkers() []objectWorker {
	var all []objectWorker
	for _, w := range r.workers {
		if c, states := w.(objectWorker); states {
			all = append(all, c)
		}
	}
	return all
}
