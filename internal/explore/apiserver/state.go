package apiserver

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// State is what is stored: an immutable value that shares all that did not change with the states it comes from.
type State struct {
	// shelves are the objects of each kind, at the index of the kind.
	shelves []shelf
	// writes counts the writes, as the resource version of lists.
	writes uint64
}

// shelf holds the objects of a kind, sorted by namespace and name.
type shelf []*slot

// slot is a name: the object that has it, and what is left of those that had it before. It never changes.
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

// Stored is a stored object. It never changes. One that is in two states is the same pointer.
type Stored struct {
	resource object.Resource
	// Object keeps its managed fields, which JSON leaves out.
	*object.Object
	content *content
}

// Resource returns the kind as it is stored.
func (s *Stored) Resource() object.Resource { return s.resource }

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
		if found := shelf.find(namespace, name); found != nil {
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
type Event struct {
	Old, New *Stored
	// Version is the resource version of the event, also of a removal.
	Version uint64
}

// Events returns the differences between two states of a server. An object that was replaced by another one with
// its name is first removed, then created.
func Events(before, after *State) []Event {
	var events []Event
	for i := range after.shelves {
		was, is := before.shelves[i], after.shelves[i]
		if len(was) == len(is) && (len(is) == 0 || &was[0] == &is[0]) {
			continue
		}
		for _, at := range is {
			var old *Stored
			if found := was.find(at.namespace, at.name); found != nil {
				old = found.stored
			}
			events = appendEvents(events, old, at)
		}
	}
	return events
}

func appendEvents(events []Event, before *Stored, at *slot) []Event {
	switch after := at.stored; {
	case before == after:
		return events
	case before != nil && after != nil && before.UID() != after.UID():
		return append(events, Event{Old: before, Version: at.written - 1}, Event{New: after, Version: at.written})
	}
	return append(events, Event{before, at.stored, at.written})
}

// find returns the slot of a name; nil if no object ever had it.
func (s shelf) find(namespace, name string) *slot {
	if i, found := s.search(namespace, name); found {
		return s[i]
	}
	return nil
}

func (s shelf) search(namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(s, name, func(at *slot, name string) int {
		if order := strings.Compare(at.namespace, namespace); order != 0 {
			return order
		}
		return strings.Compare(at.name, name)
	})
}

// find returns the slot of a name, an empty one if no object ever had it.
func (s *State) find(k *kind, namespace, name string) *slot {
	if found := s.shelves[k.shelf].find(namespace, name); found != nil {
		return found
	}
	return &slot{kind: k, namespace: namespace, name: name}
}

// with returns the state after a write.
func (s *State) with(at *slot) *State {
	was := s.shelves[at.kind.shelf]
	i, found := was.search(at.namespace, at.name)
	changed := make(shelf, 0, len(was)+1)
	changed = append(append(changed, was[:i]...), at)
	if found {
		i++
	}
	after := &State{shelves: slices.Clone(s.shelves), writes: s.writes + 1}
	after.shelves[at.kind.shelf] = append(changed, was[i:]...)
	return after
}

// Slot is a name of a state: the object that has it, and what is left of those that had it before.
type Slot struct {
	// Ref is an identity: group, kind, namespace and name.
	Ref object.Ref
	// Object is nil if no object has the name now.
	Object *object.Object
	// Born counts the objects that had the name, which makes their UIDs differ. Written is the last resource version under it.
	Born, Written uint64
}

// Slots iterates over all names, in the same order for the same names.
func (s *State) Slots() iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		for _, shelf := range s.shelves {
			for _, at := range shelf {
				kind := object.Kind{Group: at.kind.Group, Kind: at.kind.Kind}
				one := Slot{Ref: object.Ref{Kind: kind, Namespace: at.namespace, Name: at.name}, Born: at.born, Written: at.written}
				if at.stored != nil {
					one.Object = at.stored.Object
				}
				if !yield(one) {
					return
				}
			}
		}
	}
}

// Restore makes a state of its slots. A search renames versions that differ only by how often something was written.
func (s *Server) Restore(slots iter.Seq[Slot]) *State {
	state := &State{shelves: make([]shelf, len(s.groups))}
	for one := range slots {
		k := s.groups[one.Ref.GroupKind()]
		if k == nil {
			continue // The kind is not served, so no state of this server had the slot.
		}
		at := &slot{kind: k, namespace: one.Ref.Namespace, name: one.Ref.Name, born: one.Born, written: one.Written}
		if one.Object != nil {
			at.stored = s.restored(k, one.Object)
		}
		i, _ := state.shelves[k.shelf].search(one.Ref.Namespace, one.Ref.Name)
		state.shelves[k.shelf] = slices.Insert(state.shelves[k.shelf], i, at)
		state.writes += one.Written
	}
	return state
}

// restored returns what is stored as an object of an earlier state, which may have another resource version now.
func (s *Server) restored(k *kind, o *object.Object) *Stored {
	if known, found := s.restores.Get(o); found {
		return known.(*Stored) //nolint:forcetypeassert // The cache has nothing else.
	}
	stored := s.stored(k, s.contentOf(o), o.Version())
	s.restores.Add(o, stored)
	return stored
}

// contentOf returns the content of an object that this server stored, by cutting out the resource version.
func (s *Server) contentOf(o *object.Object) *content {
	data := o.JSONWithManagedFields()
	at := len(data)
	_ = object.Members(data, func(name, value []byte) error { // It is stored, so it is valid.
		if string(name) == `"metadata"` {
			at = len(data) - len(value)
		}
		return nil
	})
	member := fmt.Appendf(nil, `"resourceVersion":"%d",`, o.Version())
	if !bytes.HasPrefix(data[at:], member) {
		panic("restore " + o.Ref().String() + ": it is no object of this server")
	}
	return s.sharedContent(slices.Concat(data[:at], data[at+len(member):]), at)
}
