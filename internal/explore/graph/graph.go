// Package graph has the graph of the states that a search has found, and what it shows: ways, states of rest, cycles, and objects
// that are written too often or created again.
package graph

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/state"
)

// Graph is what a search has found: all states, and the steps between them.
type Graph struct {
	Nodes []node
	index map[state.Packed]uint32
	// Layers are the nodes by the number of edits, crashes and faults before them.
	Layers [][]uint32
	Steps  int
	// effect returns what a step means, by its number.
	effect func(id uint32) *state.Effect
}

// node is a state that was found.
type node struct {
	State state.Packed
	// parent is the node from which a shortest way leads here, and via the step of its expansion.
	parent uint32
	Depth  uint32
	via    uint16
	// Expanded is set once all steps from here are known.
	Expanded bool
	Edges    []Edge
}

// Edge is a step to another node.
type Edge struct{ To, Effect uint32 }

// NoParent is the parent of the initial state.
const NoParent = ^uint32(0)

// New returns the graph of an initial state, with so many layers.
func New(initial state.State, layers int, effect func(id uint32) *state.Effect) *Graph {
	g := &Graph{index: map[state.Packed]uint32{}, Layers: make([][]uint32, layers), effect: effect}
	g.Add(initial.Pack(), NoParent, 0)
	return g
}

// Add adds a node, unless the state is known, and reports whether it is new.
func (g *Graph) Add(at state.Packed, parent uint32, via int) (id uint32, added bool) {
	if id, known := g.index[at]; known {
		return id, false
	}
	id = uint32(len(g.Nodes))
	n := node{State: at, parent: parent, via: uint16(via)}
	if parent != NoParent {
		n.Depth = g.Nodes[parent].Depth + 1
	}
	g.Nodes = append(g.Nodes, n)
	g.index[at] = id
	layer := at.Spent.Total()
	g.Layers[layer] = append(g.Layers[layer], id)
	return id, true
}

// Shorten records a shorter way to a node that is still to be expanded, and reports whether it is one.
func (g *Graph) Shorten(id, parent uint32, via int) bool {
	n := &g.Nodes[id]
	if n.Expanded || n.parent == NoParent || n.Depth <= g.Nodes[parent].Depth+1 {
		return false
	}
	n.parent, n.via, n.Depth = parent, uint16(via), g.Nodes[parent].Depth+1
	return true
}

// Path returns the nodes on a shortest way to a node, with both ends.
func (g *Graph) Path(to uint32) []uint32 {
	var nodes []uint32
	for ; to != NoParent; to = g.Nodes[to].parent {
		nodes = append(nodes, to)
	}
	slices.Reverse(nodes)
	return nodes
}

// Visitor is called for each place after another one, with whether the step to it reaches the goal.
type Visitor[P comparable] func(to P, goal bool)

// Shortest returns a shortest way from a place to the goal, with both ends; nil if there is none. The first of several
// is that of the first steps.
func Shortest[P comparable](start P, next func(at P, visit Visitor[P])) []P {
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

func (g *Graph) isDeviation(e Edge) bool { return e.Effect != 0 && g.effect(e.Effect).Deviation }

// IsNatural reports whether a step is neither an edit nor a crash nor a fault; keepsPods, that it is no end of a pod either.
func (g *Graph) IsNatural(e Edge) bool { return !g.isDeviation(e) }
func (g *Graph) KeepsPods(e Edge) bool { return !g.isDeviation(e) && !g.effect(e.Effect).Ends }

// Fill returns the nodes on a shortest way between two.
func (g *Graph) Fill(from, to uint32) []uint32 {
	return Shortest(from, func(at uint32, visit Visitor[uint32]) {
		for _, e := range g.Nodes[at].Edges {
			visit(e.To, e.To == to)
		}
	})
}

// byDepth orders nodes by the length of the way to them.
func (g *Graph) byDepth(a, b uint32) int {
	if order := int(g.Nodes[a].Depth) - int(g.Nodes[b].Depth); order != 0 {
		return order
	}
	return int(a) - int(b)
}

// CycleIn returns a cycle on which something is written, although no pod ends: a new pod for one that has ended is no
// unrest.
func (g *Graph) CycleIn(members []uint32, inside map[uint32]bool) []uint32 {
	for _, id := range members {
		if cycle := g.cycleWithWrite(id, inside); len(cycle) > 0 {
			return cycle
		}
	}
	return nil
}

// cycleWithWrite returns a shortest way from a state back to it on which something is written.
func (g *Graph) cycleWithWrite(from uint32, inside map[uint32]bool) []uint32 {
	type place struct {
		node  uint32
		wrote bool
	}
	way := Shortest(place{node: from}, func(at place, visit Visitor[place]) {
		for _, e := range g.Nodes[at.node].Edges {
			if inside[e.To] && g.KeepsPods(e) {
				to := place{e.To, at.wrote || g.Nodes[e.To].State.Stored != g.Nodes[at.node].State.Stored}
				visit(to, to == place{from, true})
			}
		}
	})
	return nodesOf(way, func(at place) uint32 { return at.node })
}

// EdgeBetween returns the first natural step between two nodes.
func (g *Graph) EdgeBetween(from, to uint32) Edge {
	for _, e := range g.Nodes[from].Edges {
		if e.To == to {
			return e
		}
	}
	return Edge{}
}

// Repeats reports whether the last steps lead back to where they began, and write something.
func (g *Graph) Repeats(nodes []uint32, last int) bool {
	first := len(nodes) - 1 - last
	if last <= 0 || first < 0 || nodes[first] != nodes[len(nodes)-1] {
		return false
	}
	return slices.ContainsFunc(nodes[first:],
		func(id uint32) bool { return g.Nodes[id].State.Stored != g.Nodes[nodes[first]].State.Stored })
}

// components are the strongly connected components of states: sets of them each of which leads to all others.
type components struct {
	*Graph

	// follows reports whether they are those of the graph with a step.
	follows func(Edge) bool
	// of is the component of each node; members are the nodes of each component. What a component leads to has
	// smaller numbers.
	of      []int
	members [][]uint32
}

// visit is a node whose edges are being followed.
type visit struct {
	node uint32
	edge int
}

// tarjan finds components with Tarjan's algorithm, without recursion: paths have thousands of states.
type tarjan struct {
	components

	// order is when a node was visited, from 1; 0 if it was not.
	order, low []uint32
	visited    uint32
	stack      []uint32
	onStack    []bool
}

// ComponentsOf returns the components of nodes that some steps connect.
func (g *Graph) ComponentsOf(nodes []uint32, follows func(Edge) bool) *components {
	all := len(g.Nodes)
	t := &tarjan{components: components{Graph: g, follows: follows, of: make([]int, all)}, order: make([]uint32, all),
		low: make([]uint32, all), onStack: make([]bool, all)}
	for _, id := range nodes {
		if t.order[id] == 0 {
			t.walk(id)
		}
	}
	return &t.components
}

func (t *tarjan) walk(from uint32) {
	t.enter(from)
	for path := []visit{{node: from}}; len(path) > 0; {
		at := &path[len(path)-1]
		edges := t.Nodes[at.node].Edges
		if at.edge == len(edges) {
			t.leave(at.node)
			path = path[:len(path)-1]
			if len(path) > 0 {
				above := path[len(path)-1].node
				t.low[above] = min(t.low[above], t.low[at.node])
			}
			continue
		}
		e := edges[at.edge]
		at.edge++
		if !t.follows(e) {
			continue
		}
		if t.order[e.To] == 0 {
			t.enter(e.To)
			path = append(path, visit{node: e.To})
		} else if t.onStack[e.To] {
			t.low[at.node] = min(t.low[at.node], t.order[e.To])
		}
	}
}

func (t *tarjan) enter(id uint32) {
	t.visited++
	t.order[id], t.low[id] = t.visited, t.visited
	t.stack = append(t.stack, id)
	t.onStack[id] = true
}

// leave completes a component if its first node is left.
func (t *tarjan) leave(id uint32) {
	if t.low[id] != t.order[id] {
		return
	}
	var members []uint32
	for {
		last := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.onStack[last] = false
		t.of[last] = len(t.members)
		members = append(members, last)
		if last == id {
			break
		}
	}
	t.members = append(t.members, members)
}

// Bottoms returns the components out of which nothing leads, if all their states were expanded, those first that are
// reached first.
func (c *components) Bottoms() [][]uint32 {
	var all [][]uint32
	for number, members := range c.members {
		if c.isBottom(number) {
			slices.SortFunc(members, c.byDepth)
			all = append(all, members)
		}
	}
	slices.SortFunc(all, func(a, b []uint32) int { return c.byDepth(a[0], b[0]) })
	return all
}

func (c *components) isBottom(number int) bool {
	for _, id := range c.members[number] {
		if !c.Nodes[id].Expanded {
			return false
		}
		for _, e := range c.Nodes[id].Edges {
			if c.follows(e) && c.of[e.To] != number {
				return false
			}
		}
	}
	return true
}
