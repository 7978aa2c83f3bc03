// Package explore searches all interleavings of a controller, its API server, its users and its environment
// within bounds, and reports the properties that do not hold, each with a shortest story.
//
// It contains the search, in groups of objects where they have nothing in common, what is checked of it, the report, and the
// replay of stories. The states, the graph, the properties and the stories are values of the packages below it.
package explore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Explore searches the states of the controllers. It returns what it has found when the context ends.
func Explore(ctx context.Context, options Options) (result *Report, err error) {
	defer func() { err = orPanic(err, recover()) }()
	report, err := exploreWithin(ctx, &options)
	if err != nil {
		return nil, err
	}
	for _, pass := range options.Passes {
		if ctx.Err() != nil || options.hasDifferences() {
			break // What is explored of a hook that responds in two ways says nothing of it.
		}
		if len(report.Violations) > 0 {
			report.Cut = cmp.Or(report.Cut, enoughFound) // Such as a status that grows, which no other search ends at.
			break
		}
		pass.Options.Progress = options.Progress
		further, err := exploreWithin(ctx, &pass.Options)
		if options.hasDifferences() {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pass.Name, err)
		}
		report.addPass(pass.Name, further)
	}
	if err := options.repeatCalls(ctx); err != nil {
		return nil, err
	}
	report.NotVaried = options.NotVaried
	if len(options.Invariants)+len(report.Violations) == 0 {
		report.Notes = append(report.Notes, "Without invariants nothing is said of the way, such as what is deleted first, how many "+
			"children change at a time, or how many are ready during an update.")
	} else {
		report.Suggested = nil
	}
	report.addHooks(&options)
	if ctx.Err() == nil {
		if err := report.notExplored(options.Memo); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// exploreWithin explores in groups if that is possible, and for no longer than the bounds say.
func exploreWithin(ctx context.Context, given *Options) (*Report, error) {
	*given = given.withDefaults()
	options := *given
	ctx, cancel := context.WithTimeout(ctx, options.Bounds.Time)
	defer cancel()
	if groups := groupsOf(options); len(groups) > 1 {
		report, why, err := exploreApart(ctx, options, groups)
		if report != nil || err != nil {
			return report, err
		}
		options.shared = why
	}
	s, err := newSearch(options)
	if err != nil {
		return nil, err
	}
	if err := s.explore(ctx); err != nil {
		return nil, err
	}
	return s.report(), nil
}

// group is objects of users that are explored apart from others, with their edits.
type group struct {
	objects []*object.Object
	edits   []world.Edit
}

func (g group) String() string {
	names := lists.Map(g.objects, func(o *object.Object) string { return o.Ref().Identity().String() })
	for i := range g.edits {
		if g.edits[i].Create.Object != nil {
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
	if options.Unreduced || options.Together {
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

// optionsOf returns the options for a group. The invariants of authors speak of all objects.
func (g *group) optionsOf(all Options) Options {
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
		i, j, overlap := dependentGroups(searches)
		switch {
		case overlap != "":
			why, groups = overlap, merged(groups, i, j)
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
		s, err := newSearch(groups[i].optionsOf(options))
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

// dependentGroups returns two groups that are not independent, and why; an empty text if all are.
func dependentGroups(searches []*search) (i, j int, why string) {
	dependencies := make([]*state.Dependencies, len(searches))
	for i, s := range searches {
		dependencies[i] = s.workers[0].Dependencies(s.initial)
	}
	for i, one := range dependencies {
		for j, other := range dependencies[:i] {
			if why := cmp.Or(one.Overlap(other), other.Overlap(one)); why != "" {
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
	names := lists.Map(groups, group.String)
	report.Notes = append(report.Notes, exploredApart+strings.Join(names, "; ")+".")
	return report, "", nil
}
