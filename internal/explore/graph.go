package explore

import (
	"fmt"
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

// components are the strongly connected components of states: sets of them each of which leads to all others.
type components struct {
	// follows reports whether they are those of the graph with a step.
	follows func(edge) bool
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
	*search

	components
	// order is when a node was visited, from 1; 0 if it was not.
	order, low []uint32
	visited    uint32
	stack      []uint32
	onStack    []bool
}

// componentsOf returns the components of nodes that some steps connect.
func (s *search) componentsOf(nodes []uint32, follows func(edge) bool) components {
	all := len(s.nodes)
	t := &tarjan{search: s, components: components{follows: follows, of: make([]int, all)}, order: make([]uint32, all),
		low: make([]uint32, all), onStack: make([]bool, all)}
	for _, id := range nodes {
		if t.order[id] == 0 {
			t.walk(id)
		}
	}
	return t.components
}

func (t *tarjan) walk(from uint32) {
	t.enter(from)
	for path := []visit{{node: from}}; len(path) > 0; {
		at := &path[len(path)-1]
		edges := t.nodes[at.node].edges
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
		if t.order[e.to] == 0 {
			t.enter(e.to)
			path = append(path, visit{node: e.to})
		} else if t.onStack[e.to] {
			t.low[at.node] = min(t.low[at.node], t.order[e.to])
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

func (s *search) isDeviation(e edge) bool { return e.effect != 0 && s.effects.at(e.effect).deviation }

// isNatural reports whether a step is neither an edit nor a crash nor a fault; keepsPods, that it is no end of a pod either.
func (s *search) isNatural(e edge) bool { return !s.isDeviation(e) }
func (s *search) keepsPods(e edge) bool { return !s.isDeviation(e) && !s.effects.at(e.effect).ends }

// bottoms returns the components out of which nothing leads, if all their states were expanded, those first that are
// reached first.
func (s *search) bottoms(c *components) [][]uint32 {
	var all [][]uint32
	for number, members := range c.members {
		if s.isBottom(c, number) {
			slices.SortFunc(members, s.byDepth)
			all = append(all, members)
		}
	}
	slices.SortFunc(all, func(a, b []uint32) int { return s.byDepth(a[0], b[0]) })
	return all
}

func (s *search) isBottom(c *components, number int) bool {
	for _, id := range c.members[number] {
		if !s.nodes[id].expanded {
			return false
		}
		for _, e := range s.nodes[id].edges {
			if c.follows(e) && c.of[e.to] != number {
				return false
			}
		}
	}
	return true
}

// checkQuiet counts the writes of each object by controllers on the longest way without edits, crashes and faults.
// States that lead to each other count as one.
func (s *search) checkQuiet(parts *components, layer []uint32) {
	for _, n := range s.writtenNames(layer) {
		most := make([]int, len(parts.members))
		from := -1
		// What a component leads to has smaller numbers.
		for number := range parts.members {
			most[number] = s.mostWrites(parts, most, number, n)
			if most[number] > s.options.Bounds.Writes && from < 0 {
				from = number
			}
		}
		if from >= 0 {
			start := parts.members[from][0]
			text := fmt.Sprintf("%s is written more than %d times without an edit", n.ref, s.options.Bounds.Writes)
			s.violated(finding{property: Quiet, text: text}, s.upToLimit(append([]uint32{start}, s.mostWritten(parts, most, from, n)...),
				n), -1)
			return
		}
	}
}

// writtenNames returns the names that controllers write in a layer, in the order of the states.
func (s *search) writtenNames(layer []uint32) []*name {
	var names []*name
	seen := map[*name]bool{}
	for _, id := range layer {
		for _, e := range s.nodes[id].edges {
			if x := s.effects.at(e.effect); x.own && !x.deviation && !seen[x.name] {
				seen[x.name] = true
				names = append(names, x.name)
			}
		}
	}
	return names
}

func (s *search) writes(e edge, n *name) int {
	if x := s.effects.at(e.effect); x.own && x.name == n {
		return 1
	}
	return 0
}

func (s *search) mostWrites(parts *components, most []int, number int, n *name) int {
	inside, after := 0, 0
	for _, id := range parts.members[number] {
		for _, e := range s.nodes[id].edges {
			switch {
			case s.isDeviation(e):
			case parts.of[e.to] == number:
				inside = max(inside, s.writes(e, n))
			default:
				after = max(after, most[parts.of[e.to]]+s.writes(e, n))
			}
		}
	}
	return inside + after
}

// mostWritten returns a way with the most writes from a component on. Ways within a component are left out.
func (s *search) mostWritten(parts *components, most []int, number int, n *name) []uint32 {
	var nodes []uint32
	for {
		to, found := s.nextWritten(parts, most, number, n)
		if !found {
			return nodes
		}
		nodes = append(nodes, to)
		number = parts.of[to]
	}
}

func (s *search) nextWritten(parts *components, most []int, number int, n *name) (to uint32, found bool) {
	best := 0
	for _, id := range parts.members[number] {
		for _, e := range s.nodes[id].edges {
			if s.isDeviation(e) || parts.of[e.to] == number {
				continue
			}
			if writes := most[parts.of[e.to]] + s.writes(e, n); writes > best {
				best, to, found = writes, e.to, true
			}
		}
	}
	return to, found
}

// upToLimit returns the way to the first of some nodes, and on along them until there are too many writes.
func (s *search) upToLimit(nodes []uint32, n *name) []uint32 {
	way, writes := s.path(nodes[0]), 0
	for i, to := range nodes[1:] {
		way = append(way, to)
		if writes += s.writes(s.edgeBetween(nodes[i], to), n); writes > s.options.Bounds.Writes {
			break
		}
	}
	return way
}

// phase is how far a way has come towards creating, deleting and again creating one object without an edit between.
type phase uint8

const (
	notYet phase = iota
	afterCreation
	afterDeletion
)

// place is a state and the phase in which a way comes there.
type place struct {
	node  uint32
	phase phase
}

// checkRecreation looks for a way on which controllers create, delete and again create one object, although neither
// its users nor a fault gave a reason. Only runs count that know the newest specs: one that began before an edit may
// still finish what it was about.
func (s *search) checkRecreation() {
	for _, n := range s.recreated() {
		if nodes := s.recreation(n); len(nodes) > 0 {
			s.violated(finding{property: NoRecreate,
				text: fmt.Sprintf("%s is created, deleted and created again without an edit or a fault", n.ref)}, nodes, -1)
			return
		}
	}
}

// recreated returns the names that controllers both create and delete, in the order in which they first did.
func (s *search) recreated() []*name {
	seen := map[*name]operationSet{}
	var names []*name
	for id := range s.nodes {
		for _, e := range s.nodes[id].edges {
			x := s.effects.at(e.effect)
			if !x.own || !x.fresh || x.deviation {
				continue
			}
			before := seen[x.name]
			seen[x.name] = before | 1<<x.what
			if both := operationSet(1<<created | 1<<deleted); before&both != both && seen[x.name]&both == both {
				names = append(names, x.name)
			}
		}
	}
	return names
}

// operationSet has a bit for each operation.
type operationSet uint8

// recreation returns a shortest way on which an object is created, deleted and created again.
func (s *search) recreation(n *name) []uint32 {
	way := shortest(place{}, func(at place, visit visitor[place]) {
		for _, e := range s.nodes[at.node].edges {
			next, complete := at.phase.after(s.effects.at(e.effect), n)
			visit(place{e.to, next}, complete)
		}
	})
	nodes := make([]uint32, len(way))
	for i, at := range way {
		nodes[i] = at.node
	}
	return nodes
}

// after returns the phase after a step, and whether the object was created again.
func (p phase) after(e *effect, n *name) (next phase, complete bool) {
	switch {
	case e.resets:
		return notYet, false
	case !e.own || !e.fresh || e.name != n:
		return p, false
	case e.what == created && p == afterDeletion:
		return p, true
	case e.what == created:
		return afterCreation, false
	case e.what == deleted && p == afterCreation:
		return afterDeletion, false
	}
	return p, false
}
