package explore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// group is objects of users that are explored apart from others, with their edits.
type group struct {
	objects []*object.Object
	edits   []world.Edit
}

func (g *group) String() string {
	var names []string
	for _, o := range g.objects {
		names = append(names, o.Ref().Identity().String())
	}
	for i := range g.edits {
		if g.edits[i].Create != nil {
			names = append(names, g.edits[i].Object.String())
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " and ")
}

// groupsOf returns each object of users as a group, with what is in it if it is a namespace; one group if nothing can be
// explored apart.
func groupsOf(options Options) []group {
	var groups []group
	index, namespaces := map[object.Ref]int{}, namespacesOf(options)
	at := func(ref object.Ref) *group {
		ref = ref.Identity()
		if namespace, is := namespaces[ref.Namespace]; is {
			ref = namespace
		}
		if _, known := index[ref]; !known {
			index[ref] = len(groups)
			groups = append(groups, group{})
		}
		return &groups[index[ref]]
	}
	for _, o := range options.Objects {
		g := at(o.Ref())
		g.objects = append(g.objects, o)
	}
	for _, e := range options.Edits {
		g := at(e.Object)
		g.edits = append(g.edits, e)
	}
	if options.Unreduced || options.Together || len(options.Controllers) > 1 {
		return groups[:min(1, len(groups))]
	}
	return groups
}

// namespacesOf returns the namespaces that users keep.
func namespacesOf(options Options) map[string]object.Ref {
	namespaces := map[string]object.Ref{}
	add := func(ref object.Ref) {
		if ref.GroupKind() == object.Namespaces.GroupKind() {
			namespaces[ref.Name] = ref.Identity()
		}
	}
	for _, o := range options.Objects {
		add(o.Ref())
	}
	for i := range options.Edits {
		add(options.Edits[i].Object)
	}
	return namespaces
}

// merged returns groups with two of them as one.
func merged(groups []group, i, j int) []group {
	joined := slices.Clone(groups)
	joined[i] = group{slices.Concat(groups[i].objects, groups[j].objects), slices.Concat(groups[i].edits, groups[j].edits)}
	return slices.Delete(joined, j, j+1)
}

// options returns those for a group. The invariants of authors speak of all objects.
func (g *group) options(all Options) Options {
	all.Objects, all.Edits, all.Invariants, all.Apart = g.objects, g.edits, nil, true
	return all
}

// exploreApart explores groups of objects that have nothing in common each for itself, and merges the reports. A state of
// all objects is then one state of each group, and a step of all is a step of one, or a crash in all. So what holds in
// each group holds in all together, except for the invariants of authors: they are evaluated for all combinations of what
// the groups have stored. Without a report, it says why all has to be explored together.
func exploreApart(ctx context.Context, options Options, groups []group) (report *Report, why string, err error) {
	// A quick look without edits, crashes and faults finds most of what groups have in common.
	bounds, quick := options.Bounds, true
	options.Bounds.Edits, options.Bounds.Crashes, options.Bounds.Faults, options.Bounds.States = 0, 0, 0, firstCheck
	searches := make([]*search, len(groups))
	for len(groups) > 1 {
		if err := searchEach(ctx, options, groups, searches); err != nil {
			return nil, "", err
		}
		i, j, touch := touching(searches)
		switch {
		case touch != "":
			why, groups = touch, merged(groups, i, j)
			searches[i], searches = nil, slices.Delete(searches, j, j+1)
		case quick:
			options.Bounds, quick = bounds, false
			clear(searches)
		default:
			return reportApart(ctx, options, groups, searches)
		}
	}
	return nil, why, nil
}

// searchEach runs the searches that are missing, each with an equal part of the time that is left. Those with fewer edits
// come first, since they leave time to the others.
func searchEach(ctx context.Context, options Options, groups []group, searches []*search) error {
	var missing []int
	for i := range searches {
		if searches[i] == nil {
			missing = append(missing, i)
		}
	}
	slices.SortStableFunc(missing, func(i, j int) int { return len(groups[i].edits) - len(groups[j].edits) })
	deadline, _ := ctx.Deadline()
	for n, i := range missing {
		s, err := newSearch(groups[i].options(options))
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(missing)-n))
		err = s.explore(within)
		cancel()
		if err != nil {
			return err
		}
		searches[i] = s
	}
	return nil
}

// touching returns two groups that are not independent, and why; an empty text if all are.
func touching(searches []*search) (i, j int, why string) {
	footprints := make([]*state.Footprint, len(searches))
	for i, s := range searches {
		footprints[i] = s.workers[0].Footprint(s.initial)
	}
	for i, one := range footprints {
		for j, other := range footprints[:i] {
			if why := cmp.Or(one.Touches(other), other.Touches(one)); why != "" {
				return j, i, why
			}
		}
	}
	return 0, 0, ""
}

// reportApart merges the reports of groups, unless their combinations have to be looked at one by one.
func reportApart(ctx context.Context, options Options, groups []group, searches []*search) (report *Report, why string, err error) {
	why, err = brokenTogether(ctx, options, searches)
	if why != "" || err != nil {
		return nil, why, err
	}
	report = searches[0].report()
	for _, s := range searches[1:] {
		report.add(s.report())
	}
	if ctx.Err() != nil {
		report.Cut = cmp.Or(report.Cut, searches[0].limit(ctx))
	} else {
		unrest := slices.ContainsFunc(searches, func(s *search) bool { return s.allNotes().rests == 0 })
		for _, i := range options.Invariants {
			if i.Eventually == "" || !unrest {
				report.Holds = append(report.Holds, property.Property(i.Name))
			}
		}
	}
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].String()
	}
	report.Notes = append(report.Notes, exploredApart+strings.Join(names, "; ")+".")
	return report, "", nil
}

// exploredApart is how the note about groups begins.
const exploredApart = "Explored apart, because they have nothing in common: "

// add adds the report of other objects.
func (r *Report) add(other *Report) {
	r.addFound(other)
	if other.Cut != "" && r.Cut == "" {
		r.Cut, r.Complete = other.Cut, other.Complete
	}
	r.Holds = slices.DeleteFunc(r.Holds, func(p property.Property) bool { return !slices.Contains(other.Holds, p) })
	r.Unmade, r.Suggested = append(r.Unmade, other.Unmade...), append(r.Suggested, other.Suggested...)
	for _, note := range other.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
}

// addFound adds what another search has counted and found.
func (r *Report) addFound(other *Report) {
	r.States, r.Steps, r.Seconds = r.States+other.States, r.Steps+other.Steps, r.Seconds+other.Seconds
	r.Runs, r.Deliveries, r.Requests = r.Runs+other.Runs, r.Deliveries+other.Deliveries, r.Requests+other.Requests
	for _, v := range other.Violations {
		if !r.violates(v.Property) {
			r.Violations = append(r.Violations, v)
		}
	}
}
