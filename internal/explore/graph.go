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

func newGraph(initial state, layers int) *graph {
	g := &graph{index: map[packed]uint32{}, layers: make([][]uint32, layers)}
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
