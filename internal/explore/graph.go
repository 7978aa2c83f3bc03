package explore

import (
	"slices"
)

// graph is what a search has found: all states, and the steps between them.
type graph struct {
	nodes []node
	index map[packed]uint32
	// layers are the nodes by the number of edits, crashes and faults before them.
	layers [][]uint32
	steps  int
	// effect returns what a step means, by its number.
	effect func(id uint32) *effect
}

// node is a state that was found.
type node struct {
	state packed
	// parent is the node from which a shortest way leads here, and via the step of its expansion.
	parent uint32
	depth  uint32
	via    uint16
	// expanded is set once all steps from here are known.
	expanded bool
	edges    []edge
}

// edge is a step to another node.
type edge struct{ to, effect uint32 }

// noParent is the parent of the initial state.
const noParent = ^uint32(0)

func newGraph(initial state, layers int, effect func(id uint32) *effect) *graph {
	g := &graph{index: map[packed]uint32{}, layers: make([][]uint32, layers), effect: effect}
	g.add(initial.pack(), noParent, 0)
	return g
}

// add adds a node, unless the state is known, and reports whether it is new.
func (g *graph) add(at packed, parent uint32, via int) (id uint32, added bool) {
	if id, known := g.index[at]; known {
		return id, false
	}
	id = uint32(len(g.nodes))
	n := node{state: at, parent: parent, via: uint16(via)}
	if parent != noParent {
		n.depth = g.nodes[parent].depth + 1
	}
	g.nodes = append(g.nodes, n)
	g.index[at] = id
	layer := at.spent.total()
	g.layers[layer] = append(g.layers[layer], id)
	return id, true
}

// shorten records a shorter way to a node that is still to be expanded, and reports whether it is one.
func (g *graph) shorten(id, parent uint32, via int) bool {
	n := &g.nodes[id]
	if n.expanded || n.parent == noParent || n.depth <= g.nodes[parent].depth+1 {
		return false
	}
	n.parent, n.via, n.depth = parent, uint16(via), g.nodes[parent].depth+1
	return true
}

// path returns the nodes on a shortest way to a node, with both ends.
func (g *graph) path(to uint32) []uint32 {
	var nodes []uint32
	for ; to != noParent; to = g.nodes[to].parent {
		nodes = append(nodes, to)
	}
	slices.Reverse(nodes)
	return nodes
}

// visitor is called for each place after another one, with whether the step to it reaches the goal.
type visitor[P comparable] func(to P, goal bool)

// shortest returns a shortest way from a place to the goal, with both ends; nil if there is none. The first of several
// is that of the first steps.
func shortest[P comparable](start P, next func(at P, visit visitor[P])) []P {
	came := map[P]P{}
	var way []P
	for queue := []P{start}; len(queue) > 0 && way == nil; queue = queue[1:] {
		at := queue[0]
		next(at, func(to P, goal bool) {
			_, known := came[to]
			switch {
			case way != nil:
			case goal:
				way = append(wayTo(came, start, at), to)
			case !known && to != start:
				came[to] = at
				queue = append(queue, to)
			}
		})
	}
	return way
}

// nodesOf returns the nodes of the places on a way.
func nodesOf[P comparable](way []P, node func(P) uint32) []uint32 {
	nodes := make([]uint32, len(way))
	for i, at := range way {
		nodes[i] = node(at)
	}
	return nodes
}

// wayTo returns the places from the start to a place.
func wayTo[P comparable](came map[P]P, start, to P) []P {
	way := []P{to}
	for to != start {
		to = came[to]
		way = append(way, to)
	}
	slices.Reverse(way)
	return way
}

func (g *graph) isDeviation(e edge) bool { return e.effect != 0 && g.effect(e.effect).deviation }

// isNatural reports whether a step is neither an edit nor a crash nor a fault; keepsPods, that it is no end of a pod either.
func (g *graph) isNatural(e edge) bool { return !g.isDeviation(e) }
func (g *graph) keepsPods(e edge) bool { return !g.isDeviation(e) && !g.effect(e.effect).ends }

// fill returns the nodes on a shortest way between two.
func (g *graph) fill(from, to uint32) []uint32 {
	return shortest(from, func(at uint32, visit visitor[uint32]) {
		for _, e := range g.nodes[at].edges {
			visit(e.to, e.to == to)
		}
	})
}

// byDepth orders nodes by the length of the way to them.
func (g *graph) byDepth(a, b uint32) int {
	if order := int(g.nodes[a].depth) - int(g.nodes[b].depth); order != 0 {
		return order
	}
	return int(a) - int(b)
}

// cycleIn returns a cycle on which something is written, although no pod ends: a new pod for one that has ended is no
// unrest.
func (g *graph) cycleIn(members []uint32, inside map[uint32]bool) []uint32 {
	for _, id := range members {
		if cycle := g.cycleWithWrite(id, inside); len(cycle) > 0 {
			return cycle
		}
	}
	return nil
}

// cycleWithWrite returns a shortest way from a state back to it on which something is written.
func (g *graph) cycleWithWrite(from uint32, inside map[uint32]bool) []uint32 {
	type place struct {
		node  uint32
		wrote bool
	}
	way := shortest(place{node: from}, func(at place, visit visitor[place]) {
		for _, e := range g.nodes[at.node].edges {
			if inside[e.to] && g.keepsPods(e) {
				to := place{e.to, at.wrote || g.nodes[e.to].state.stored != g.nodes[at.node].state.stored}
				visit(to, to == place{from, true})
			}
		}
	})
	return nodesOf(way, func(at place) uint32 { return at.node })
}

// edgeBetween returns the first natural step between two nodes.
func (g *graph) edgeBetween(from, to uint32) edge {
	for _, e := range g.nodes[from].edges {
		if e.to == to {
			return e
		}
	}
	return edge{}
}

// repeats reports whether the last steps lead back to where they began, and write something.
func (g *graph) repeats(nodes []uint32, last int) bool {
	first := len(nodes) - 1 - last
	if last <= 0 || first < 0 || nodes[first] != nodes[len(nodes)-1] {
		return false
	}
	return slices.ContainsFunc(nodes[first:], func(id uint32) bool { return g.nodes[id].state.stored != g.nodes[nodes[first]].state.stored })
}
