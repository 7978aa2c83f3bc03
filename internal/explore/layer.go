package explore

import (
	"cmp"
	"fmt"
	"slices"
)

// notes are what a report says besides violations.
type notes struct {
	// rests counts the states of rest; failing those in which a run fails, with the first error.
	rests, failing int
	failure        string
	// renewing is set if what is stored goes on changing because pods end and are replaced.
	renewing bool
}

// add adds the notes of another layer.
func (n *notes) add(more notes) {
	n.rests, n.failing = n.rests+more.rests, n.failing+more.failing
	n.failure, n.renewing = cmp.Or(n.failure, more.failure), n.renewing || more.renewing
}

// checkLayer checks what the graph of a layer shows.
func (s *search) checkLayer() {
	s.notes[s.layer] = notes{}
	layer := s.layers[s.layer]
	parts := s.componentsOf(layer, s.isNatural)
	for _, members := range s.bottoms(&parts) {
		s.checkBottom(members)
	}
	s.checkRecreation()
	s.checkQuiet(&parts, layer)
	s.graphChecked = true
}

// byDepth orders nodes by the length of the way to them.
func (s *search) byDepth(a, b uint32) int {
	if order := int(s.nodes[a].depth) - int(s.nodes[b].depth); order != 0 {
		return order
	}
	return int(a) - int(b)
}

// checkBottom checks states that nothing but an edit, a crash or a fault leads out of. It is rest if what is stored
// stays the same: runs that write nothing may go on.
func (s *search) checkBottom(members []uint32) {
	at := s.nodes[members[0]].state.stored
	if !slices.ContainsFunc(members, func(id uint32) bool { return s.nodes[id].state.stored != at }) {
		s.rested(members[0])
		return
	}
	inside := map[uint32]bool{}
	for _, id := range members {
		inside[id] = true
	}
	if cycle := s.cycleIn(members, inside); cycle != nil {
		s.neverRests(cycle)
		return
	}
	// It rests as long as no pod ends: new pods replace those that do.
	s.notes[s.layer].renewing = true
	parts := s.componentsOf(members, s.keepsPods)
	for _, some := range s.bottoms(&parts) {
		s.rested(some[0])
	}
}

// rested checks a state of rest.
func (s *search) rested(id uint32) {
	s.notes[s.layer].rests++
	s.rests[s.nodes[id].state.stored] = true
	s.checkRest(id)
}

// neverRests records that states follow each other for ever.
func (s *search) neverRests(cycle []uint32) {
	nodes := s.path(cycle[0])
	written := map[string]bool{}
	for i, id := range cycle[1:] {
		if e := s.effects.at(s.edgeBetween(cycle[i], id).effect); e.name != nil {
			written[e.name.ref.String()] = true
		}
	}
	f := finding{property: Settles, text: fmt.Sprintf("it never comes to rest: the last %d steps repeat for ever, with writes of %s",
		len(cycle)-1, list(written))}
	s.violated(f, append(nodes, cycle[1:]...), -1).repeats = len(cycle) - 1
}

// cycleIn returns a cycle on which something is written, although no pod ends: a new pod for one that has ended is no
// unrest.
func (s *search) cycleIn(members []uint32, inside map[uint32]bool) []uint32 {
	for _, id := range members {
		if cycle := s.cycleWithWrite(id, inside); len(cycle) > 0 {
			return cycle
		}
	}
	return nil
}

// cycleWithWrite returns a shortest way from a state back to it on which something is written.
func (s *search) cycleWithWrite(from uint32, inside map[uint32]bool) []uint32 {
	type place struct {
		node  uint32
		wrote bool
	}
	way := shortest(place{node: from}, func(at place, visit visitor[place]) {
		for _, e := range s.nodes[at.node].edges {
			if inside[e.to] && s.keepsPods(e) {
				to := place{e.to, at.wrote || s.nodes[e.to].state.stored != s.nodes[at.node].state.stored}
				visit(to, to == place{from, true})
			}
		}
	})
	nodes := make([]uint32, len(way))
	for i, at := range way {
		nodes[i] = at.node
	}
	return nodes
}

// edgeBetween returns the first natural step between two nodes.
func (s *search) edgeBetween(from, to uint32) edge {
	for _, e := range s.nodes[from].edges {
		if e.to == to {
			return e
		}
	}
	return edge{}
}
