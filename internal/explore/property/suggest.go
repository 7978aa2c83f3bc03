package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// going is a child that goes while another one of its kind and parent stays, in the life of the parent or in its deletion.
type going struct {
	goes, stays object.Ref
	parent      object.Owner
	deleting    bool
}

// Departures are the children that went in some steps, with those that stayed.
type Departures map[going]bool

// Add adds the children that a step removes, with those that stay.
func (d Departures) Add(before, after world.Stored) {
	for _, at := range before {
		if at.Object == nil || after.Get(at.Ref) != nil {
			continue
		}
		owner, _ := at.Object.Controller()
		isOwner := func(one apiserver.Slot) bool { return one.Object != nil && one.Object.UID() == owner.UID }
		parent := slices.IndexFunc(before, isOwner)
		for _, other := range after {
			isSibling := other.Object != nil && world.CompareKinds(other.Ref, at.Ref) == 0 && other.Object.ControlledBy(owner.UID)
			if parent >= 0 && isSibling {
				d[going{at.Ref, other.Ref, owner, before[parent].Object.Deleting()}] = true
			}
		}
	}
}

// Invariants returns those that hold in all steps: which of two children goes first. Only an author knows whether it is meant.
// There is one for each kind and parent, in its life and in its deletion.
func (d Departures) Invariants() []Invariant {
	var first []going
	for _, g := range slices.SortedFunc(maps.Keys(d), compareGoing) {
		reverse := going{g.stays, g.goes, g.parent, g.deleting}
		if !d[reverse] && !slices.ContainsFunc(first, g.isLike) {
			first = append(first, g)
		}
	}
	all := make([]Invariant, len(first))
	for i, g := range first {
		all[i] = g.invariant()
	}
	return all
}

func compareGoing(a, b going) int {
	return cmp.Or(world.CompareRefs(a.goes, b.goes), world.CompareRefs(a.stays, b.stays))
}

// isLike reports whether two are of one kind and parent, at one time.
func (g going) isLike(other going) bool {
	return world.CompareKinds(g.goes, other.goes) == 0 && g.parent == other.parent && g.deleting == other.deleting
}

func (g going) invariant() Invariant {
	when, not := "in its life", "!"
	if g.deleting {
		when, not = "in its deletion", ""
	}
	child := func(ref object.Ref) string {
		return fmt.Sprintf("children.exists(c, c.kind == '%s' && c.metadata.name == '%s')", ref.Kind.Kind, ref.Name)
	}
	return Invariant{
		Name: fmt.Sprintf("%s of %s goes before %s %s", g.goes.Name, g.parent.Name, g.stays.Name, when),
		Step: fmt.Sprintf("!before.objects.exists(p, p.kind == '%s' && p.metadata.name == '%s' && %shas(p.metadata.deletionTimestamp))",
			g.parent.Kind, g.parent.Name, not) +
			" || !before." + child(g.stays) + " || after." + child(g.stays) + " || !after." + child(g.goes),
	}
}
