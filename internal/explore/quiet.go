package explore

import "fmt"

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
