package apiserver

import (
	"iter"

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
	state := &State{shelves: make([][]*slot, len(s.groups))}
	for one := range slots {
		k := s.groups[one.Kind]
		if k == nil {
			continue // The kind is not served, so no state of this server had the slot.
		}
		at := &slot{kind: k, namespace: one.Namespace, name: one.Name, born: one.Born, written: one.Written}
		if one.Object != nil {
			at.stored = s.restored(k, one.Object)
		}
		at = s.shared(at)
		i, _ := search(state.shelves[k.shelf], one.Namespace, one.Name)
		state.shelves[k.shelf] = append(state.shelves[k.shelf], nil)
		copy(state.shelves[k.shelf][i+1:], state.shelves[k.shelf][i:])
		state.shelves[k.shelf][i] = at
		state.writes += one.Written
	}
	return state
}

func (s *Server) restored(k *kind, o *object.Object) *Stored {
	return &Stored{resource: k.Resource, Object: o, fingerprint: NewFingerprint(o)}
}
