package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// checkRest checks a state in which nothing changes any more.
func (s *search) checkRest(id uint32) {
	at, way := s.unpack(s.nodes[id].state), s.path(id)
	s.violatedOn(way, Finalized, s.deletingAtRest(at))
	s.violatedOn(way, Owned, s.leftOver(at.stored))
	wrote, item, failure := s.workers[0].undesired(at)
	s.violatedOn(way, Desired, wrote)
	if failure != nil {
		s.notes[s.layer].add(notes{failing: 1, failure: failure.Error()})
		if !s.violates(Valid) { // Else a write that is refused for good, or a panic, is the failure.
			s.violatedOn(way, Reconciled, fmt.Sprintf("every reconcile of %s for %s fails: %v", item.Object, item.Controller, failure))
		}
	}
	for _, f := range s.broken(at.stored, true) {
		s.violated(f, way, -1)
	}
	if failure == nil {
		s.checkSameEnd(id, at)
	}
}

// checkSameEnd compares a state of rest with the first one that has the same specs. After faults, traces of them may
// remain, so only states without are compared.
func (s *search) checkSameEnd(id uint32, at state) {
	if at.spent.faults > 0 {
		return
	}
	var all []atRest
	for _, one := range at.stored.slots {
		if one.version != nil {
			all = append(all, atRest{one.version.object, one.version.body, s.seeds[one.name]})
		}
	}
	if first, difference := s.ends.add(id, all); difference != "" {
		f := finding{property: SameEnd, text: "with the same specs it also comes to rest otherwise: " + difference}
		s.violated(f, s.path(id), -1).other = first
	}
}

// deletingAtRest finds an object that is being deleted for ever, although nothing but finalizers holds it. Namespaces come
// last: what is in them holds them.
func (s *search) deletingAtRest(at state) string {
	var held *name
	for _, one := range at.stored.slots {
		switch {
		case one.version == nil || !one.version.object.Deleting():
		case s.workers[0].heldByOutage(at, one.name):
			return "" // What holds it may hold its namespace and its owner, too.
		case held == nil || held.ref.GroupKind() == object.Namespaces.GroupKind():
			held = one.name
		}
	}
	if held == nil {
		return ""
	}
	return fmt.Sprintf("%s is being deleted for ever; its finalizers: %s",
		held.ref, strings.Join(at.stored.get(held).version.object.Finalizers(), ", "))
}

// leftOver finds what runs have created and left behind: objects without an owner, though all objects are gone whose
// runs have created them.
func (s *search) leftOver(at *stored) string {
	for _, one := range at.slots {
		creators := s.creators[one.name]
		if one.version == nil || len(creators) == 0 || len(one.version.object.Field("metadata", "ownerReferences")) > 0 {
			continue
		}
		if !slices.ContainsFunc(creators, func(n *name) bool { return at.get(n).version != nil }) {
			return fmt.Sprintf("%s has no owner, and stays though %s is gone", one.name.ref, creators[0].ref)
		}
	}
	return ""
}

// noteCreator notes whose run has created an object.
func (s *search) noteCreator(e *effect) {
	if e.by != nil && !slices.Contains(s.creators[e.name], e.by) {
		s.creators[e.name] = append(s.creators[e.name], e.by)
	}
}

// suggested returns invariants that hold in what was explored without faults.
func (s *search) suggested() []Invariant {
	seen, looked := departures{}, map[[2]uint32]bool{}
	for i := range s.nodes {
		from := s.nodes[i].state.stored
		for _, e := range s.nodes[i].edges {
			to := &s.nodes[e.to].state
			if step := [2]uint32{from, to.stored}; to.spent.faults == 0 && !looked[step] {
				looked[step] = true
				seen.add(s.stores.at(from).raw(), s.stores.at(to.stored).raw())
			}
		}
	}
	return seen.invariants()
}
