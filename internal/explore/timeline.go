package explore

import (
	"context"
	"errors"

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
func Timeline(ctx context.Context, options Options, story Story) (ways [][]TimelineStep, err error) {
	err = guarded(func() error {
		options.unrenamed = true
		s, err := replayed(options, &story)
		if err != nil {
			return err
		}
		for _, steps := range [][]StoryStep{story.Steps, story.Other} {
			if len(steps) > 0 {
				ways = append(ways, s.timeline(ctx, steps))
			}
		}
		return errors.Join(s.workers[0].err, ctx.Err())
	})
	return ways, err
}

func (s *search) timeline(ctx context.Context, steps []StoryStep) []TimelineStep {
	nodes, _, _ := s.follow(ctx, steps)
	way := make([]TimelineStep, 0, len(nodes)-1)
	for i := range nodes[:len(nodes)-1] {
		before, after := s.unpack(s.nodes[nodes[i]].state).stored, s.unpack(s.nodes[nodes[i+1]].state).stored
		step := TimelineStep{StoryStep: steps[i]}
		for _, c := range changes(s.engine, before, after) {
			step.Changes = append(step.Changes, c.export())
		}
		for _, at := range after.slots {
			if at.version != nil && at.name.ref.GroupKind() != object.Namespaces.GroupKind() {
				step.Objects = append(step.Objects, at.version.object)
			}
		}
		way = append(way, step)
	}
	return way
}

func (d difference) export() ObjectChange {
	c := ObjectChange{Object: d.after.name.ref}
	if d.before != nil {
		c.Before = d.before.object
	}
	if !d.after.gone {
		c.After = d.after.object
	}
	return c
}

// The lanes of a timeline.
const (
	LaneUsers    = "Users and other clients"
	LaneSetpoint = "Setpoint"
	LaneServer   = "API server"
	LaneOthers   = "Other controllers"
)

// Lane returns the one who makes the step.
func (a *Action) Lane() string {
	switch a.Step {
	case edit, interfere:
		return LaneUsers
	case reconcile, send, restart:
		return LaneSetpoint
	case deliver, reject:
		return LaneServer
	default:
		return LaneOthers
	}
}
