package graph

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/explore/state"
)

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
	seen := map[*state.Name]operationSet{}
	var names []*state.Name
	for id := range g.Nodes {
		for _, e := range g.Nodes[id].Edges {
			x := g.effect(e.Effect)
			if !x.Own || !x.Fresh || x.Deviation {
				continue
			}
			before := seen[x.Name]
			seen[x.Name] = before | 1<<x.What
			if both := operationSet(1<<state.Created | 1<<state.Deleted); before&both != both && seen[x.Name]&both == both {
				names = append(names, x.Name)
			}
		}
	}
	return names
}

// operationSet has a bit for each operation.
type operationSet uint8

// recreation returns a shortest way on which an object is created, deleted and created again.
func (g *Graph) recreation(n *state.Name) []uint32 {
	way := Shortest(place{}, func(at place, visit Visitor[place]) {
		for _, e := range g.Nodes[at.node].Edges {
			next, complete := at.phase.after(g.effect(e.Effect), n)
			visit(place{e.To, next}, complete)
		}
	})
	return nodesOf(way, func(at place) uint32 { return at.node })
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
