package explore

import "fmt"

// overwritten counts the writes of each object by controllers on the longest way without edits, crashes and faults. It returns
// the first that is written too often, and the way. States that lead to each other count as one.
func (c *components) overwritten(layer []uint32, limit int) (text string, way []uint32) {
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
			return fmt.Sprintf("%s is written more than %d times without an edit", n.ref, limit), c.upToLimit(way, n, limit)
		}
	}
	return "", nil
}

// writtenNames returns the names that controllers write in a layer, in the order of the states.
func (g *graph) writtenNames(layer []uint32) []*name {
	var names []*name
	seen := map[*name]bool{}
	for _, id := range layer {
		for _, e := range g.nodes[id].edges {
			if x := g.effect(e.effect); x.own && !x.deviation && !seen[x.name] {
				seen[x.name] = true
				names = append(names, x.name)
			}
		}
	}
	return names
}

func (g *graph) writes(e edge, n *name) int {
	if x := g.effect(e.effect); x.own && x.name == n {
		return 1
	}
	return 0
}

func (c *components) mostWrites(most []int, number int, n *name) int {
	inside, after := 0, 0
	for _, id := range c.members[number] {
		for _, e := range c.nodes[id].edges {
			switch {
			case c.isDeviation(e):
			case c.of[e.to] == number:
				inside = max(inside, c.writes(e, n))
			default:
				after = max(after, most[c.of[e.to]]+c.writes(e, n))
			}
		}
	}
	return inside + after
}

// mostWritten returns a way with the most writes from a component on. Ways within a component are left out.
func (c *components) mostWritten(most []int, number int, n *name) []uint32 {
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

func (c *components) nextWritten(most []int, number int, n *name) (to uint32, found bool) {
	best := 0
	for _, id := range c.members[number] {
		for _, e := range c.nodes[id].edges {
			if c.isDeviation(e) || c.of[e.to] == number {
				continue
			}
			if writes := most[c.of[e.to]] + c.writes(e, n); writes > best {
				best, to, found = writes, e.to, true
			}
		}
	}
	return to, found
}

// upToLimit returns the way to the first of some nodes, and on along them until there are too many writes.
func (g *graph) upToLimit(nodes []uint32, n *name, limit int) []uint32 {
	way, writes := g.path(nodes[0]), 0
	for i, to := range nodes[1:] {
		way = append(way, to)
		if writes += g.writes(g.edgeBetween(nodes[i], to), n); writes > limit {
			break
		}
	}
	return way
}

// overwrittenOn returns which object is written too often on a way; empty if none is.
func (g *graph) overwrittenOn(nodes []uint32, limit int) string {
	counts := map[*name]int{}
	for i := range nodes[:len(nodes)-1] {
		x := g.effect(g.edgeBetween(nodes[i], nodes[i+1]).effect)
		if x.deviation {
			counts = map[*name]int{}
		}
		if x.own {
			counts[x.name]++
		}
		if counts[x.name] > limit && x.own {
			return fmt.Sprintf("%s is written %d times without an edit", x.name.ref, counts[x.name])
		}
	}
	return ""
}
