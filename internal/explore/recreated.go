package explore

import "fmt"

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

// recreated returns a way on which controllers create, delete and again create one object, although neither its users nor a
// fault gave a reason. Only runs count that know the newest specs: one that began before an edit may still finish what it was
// about.
func (g *graph) recreated() (text string, way []uint32) {
	for _, n := range g.recreatedNames() {
		if way = g.recreation(n); len(way) > 0 {
			return fmt.Sprintf("%s is created, deleted and created again without an edit or a fault", n.ref), way
		}
	}
	return "", nil
}

// recreatedNames returns the names that controllers both create and delete, in the order in which they first did.
func (g *graph) recreatedNames() []*name {
	seen := map[*name]operationSet{}
	var names []*name
	for id := range g.nodes {
		for _, e := range g.nodes[id].edges {
			x := g.effect(e.effect)
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
func (g *graph) recreation(n *name) []uint32 {
	way := shortest(place{}, func(at place, visit visitor[place]) {
		for _, e := range g.nodes[at.node].edges {
			next, complete := at.phase.after(g.effect(e.effect), n)
			visit(place{e.to, next}, complete)
		}
	})
	return nodesOf(way, func(at place) uint32 { return at.node })
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
