// Package graph has the graph of the states that a search has found, and what it shows: ways, states of rest, cycles, and objects
// that are written too often or created again.
package graph

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/lists"
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

// IsNatural reports whether a step is neither an edit nor a crash nor a fault.
func (g *Graph) IsNatural(e Edge) bool { return !g.isDeviation(e) }

// KeepsPods reports whether a step is natural, and no end of a pod.
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
	return cmp.Or(cmp.Compare(g.Nodes[a].Depth, g.Nodes[b].Depth), cmp.Compare(a, b))
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
	return lists.Map(way, func(at place) uint32 { return at.node })
}

// EdgeBetween returns the first natural step between two nodes.
func (g *Graph) EdgeBetween(from, to uint32) Edge {
	edges := g.Nodes[from].Edges
	if i := slices.IndexFunc(edges, func(e Edge) bool { return e.To == to }); i >= 0 {
		return edges[i]
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

// Overwritten counts the writes of each object by controllers on the longest way without edits, crashes and faults. It returns
// the first that is written too often, and the way. States that lead to each other count as one.
func (c *components) Overwritten(layer []uint32, limit int) (text string, way []uint32) {
	for _, n := range c.writtenNames(layer) {
		most := make([]int, len(c.members))
		from := -1
		// What a component leads to has smaller numbers.
		for number := range c.members {
			most[number] = c.mostWrites(most, number, n)
			if most[number] > limit && from < 0 {
				from = number
			}
		}
		if from >= 0 {
			way = append([]uint32{c.members[from][0]}, c.mostWritten(most, from, n)...)
			return fmt.Sprintf("%s is written more than %d times without an edit", n.Ref, limit), c.upToLimit(way, n, limit)
		}
	}
	return "", nil
}

// writtenNames returns the names that controllers write in a layer, in the order of the states.
func (g *Graph) writtenNames(layer []uint32) []*state.Name {
	var names []*state.Name
	seen := map[*state.Name]bool{}
	for _, id := range layer {
		for _, e := range g.Nodes[id].Edges {
			if x := g.effect(e.Effect); x.Own && !x.Deviation && !seen[x.Name] {
				seen[x.Name] = true
				names = append(names, x.Name)
			}
		}
	}
	return names
}

func (g *Graph) writes(e Edge, n *state.Name) int {
	if x := g.effect(e.Effect); x.Own && x.Name == n {
		return 1
	}
	return 0
}

func (c *components) mostWrites(most []int, number int, n *state.Name) int {
	inside, after := 0, 0
	for _, id := range c.members[number] {
		for _, e := range c.Nodes[id].Edges {
			switch {
			case c.isDeviation(e):
			case c.of[e.To] == number:
				inside = max(inside, c.writes(e, n))
			default:
				after = max(after, most[c.of[e.To]]+c.writes(e, n))
			}
		}
	}
	return inside + after
}

// mostWritten returns a way with the most writes from a component on. Ways within a component are left out.
func (c *components) mostWritten(most []int, number int, n *state.Name) []uint32 {
	var nodes []uint32
	for {
		to, found := c.nextWritten(most, number, n)
		if !found {
			return nodes
		}
		nodes = append(nodes, to)
		number = c.of[to]
	}
}

func (c *components) nextWritten(most []int, number int, n *state.Name) (to uint32, found bool) {
	best := 0
	for _, id := range c.members[number] {
		for _, e := range c.Nodes[id].Edges {
			if c.isDeviation(e) || c.of[e.To] == number {
				continue
			}
			if writes := most[c.of[e.To]] + c.writes(e, n); writes > best {
				best, to, found = writes, e.To, true
			}
		}
	}
	return to, found
}

// upToLimit returns the way to the first of some nodes, and on along them until there are too many writes.
func (g *Graph) upToLimit(nodes []uint32, n *state.Name, limit int) []uint32 {
	way, writes := g.Path(nodes[0]), 0
	for i, to := range nodes[1:] {
		way = append(way, to)
		if writes += g.writes(g.EdgeBetween(nodes[i], to), n); writes > limit {
			break
		}
	}
	return way
}

// OverwrittenOn returns which object is written too often on a way; empty if none is.
func (g *Graph) OverwrittenOn(nodes []uint32, limit int) string {
	counts := map[*state.Name]int{}
	for i := range nodes[:len(nodes)-1] {
		x := g.effect(g.EdgeBetween(nodes[i], nodes[i+1]).Effect)
		if x.Deviation {
			counts = map[*state.Name]int{}
		}
		if x.Own {
			counts[x.Name]++
		}
		if counts[x.Name] > limit && x.Own {
			return fmt.Sprintf("%s is written %d times without an edit", x.Name.Ref, counts[x.Name])
		}
	}
	return ""
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

// Recreated returns a way on which controllers create, delete and again create one object, although neither its users nor a
// fault gave a reason. Only runs count that know the newest specs: one that began before an edit may still finish what it was
// about.
func (g *Graph) Recreated() (text string, way []uint32) {
	for _, n := range g.recreatedNames() {
		if way = g.recreation(n); len(way) > 0 {
			return fmt.Sprintf("%s is created, deleted and created again without an edit or a fault", n.Ref), way
		}
	}
	return "", nil
}

// recreatedNames returns the names that controllers both create and delete, in the order in which they first did.
func (g *Graph) recreatedNames() []*state.Name {
	type lives struct{ created, deleted bool }
	seen := map[*state.Name]lives{}
	var names []*state.Name
	for id := range g.Nodes {
		for _, e := range g.Nodes[id].Edges {
			x := g.effect(e.Effect)
			if !x.Own || !x.Fresh || x.Deviation {
				continue
			}
			before := seen[x.Name]
			now := lives{before.created || x.What == state.Created, before.deleted || x.What == state.Deleted}
			if seen[x.Name] = now; now != before && now == (lives{true, true}) {
				names = append(names, x.Name)
			}
		}
	}
	return names
}

// recreation returns a shortest way on which an object is created, deleted and created again.
func (g *Graph) recreation(n *state.Name) []uint32 {
	way := Shortest(place{}, func(at place, visit Visitor[place]) {
		for _, e := range g.Nodes[at.node].Edges {
			next, complete := at.phase.after(g.effect(e.Effect), n)
			visit(place{e.To, next}, complete)
		}
	})
	return lists.Map(way, func(at place) uint32 { return at.node })
}

// after returns the phase after a step, and whether the object was created again.
func (p phase) after(e *state.Effect, n *state.Name) (next phase, complete bool) {
	switch {
	case e.Resets:
		return notYet, false
	case !e.Own || !e.Fresh || e.Name != n:
		return p, false
	case e.What == state.Created && p == afterDeletion:
		return p, true
	case e.What == state.Created:
		return afterCreation, false
	case e.What == state.Deleted && p == afterCreation:
		return afterDeletion, false
	}
	return p, false
}
