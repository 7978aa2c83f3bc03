package explore

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// TimelineStep is a step of a story, what it changed, and what the API server has after it.
type TimelineStep struct {
	StoryStep

	Changes []ObjectChange
	Objects []*object.Object
}

// ObjectChange is a change of an object. Before is nil if it was created, After if it is gone.
type ObjectChange struct {
	Object        object.Ref
	Before, After *object.Object
}

// Timeline makes the steps of a story, and of the way to the other end if it has one. It returns those that are possible.
func Timeline(ctx context.Context, options Options, story Story) ([][]TimelineStep, error) {
	return Guarded(func() (ways [][]TimelineStep, err error) {
		options.Unrenamed = true
		w, initial, err := Begin(options, &story)
		if err != nil {
			return nil, err
		}
		for _, steps := range [][]StoryStep{story.Steps, story.Other} {
			if len(steps) > 0 {
				states, _ := walk(ctx, w, initial, steps)
				ways = append(ways, timelineOf(w, states, steps))
			}
		}
		return ways, errors.Join(w.err, ctx.Err())
	})
}

// walk makes steps from a state. It returns the states before and after them, and why it stopped.
func walk(ctx context.Context, w *worker, from state, steps []StoryStep) (way []state, stopped string) {
	way = []state{from}
	for i := range steps {
		if ctx.Err() != nil {
			return way, "it was interrupted"
		}
		made := w.expandTo(way[i], &steps[i].Action)
		if len(made) == 0 {
			return way, fmt.Sprintf("step %d cannot happen any more: %s", i+1, steps[i].Text)
		}
		way = append(way, made[0].to)
	}
	return way, ""
}

func timelineOf(w *worker, states []state, steps []StoryStep) []TimelineStep {
	way := make([]TimelineStep, len(states)-1)
	for i := range way {
		after := states[i+1].stored
		way[i].StoryStep = steps[i]
		for _, c := range w.changes(states[i].stored, after) {
			way[i].Changes = append(way[i].Changes, changeOfObject(c))
		}
		for _, at := range after.slots {
			if at.version != nil && at.name.ref.GroupKind() != object.Namespaces.GroupKind() {
				way[i].Objects = append(way[i].Objects, at.version.object)
			}
		}
	}
	return way
}

// changeOfObject returns a change with the objects alone.
func changeOfObject(d difference) ObjectChange {
	c := ObjectChange{Object: d.after.name.ref}
	if d.before != nil {
		c.Before = d.before.object
	}
	if !d.after.gone {
		c.After = d.after.object
	}
	return c
}
