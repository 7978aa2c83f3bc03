package apiserver

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Slot is a name of a state: the object that has it, and what is left of those that had it before.
type Slot struct {
	Kind            object.GroupKind
	Namespace, Name string
	// Object is nil if no object has the name now.
	Object *object.Object
	// Born counts the objects that had the name, Written is the last resource version under the name.
	Born, Written uint64
}

// Slots iterates over all names, in the same order for the same names.
func (s *State) Slots() iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		for _, shelf := range s.shelves {
			for _, at := range shelf {
				one := Slot{Kind: at.kind.GroupKind(), Namespace: at.namespace, Name: at.name, Born: at.born, Written: at.written}
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
		k := s.groups[one.Kind]
		if k == nil {
			continue // The kind is not served, so no state of this server had the slot.
		}
		at := &slot{kind: k, namespace: one.Namespace, name: one.Name, born: one.Born, written: one.Written}
		if one.Object != nil {
			at.stored = s.restored(k, one.Object)
		}
		i, _ := state.shelves[k.shelf].search(one.Namespace, one.Name)
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
