package explore

import (
	"slices"
	"strings"
)

// story returns the story of a violation.
func (s *search) story(f *found) Story {
	story := s.options.story(f.property, f.text)
	story.Steps, story.Repeats = s.stepsOf(f.nodes, f.last), f.repeats
	if f.other != noParent {
		story.Other = s.stepsOf(s.path(f.other), -1)
	}
	used := map[string]bool{}
	for _, step := range slices.Concat(story.Steps, story.Other) {
		if step.Step == edit {
			used[step.Name+" "+step.Object.String()] = true
		}
	}
	for _, e := range s.options.Edits {
		if used[e.Name+" "+e.Object.Identity().String()] {
			story.Edits = append(story.Edits, e)
		}
	}
	for _, i := range s.options.Invariants {
		if Property(i.Name) == f.property {
			story.Invariants = append(story.Invariants, i)
		}
	}
	return story
}

// stepsOf returns the steps between nodes, and after them the one with a number.
func (s *search) stepsOf(nodes []uint32, last int) []StoryStep {
	w := s.workers[0]
	var steps []StoryStep
	add := func(from state, t *transition) {
		steps = append(steps, StoryStep{Action: s.export(t.action), Text: w.describe(from, t)})
	}
	for i := range nodes[:len(nodes)-1] {
		way := s.fill(nodes[i], nodes[i+1])
		for j := range way[1:] {
			from := s.nodes[way[j]]
			all := w.expand(s.unpack(from.state))
			step := slices.IndexFunc(from.edges, func(e edge) bool { return e.to == way[j+1] })
			add(s.unpack(from.state), &all[step])
		}
	}
	if last >= 0 {
		from := s.unpack(s.nodes[nodes[len(nodes)-1]].state)
		all := w.expand(from)
		add(from, &all[last])
	}
	return steps
}

// story returns a story without steps.
func (o *Options) story(violated Property, how string) Story {
	story := Story{
		APIVersion: StoryAPIVersion, Kind: StoryKind, Metadata: StoryMetadata{Name: strings.ToLower(strings.ReplaceAll(string(violated),
			" ", "-"))},
		Setpoint: o.Version, Files: o.Files, Controllers: o.Names, Property: violated, Violation: how, LateWrites: o.LateWrites,
	}
	for _, object := range o.Objects {
		story.Objects = append(story.Objects, object.JSON())
	}
	return story
}
