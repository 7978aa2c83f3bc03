package apiserver

import (
	"iter"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// State is what is stored: an immutable value that shares all that did not change with the states it comes from.
type State struct {
	// shelves has the objects of a kind at the index of the kind, sorted by namespace and name.
	shelves [][]*slot
	// writes counts the writes, as the resource version of lists.
	writes uint64
}

// slot is a name: the object that has it, and what is left of the earlier ones. It never changes.
type slot struct {
	kind            *kind
	namespace, name string
	// born counts the objects that had the name, which makes their UIDs differ.
	born uint64
	// written is the last resource version under the name. Versions count the writes of one name, not of the
	// cluster: writes of different objects then lead to the same state in any order.
	written uint64
	// stored is nil if no object has the name.
	stored *Stored
}

// Stored is a stored object. It never changes: a pointer is its identity and its version.
type Stored struct {
	resource object.Resource
	// Object keeps its managed fields, which JSON leaves out.
	*object.Object
	fingerprint Fingerprint
}

// Resource returns the kind as it is stored.
func (s *Stored) Resource() object.Resource { return s.resource }

// Fingerprint returns a digest of all that is stored.
func (s *Stored) Fingerprint() Fingerprint { return s.fingerprint }

// Get returns the object of a name; nil if there is none.
func (s *State) Get(resource object.Resource, namespace, name string) *object.Object {
	if stored := s.Stored(resource, namespace, name); stored != nil {
		return stored.Object
	}
	return nil
}

// Stored returns what is stored under a name; nil if there is nothing.
func (s *State) Stored(resource object.Resource, namespace, name string) *Stored {
	for _, shelf := range s.shelves {
		if len(shelf) == 0 || shelf[0].kind.GroupKind() != resource.GroupKind() {
			continue
		}
		if found := slotOf(shelf, namespace, name); found != nil {
			return found.stored
		}
		return nil
	}
	return nil
}

// All iterates over all objects, in the same order for the same objects.
func (s *State) All() iter.Seq2[object.Resource, *object.Object] {
	return func(yield func(object.Resource, *object.Object) bool) {
		for stored := range s.AllStored() {
			if !yield(stored.resource, stored.Object) {
				return
			}
		}
	}
}

// AllStored is All with the identities of the objects.
func (s *State) AllStored() iter.Seq[*Stored] {
	return func(yield func(*Stored) bool) {
		for _, shelf := range s.shelves {
			for _, at := range shelf {
				if at.stored != nil && !yield(at.stored) {
					return
				}
			}
		}
	}
}

// Event is a difference between two states: an object that was created (no Old), changed, or removed (no New).
type Event struct{ Old, New *Stored }

// Events returns the differences between two states of a server. An object that was replaced by another one with
// its name is first removed, then created.
func Events(before, after *State) []Event {
	var events []Event
	for i, shelf := range after.shelves {
		if len(shelf) == 0 || len(before.shelves[i]) == len(shelf) && &before.shelves[i][0] == &shelf[0] {
			continue
		}
		for _, at := range shelf {
			var old *Stored
			if was := slotOf(before.shelves[i], at.namespace, at.name); was != nil {
				old = was.stored
			}
			events = appendEvents(events, old, at.stored)
		}
	}
	return events
}

func appendEvents(events []Event, before, after *Stored) []Event {
	switch {
	case before == after:
		return events
	case before != nil && after != nil && before.UID() != after.UID():
		return append(events, Event{Old: before}, Event{New: after})
	}
	return append(events, Event{before, after})
}

// slotOf returns the slot of a name; nil if no object ever had it.
func slotOf(shelf []*slot, namespace, name string) *slot {
	if i, found := search(shelf, namespace, name); found {
		return shelf[i]
	}
	return nil
}

func search(shelf []*slot, namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(shelf, name, func(at *slot, name string) int {
		if order := strings.Compare(at.namespace, namespace); order != 0 {
			return order
		}
		return strings.Compare(at.name, name)
	})
}

// find returns the slot of a name, an empty one if no object ever had it.
func (s *State) find(k *kind, namespace, name string) *slot {
	if found := slotOf(s.shelves[k.shelf], namespace, name); found != nil {
		return found
	}
	return &slot{kind: k, namespace: namespace, name: name}
}

// with returns the state after a write.
func (s *State) with(at *slot) *State {
	shelf := s.shelves[at.kind.shelf]
	i, found := search(shelf, at.namespace, at.name)
	changed := make([]*slot, 0, len(shelf)+1)
	changed = append(append(changed, shelf[:i]...), at)
	if found {
		i++
	}
	changed = append(changed, shelf[i:]...)
	after := &State{shelves: slices.Clone(s.shelves), writes: s.writes + 1}
	after.shelves[at.kind.shelf] = changed
	return after
}
