package explore

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/graph"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Replayed is what became of a story.
type Replayed struct {
	// Violated is set if the property is still violated, Violation says how.
	Violated  bool
	Violation string
	// Steps are those that were made, Stopped says why no more were; empty if all were made.
	Steps   []counterexample.StoryStep
	Stopped string
	// Notes say what differs from when the story was written.
	Notes []string
}

// Replay makes the steps of a story. The objects, edits and invariants are those of the story, the rest of the
// options is that of today.
func Replay(ctx context.Context, options Options, story counterexample.Story) (result *Replayed, err error) {
	defer func() { err = orPanic(err, recover()) }()
	s, err := replayed(options, &story)
	if err != nil {
		return nil, err
	}
	r := &Replayed{Notes: story.Outdated(options.Version, options.Files)}
	nodes, broken, stopped := s.follow(ctx, story.Steps)
	if s.workers[0].Err != nil {
		return nil, s.workers[0].Err
	}
	if stopped != "" && len(nodes) == 1 && ctx.Err() == nil {
		return nil, fmt.Errorf("nothing was replayed: %s", stopped) // It would pass, whatever the logic does.
	}
	if stopped != "" {
		r.Steps, r.Stopped = s.stepsOf(nodes, -1), stopped
		return r, nil
	}
	rests := true
	if property.IsAboutRest(story.Property, story.Invariants) {
		nodes, rests = s.goToRest(ctx, nodes)
	}
	r.Steps = s.stepsOf(nodes, -1)
	other, stopped := s.otherEnd(ctx, &story)
	if stopped != "" {
		r.Stopped = "on the way to the other end, " + stopped
		return r, nil
	}
	if rests {
		r.Violation = s.stillViolated(&story, nodes, broken, other)
	}
	r.Violated = r.Violation != ""
	return r, s.failure()
}

// otherEnd returns the state of rest to which the other way of a story leads; noParent if it has none.
func (s *search) otherEnd(ctx context.Context, story *counterexample.Story) (end uint32, stopped string) {
	if len(story.Other) == 0 {
		return graph.NoParent, ""
	}
	way, _, stopped := s.follow(ctx, story.Other)
	if stopped != "" {
		return graph.NoParent, stopped
	}
	way, rests := s.goToRest(ctx, way)
	if !rests {
		return graph.NoParent, "it does not come to rest"
	}
	return way[len(way)-1], ""
}

// replayed returns a search that has not begun, with what is in a story.
func replayed(options Options, story *counterexample.Story) (*search, error) {
	if err := story.Check(); err != nil {
		return nil, err
	}
	options.Objects = nil
	for i, raw := range story.Objects {
		o, err := object.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		options.Objects = append(options.Objects, o)
	}
	options.Edits, options.Invariants = story.Edits, story.WithFunctions(options.Invariants)
	options.Unreduced, options.Workers, options.Unchecked = true, 1, nil
	all := len(story.Steps) + len(story.Other)
	options.Bounds.Edits, options.Bounds.Crashes, options.Bounds.Faults = min(all, MaxBudget), min(all, MaxBudget), min(all, MaxBudget)
	return newSearch(options)
}

// follow makes steps from the initial state. It returns the nodes on the way, what these steps violate in themselves,
// and why it stopped. What steps beside the way violate is of no interest.
func (s *search) follow(ctx context.Context, steps []counterexample.StoryStep) (nodes []uint32, broken []property.Finding, stopped string) {
	nodes = []uint32{0}
	for i := range steps {
		if ctx.Err() != nil {
			return nodes, broken, "it was interrupted"
		}
		at := nodes[len(nodes)-1]
		all := s.workers[0].Expand(s.Unpack(s.Nodes[at].State))
		s.merge(at, all)
		step := slices.IndexFunc(all, func(t state.Transition) bool { return world.SameAction(s.Export(t.Action), steps[i].Action) })
		if step < 0 {
			return nodes, broken, fmt.Sprintf("step %d cannot happen any more: %s", i+1, steps[i].Text)
		}
		nodes = append(nodes, s.Nodes[at].Edges[step].To)
		broken = append(broken, all[step].Findings...)
	}
	return nodes, broken, ""
}

// stillViolated returns how the property of a story is violated at the end of its steps; empty if it is not.
func (s *search) stillViolated(story *counterexample.Story, nodes []uint32, broken []property.Finding, other uint32) string {
	for _, f := range broken {
		if f.Property == story.Property {
			return f.Text
		}
	}
	s.found = nil
	end := nodes[len(nodes)-1]
	at := s.Unpack(s.Nodes[end].State)
	for _, f := range s.BrokenIn(at.Stored) {
		s.violated(f, nodes, -1)
	}
	switch story.Property {
	case property.Settles:
		if s.Repeats(nodes, story.Repeats) {
			return fmt.Sprintf("the last %d steps lead back to where they began", story.Repeats)
		}
	case property.NoRecreate:
		text, _ := s.Recreated()
		return text
	case property.Quiet:
		return s.OverwrittenOn(nodes, s.options.Bounds.Writes)
	default:
		if other != graph.NoParent {
			s.checkRest(other)
			s.found = nil
		}
		s.checkRest(end)
	}
	for _, f := range s.found {
		if f.Property == story.Property {
			return f.Text
		}
	}
	return ""
}

// maxToRest bounds the changes after a story until nothing changes any more.
const maxToRest = 200

// goToRest goes on from the end of a way until nothing changes any more: other logic may still have something to do where
// the story ended. Where pods end and are replaced for ever, that is a state in which nothing else changes. It reports
// false if there is no such state.
func (s *search) goToRest(ctx context.Context, nodes []uint32) (way []uint32, rests bool) {
	way = slices.Clone(nodes)
	quiet := map[uint32]int{} // How long the way to each state is in which nothing but the end of a pod changes anything.
	for range maxToRest {
		last := way[len(way)-1]
		next := s.nextChange(ctx, last, s.KeepsPods)
		if len(next) == 0 {
			at := s.Nodes[last].State.Stored
			if length, isBack := quiet[at]; isBack {
				return way[:length], ctx.Err() == nil
			}
			quiet[at] = len(way)
			if next = s.nextChange(ctx, last, s.IsNatural); len(next) == 0 {
				return way, ctx.Err() == nil
			}
		}
		way = append(way, next[1:]...)
	}
	return way, false
}

// nextChange returns the shortest way of some steps to a change of what is stored; none if there is none.
func (s *search) nextChange(ctx context.Context, from uint32, follows func(graph.Edge) bool) []uint32 {
	at := s.Nodes[from].State.Stored
	return graph.Shortest(from, func(id uint32, visit graph.Visitor[uint32]) {
		if ctx.Err() != nil {
			return
		}
		s.merge(id, s.workers[0].Expand(s.Unpack(s.Nodes[id].State)))
		for _, e := range s.Nodes[id].Edges {
			if follows(e) {
				visit(e.To, s.Nodes[e.To].State.Stored != at)
			}
		}
	})
}
