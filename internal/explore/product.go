package explore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
)

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
