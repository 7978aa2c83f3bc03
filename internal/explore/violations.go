package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/graph"
	"github.com/setpoint-dev/setpoint/internal/explore/outcome"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// found is a violation, and the way to it.
type found struct {
	property.Finding

	// nodes are the states on the way.
	nodes []uint32
	// last is the step after the last of them that is wrong in itself; -1 if a state is.
	last int
	// repeats is how many steps at the end go on for ever, other a state to compare with; noParent for none.
	repeats int
	other   uint32
}

// violated records the first violation of each property: within a layer, its way is a shortest one.
func (s *search) violated(f property.Finding, nodes []uint32, last int) *found {
	v := &found{Finding: f, nodes: nodes, last: last, other: graph.NoParent}
	if !s.violates(f.Property) && !slices.Contains(s.options.Unchecked, f.Property) {
		s.found = append(s.found, v)
	}
	return v
}

// violatedOn records that a property does not hold on a way; nothing if the text is empty.
func (s *search) violatedOn(way []uint32, p property.Property, text string) {
	if text != "" {
		s.violated(property.Finding{Property: p, Text: text}, way, -1)
	}
}

func (s *search) violates(p property.Property) bool {
	return slices.ContainsFunc(s.found, func(one *found) bool { return one.Property == p })
}

// firstCheck is the number of states at which the graph is checked for the first time while it grows, and how many
// states a search looks at, at least, for violations of more properties.
const firstCheck = 20_000

// enoughFound says why a search ends at violations.
const enoughFound = "violations were found, and what follows would have longer stories"

// enough reports whether violations end the search. The layer goes on, for one run to show all that is violated; but
// not for ever.
func (s *search) enough() string {
	if s.options.hasDifferences() {
		return "a hook is not deterministic"
	}
	if len(s.Nodes) >= s.nextCheck {
		// An endless way must not hide what is violated on it.
		s.nextCheck = 2 * len(s.Nodes)
		s.checkLayer()
	}
	if len(s.found) == 0 {
		return ""
	}
	if s.lastState == 0 {
		s.lastState = len(s.Nodes) + max(len(s.Nodes), firstCheck)
	}
	if len(s.Nodes) >= s.lastState {
		return enoughFound
	}
	return ""
}

// checksHooks reports whether hooks have to respond to equal requests equally.
func (o *Options) checksHooks() bool {
	return o.Memo != nil && !slices.Contains(o.Unchecked, property.Deterministic)
}

// hasDifferences reports whether a hook was seen to respond in two ways.
func (o *Options) hasDifferences() bool { return o.checksHooks() && len(o.Memo.Differences()) > 0 }

// These bound the calls that are made once more at the end: the time in which they begin, and that in which they end, of
// the same processes and of those that were restarted, and how often they are: a few times also on a slow machine.
const (
	repeating       = time.Second
	lastRepeating   = 10 * time.Second
	restarting      = 5 * time.Second
	lastRestarting  = 30 * time.Second
	minHookRestarts = 3
	maxHookRestarts = 8
)

// repeatCalls finds hooks with a memory. It does so when the time of the search is over, too, but not if it was
// interrupted.
func (o *Options) repeatCalls(ctx context.Context) error {
	if !o.checksHooks() || errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	within, cancel := context.WithTimeout(ctx, lastRepeating)
	defer cancel()
	o.Memo.Repeat(within, repeating)
	return o.restartHooks(ctx)
}

// restartHooks compares responses with those of hooks whose processes have just started.
func (o *Options) restartHooks(ctx context.Context) error {
	if o.Restart == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastRestarting)
	defer cancel()
	for i, end := 0, time.Now().Add(restarting); i < maxHookRestarts && (i < minHookRestarts || time.Now().Before(end)) &&
		len(o.Memo.Differences()) == 0; i++ {
		programs, stop, err := o.Restart(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("start the hooks once more, to compare what they respond: %w", err)
		}
		o.Memo.RepeatRestarted(ctx, i, programs)
		stop()
	}
	return nil
}

// checkRest checks a state in which nothing changes any more.
func (s *search) checkRest(id uint32) {
	at, way := s.Unpack(s.Nodes[id].State), s.Path(id)
	s.violatedOn(way, property.Finalized, s.deletingAtRest(at))
	s.violatedOn(way, property.Owned, s.leftOver(at.Stored))
	wrote, item, failure := s.workers[0].Undesired(at)
	s.violatedOn(way, property.Desired, wrote)
	if failure != nil {
		s.notes[s.layer].add(notes{failing: 1, failure: failure.Error()})
		if !s.violates(property.Valid) { // Else a write that is refused for good, or a panic, is the failure.
			s.violatedOn(way, property.Reconciled, fmt.Sprintf("every reconcile of %s for %s fails: %v",
				item.Object, item.Controller, failure))
		}
	}
	for _, f := range s.Broken(at.Stored, true) {
		s.violated(f, way, -1)
	}
	if failure == nil {
		s.checkSameEnd(id, at)
	}
}

// checkSameEnd compares a state of rest with the first one that has the same specs. After faults, traces of them may
// remain, so only states without are compared.
func (s *search) checkSameEnd(id uint32, at state.State) {
	if at.Spent.Faults > 0 {
		return
	}
	var all []outcome.Object
	for _, one := range at.Stored.Entries {
		if one.Version != nil {
			all = append(all, outcome.Object{Object: one.Version.Object, Content: one.Version.Body, Kept: s.Seeds[one.Name]})
		}
	}
	if first, difference := s.ends.Add(id, all); difference != "" {
		f := property.Finding{Property: property.SameEnd, Text: "with the same specs it also comes to rest otherwise: " + difference}
		s.violated(f, s.Path(id), -1).other = first
	}
}

// deletingAtRest finds an object that is being deleted for ever, although nothing but finalizers holds it. Namespaces come
// last: what is in them holds them.
func (s *search) deletingAtRest(at state.State) string {
	var held *state.Name
	for _, one := range at.Stored.Entries {
		switch {
		case one.Version == nil || !one.Version.Object.Deleting():
		case s.workers[0].HeldByOutage(at, one.Name):
			return "" // What holds it may hold its namespace and its owner, too.
		case held == nil || held.Ref.GroupKind() == object.Namespaces.GroupKind():
			held = one.Name
		}
	}
	if held == nil {
		return ""
	}
	return fmt.Sprintf("%s is being deleted for ever; its finalizers: %s",
		held.Ref, strings.Join(at.Stored.Get(held).Version.Object.Finalizers(), ", "))
}

// leftOver finds what runs have created and left behind: objects without an owner, though all objects are gone whose
// runs have created them.
func (s *search) leftOver(at *state.Contents) string {
	for _, one := range at.Entries {
		creators := s.creators[one.Name]
		if one.Version == nil || len(creators) == 0 || len(one.Version.Object.Field("metadata", "ownerReferences")) > 0 {
			continue
		}
		if !slices.ContainsFunc(creators, func(n *state.Name) bool { return at.Get(n).Version != nil }) {
			return fmt.Sprintf("%s has no owner, and stays though %s is gone", one.Name.Ref, creators[0].Ref)
		}
	}
	return ""
}

// noteCreator notes whose run has created an object.
func (s *search) noteCreator(e *state.Effect) {
	if e.By != nil && !slices.Contains(s.creators[e.Name], e.By) {
		s.creators[e.Name] = append(s.creators[e.Name], e.By)
	}
}

// suggested returns invariants that hold in what was explored without faults.
func (s *search) suggested() []property.Invariant {
	seen, looked := property.Departures{}, map[[2]uint32]bool{}
	for i := range s.Nodes {
		from := s.Nodes[i].State.Stored
		for _, e := range s.Nodes[i].Edges {
			to := &s.Nodes[e.To].State
			if step := [2]uint32{from, to.Stored}; to.Spent.Faults == 0 && !looked[step] {
				looked[step] = true
				seen.Add(s.Contents(from).Raw(), s.Contents(to.Stored).Raw())
			}
		}
	}
	return seen.Invariants()
}

func (s *search) story(f *found) counterexample.Story {
	story := s.options.story(f.Property, f.Text)
	story.Steps, story.Repeats = s.stepsOf(f.nodes, f.last), f.repeats
	if f.other != graph.NoParent {
		story.Other = s.stepsOf(s.Path(f.other), -1)
	}
	used := map[string]bool{}
	for _, step := range slices.Concat(story.Steps, story.Other) {
		if step.Step == world.MakeEdit {
			used[step.Name+" "+step.Object.String()] = true
		}
	}
	for _, e := range s.options.Edits {
		if used[e.Name+" "+e.Object.Identity().String()] {
			story.Edits = append(story.Edits, e)
		}
	}
	for _, i := range s.options.Invariants {
		if property.Property(i.Name) == f.Property {
			story.Invariants = append(story.Invariants, i)
		}
	}
	return story
}

// stepsOf returns the steps between nodes, and after them the one with a number.
func (s *search) stepsOf(nodes []uint32, last int) []counterexample.StoryStep {
	w := s.workers[0]
	var steps []counterexample.StoryStep
	add := func(from state.State, t *state.Transition) {
		steps = append(steps, counterexample.StoryStep{Action: s.Export(t.Action), Text: w.Describe(from, t)})
	}
	for i := range nodes[:len(nodes)-1] {
		way := s.Fill(nodes[i], nodes[i+1])
		for j := range way[1:] {
			from := s.Nodes[way[j]]
			all := w.Expand(s.Unpack(from.State))
			step := slices.IndexFunc(from.Edges, func(e graph.Edge) bool { return e.To == way[j+1] })
			add(s.Unpack(from.State), &all[step])
		}
	}
	if last >= 0 {
		from := s.Unpack(s.Nodes[nodes[len(nodes)-1]].State)
		all := w.Expand(from)
		add(from, &all[last])
	}
	return steps
}

// story returns a story without steps.
func (o *Options) story(violated property.Property, how string) counterexample.Story {
	name := strings.ToLower(strings.ReplaceAll(string(violated), " ", "-"))
	story := counterexample.Story{
		APIVersion: counterexample.APIVersion, Kind: counterexample.Kind, Metadata: counterexample.Metadata{Name: name},
		Setpoint: o.Version, Files: o.Files, Controllers: o.Names, Property: violated, Violation: how,
	}
	for _, object := range o.Objects {
		story.Objects = append(story.Objects, object.JSON())
	}
	return story
}
