package apiserver

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// State is what is stored. It never changes.
type State struct {
	// Slots are all names that objects have or had, sorted by CompareRefs.
	Slots []Slot
}

// Slot is a name: the object that has it, and what is left of those that had it before.
type Slot struct {
	// Ref is an identity: group, kind, namespace and name.
	Ref object.Ref
	// Object is nil if no object has the name now. It keeps its managed fields, which JSON leaves out. One that is in two
	// states is the same pointer.
	Object *object.Object
	// Born counts the objects that had the name, which makes their UIDs differ.
	Born uint64
	// Written is the last resource version under the name. Versions count the writes of one name, not of the
	// cluster: writes of different objects then lead to the same state in any order.
	Written uint64
}

// CompareRefs orders objects by group, kind, namespace and name.
func CompareRefs(a, b object.Ref) int {
	return cmp.Or(CompareKinds(a, b), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// CompareKinds orders objects by group and kind.
func CompareKinds(a, b object.Ref) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind.Kind, b.Kind.Kind))
}

// Get returns the object of a name; nil if there is none.
func (s *State) Get(resource object.Resource, namespace, name string) *object.Object {
	return s.At(resource.Ref(namespace, name)).Object
}

// At returns the slot of a name, an empty one if no object ever had it.
func (s *State) At(ref object.Ref) Slot {
	if i, found := s.search(ref); found {
		return s.Slots[i]
	}
	return Slot{Ref: ref.Identity()}
}

func (s *State) search(ref object.Ref) (int, bool) {
	return slices.BinarySearchFunc(s.Slots, ref, func(at Slot, ref object.Ref) int { return CompareRefs(at.Ref, ref) })
}

// Objects iterates over all objects.
func (s *State) Objects() iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		for i := range s.Slots {
			if o := s.Slots[i].Object; o != nil && !yield(o) {
				return
			}
		}
	}
}

// with returns the state after a write.
func (s *State) with(at Slot) *State {
	i, found := s.search(at.Ref)
	after := slices.Clone(s.Slots)
	if found {
		after[i] = at
	} else {
		after = slices.Insert(after, i, at)
	}
	return &State{after}
}
