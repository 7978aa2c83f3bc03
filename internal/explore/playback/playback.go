// Package playback makes the steps of stories once more, and returns what each changes.
package playback

import (
	"context"
	"errors"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Step is a step of a story, what it changed, and what the API server has after it.
type Step struct {
	counterexample.StoryStep

	Changes []Change
	Objects []*object.Object
}

// Change is a change of an object. Before is nil if it was created, After if it is gone.
type Change struct {
	Object        object.Ref
	Before, After *object.Object
}

// Timeline makes the steps of a story, and of the way to the other end if it has one. It returns those that are possible.
func Timeline(ctx context.Context, options explore.Options, story counterexample.Story) ([][]Step, error) {
	return explore.Guarded(func() (ways [][]Step, err error) {
		options.Unrenamed = true
		w, initial, err := explore.Begin(options, &story)
		if err != nil {
			return nil, err
		}
		for _, steps := range [][]counterexample.StoryStep{story.Steps, story.Other} {
			if len(steps) > 0 {
				states := walk(ctx, w, initial, steps)
				ways = append(ways, timelineOf(w, states, steps))
			}
		}
		return ways, errors.Join(w.Err, ctx.Err())
	})
}

// walk makes steps from a state. It returns the states before and after those that are possible.
func walk(ctx context.Context, w *state.Worker, from state.State, steps []counterexample.StoryStep) []state.State {
	way := []state.State{from}
	for i := range steps {
		made := w.ExpandTo(way[i], &steps[i].Action)
		if len(made) == 0 || ctx.Err() != nil {
			break
		}
		way = append(way, made[0].To)
	}
	return way
}

func timelineOf(w *state.Worker, states []state.State, steps []counterexample.StoryStep) []Step {
	way := make([]Step, len(states)-1)
	for i := range way {
		after := states[i+1].Stored
		way[i].StoryStep = steps[i]
		for _, c := range w.Changes(states[i].Stored, after) {
			way[i].Changes = append(way[i].Changes, changeOfObject(c))
		}
		for _, at := range after.Slots {
			if at.Version != nil && at.Name.Ref.GroupKind() != object.Namespaces.GroupKind() {
				way[i].Objects = append(way[i].Objects, at.Version.Object)
			}
		}
	}
	return way
}

// changeOfObject returns a change with the objects alone.
func changeOfObject(d state.Change) Change {
	c := Change{Object: d.After.Name.Ref}
	if d.Before != nil {
		c.Before = d.Before.Object
	}
	if !d.After.Gone {
		c.After = d.After.Object
	}
	return c
}
