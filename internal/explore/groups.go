package explore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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

// maxCombinations is how often invariants are evaluated for what groups have stored; if that is not enough, all objects
// are explored together.
const maxCombinations = 100_000

// contents is what the objects of a group were, without what expressions cannot see: resource versions.
type contents struct {
	versions []*state.Version
	// spent are the fewest edits and faults that lead here; rest is set for states of rest, after are what follows.
	spent state.Budget
	rest  bool
	after map[int]bool
}

// contentsOf returns the contents of a search, each once.
func (s *search) contentsOf() []*contents {
	var all []*contents
	common, index, known := s.CommonNames(s.initial), map[string]int{}, map[uint32]int{}
	at := func(id uint32) int {
		if i, is := known[id]; is {
			return i
		}
		var k []byte
		one := &contents{spent: state.Budget{Edits: MaxBudget, Faults: MaxBudget}, after: map[int]bool{}}
		for _, entry := range s.Contents(id).Entries {
			if entry.Version != nil && !common[entry.Name] {
				one.versions = append(one.versions, entry.Version)
				k = fmt.Append(k, entry.Name.ID, " ", entry.Version.Body, " ")
			}
		}
		i, is := index[string(k)]
		if !is {
			i = len(all)
			index[string(k)], all = i, append(all, one)
		}
		known[id] = i
		return i
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		from := at(n.State.Stored)
		one := all[from]
		one.spent.Edits, one.spent.Faults = min(one.spent.Edits, n.State.Spent.Edits), min(one.spent.Faults, n.State.Spent.Faults)
		one.rest = one.rest || s.rests[n.State.Stored]
		for _, e := range n.Edges {
			if to := at(s.Nodes[e.To].State.Stored); to != from {
				one.after[to] = true
			}
		}
	}
	return all
}

// together evaluates the invariants of authors for what groups have stored at once.
type together struct {
	*state.Space

	ctx   context.Context //nolint:containedctx // It ends with the search.
	parts [][]*contents
	// chosen are those of each group. visit looks at each choice, and ends with a text.
	chosen []*contents
	visit  func() string
}

// brokenTogether returns why combinations have to be explored: an invariant does not hold in one that may be possible,
// or there are too many. An empty text means that the invariants hold in all, unless the context has ended.
func brokenTogether(ctx context.Context, options Options, searches []*search) (why string, err error) {
	if len(options.Invariants) == 0 {
		return "", nil
	}
	e, err := state.New(options.System, options.Bounds.budget())
	if err != nil {
		return "", err
	}
	t := &together{Space: e, ctx: ctx}
	t.visit = t.broken
	evaluations := 1
	for _, s := range searches {
		t.parts = append(t.parts, s.contentsOf())
		evaluations *= len(t.parts[len(t.parts)-1])
	}
	if e.HasSteps() {
		evaluations *= t.mostSteps()
	}
	if evaluations > maxCombinations {
		return fmt.Sprintf("the invariants speak of all, and there are %d combinations of what is stored", evaluations), nil
	}
	return t.combine(state.Budget{}), nil
}

// mostSteps is the largest number of steps from one combination.
func (t *together) mostSteps() int {
	all := 0
	for _, part := range t.parts {
		most := 0
		for _, one := range part {
			most = max(most, len(one.after))
		}
		all += most
	}
	return max(1, all)
}

// combine chooses contents of the groups that have none yet, in all ways that the bounds allow.
func (t *together) combine(spent state.Budget) string {
	at := len(t.chosen)
	if at == len(t.parts) {
		return t.visit()
	}
	for _, one := range t.parts[at] {
		next := state.Budget{Edits: spent.Edits + one.spent.Edits, Faults: spent.Faults + one.spent.Faults}
		if next.Edits > t.Most.Edits || next.Faults > t.Most.Faults || t.ctx.Err() != nil {
			continue
		}
		t.chosen = append(t.chosen, one)
		why := t.combine(next)
		t.chosen = t.chosen[:at]
		if why != "" {
			return why
		}
	}
	return ""
}

// broken returns which invariant does not hold in the chosen contents, or in a step from there.
func (t *together) broken() string {
	here := t.stored()
	found := t.Broken(here, false)
	if !slices.ContainsFunc(t.chosen, func(one *contents) bool { return !one.rest }) {
		found = append(found, t.Broken(here, true)...)
	}
	if t.HasSteps() {
		found = append(found, t.brokenSteps(here)...)
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("the invariant %q may not hold", found[0].Property)
}

func (t *together) brokenSteps(here *state.Contents) []property.Finding {
	var all []property.Finding
	for i, one := range t.chosen {
		for _, next := range slices.Sorted(maps.Keys(one.after)) {
			t.chosen[i] = t.parts[i][next]
			all = append(all, t.BrokenStep(here, t.stored())...)
		}
		t.chosen[i] = one
	}
	return all
}

// stored returns what is stored if each group has its chosen contents.
func (t *together) stored() *state.Contents {
	var entries []state.Entry
	for _, one := range t.chosen {
		for _, v := range one.versions {
			entries = append(entries, state.Entry{Name: v.Name, Version: v})
		}
	}
	slices.SortFunc(entries, func(a, b state.Entry) int { return apiserver.CompareRefs(a.Name.Ref, b.Name.Ref) })
	return &state.Contents{Entries: entries}
}
