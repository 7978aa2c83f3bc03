package explore

import "slices"

// components are the strongly connected components of states: sets of them each of which leads to all others.
type components struct {
	*graph

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
	components

	// order is when a node was visited, from 1; 0 if it was not.
	order, low []uint32
	visited    uint32
	stack      []uint32
	onStack    []bool
}

// componentsOf returns the components of nodes that some steps connect.
func (g *graph) componentsOf(nodes []uint32, follows func(edge) bool) *components {
	all := len(g.nodes)
	t := &tarjan{components: components{graph: g, follows: follows, of: make([]int, all)}, order: make([]uint32, all),
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

// bottoms returns the components out of which nothing leads, if all their states were expanded, those first that are
// reached first.
func (c *components) bottoms() [][]uint32 {
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
		if !c.nodes[id].expanded {
			return false
		}
		for _, e := range c.nodes[id].edges {
			if c.follows(e) && c.of[e.to] != number {
				return false
			}
		}
	}
	return true
}
