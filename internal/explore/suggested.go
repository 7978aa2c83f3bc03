package explore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// going is a child that goes while another one of its kind and parent stays, in the life of the parent or in its deletion.
type going struct {
	goes, stays *name
	parent      object.Owner
	deleting    bool
}

// suggested returns invariants that hold in what was explored without faults: which of two children goes first. Only an author
// knows whether it is meant. There is one for each kind and parent, in its life and in its deletion.
func (s *search) suggested() []Invariant {
	seen, looked := map[going]bool{}, map[[2]uint32]bool{}
	for i := range s.nodes {
		from := s.nodes[i].state.stored
		for _, e := range s.nodes[i].edges {
			to := &s.nodes[e.to].state
			if step := [2]uint32{from, to.stored}; to.spent.faults == 0 && !looked[step] {
				looked[step] = true
				addGoing(seen, s.stores.at(from), s.stores.at(to.stored))
			}
		}
	}
	var first []going
	for _, g := range slices.SortedFunc(maps.Keys(seen), compareGoing) {
		reverse := going{g.stays, g.goes, g.parent, g.deleting}
		if !seen[reverse] && !slices.ContainsFunc(first, g.isLike) {
			first = append(first, g)
		}
	}
	all := make([]Invariant, len(first))
	for i, g := range first {
		all[i] = g.invariant()
	}
	return all
}

// addGoing adds the children that a step removes, with those that stay.
func addGoing(seen map[going]bool, before, after *stored) {
	for _, at := range before.slots {
		if at.version == nil || after.get(at.name).version != nil {
			continue
		}
		owner, _ := at.version.object.Controller()
		isOwner := func(one slot) bool { return one.version != nil && one.version.object.UID() == owner.UID }
		parent := slices.IndexFunc(before.slots, isOwner)
		for _, other := range after.slots {
			isSibling := other.version != nil && compareKinds(other.name.ref, at.name.ref) == 0 &&
				other.version.object.ControlledBy(owner.UID)
			if parent >= 0 && isSibling {
				seen[going{at.name, other.name, owner, before.slots[parent].version.object.Deleting()}] = true
			}
		}
	}
}

func compareGoing(a, b going) int {
	return cmp.Or(compareNames(a.goes, b.goes), compareNames(a.stays, b.stays))
}

// isLike reports whether two are of one kind and parent, at one time.
func (g going) isLike(other going) bool {
	return compareKinds(g.goes.ref, other.goes.ref) == 0 && g.parent == other.parent && g.deleting == other.deleting
}

func (g going) invariant() Invariant {
	when, not := "in its life", "!"
	if g.deleting {
		when, not = "in its deletion", ""
	}
	child := func(n *name) string {
		return fmt.Sprintf("children.exists(c, c.kind == '%s' && c.metadata.name == '%s')", n.ref.Kind.Kind, n.ref.Name)
	}
	return Invariant{
		Name: fmt.Sprintf("%s of %s goes before %s %s", g.goes.ref.Name, g.parent.Name, g.stays.ref.Name, when),
		Step: fmt.Sprintf("!before.objects.exists(p, p.kind == '%s' && p.metadata.name == '%s' && %shas(p.metadata.deletionTimestamp))",
			g.parent.Kind, g.parent.Name, not) +
			" || !before." + child(g.stays) + " || after." + child(g.stays) + " || !after." + child(g.goes),
	}
}
