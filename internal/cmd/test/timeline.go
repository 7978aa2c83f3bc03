package test

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/dashboard"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/playback"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// addTimeline adds the timeline of a story to the page of --timeline.
func (t *testPlan) addTimeline(ctx context.Context, name string, options explore.Options, s *counterexample.Story) error {
	if t.timelines == nil || len(s.Steps) == 0 {
		return nil
	}
	options.Progress = nil
	ways, err := playback.Timeline(ctx, options, *s)
	if err != nil {
		return err
	}
	page := dashboard.Story{Name: name, Property: string(s.Property), Violation: s.Violation}
	for i, steps := range ways {
		way := dashboard.StoryWay{Title: "Timeline", Steps: timelineSteps(steps)}
		if i > 0 {
			way.Title = "The other end"
		} else if first := len(s.Steps) - s.Repeats; s.Repeats > 0 && first < len(way.Steps) {
			way.Steps[first].Repeats = true
		}
		page.Ways = append(page.Ways, way)
	}
	t.timelines.Stories = append(t.timelines.Stories, page)
	return nil
}

func timelineSteps(steps []playback.Step) []dashboard.StoryStep {
	all := make([]dashboard.StoryStep, len(steps))
	for i := range steps {
		step := dashboard.StoryStep{Number: i + 1, Lane: steps[i].Lane(), Text: steps[i].Text}
		step.Changes = append(step.Changes, lists.Map(steps[i].Changes, timelineChange)...)
		for _, o := range steps[i].Objects {
			step.Objects = append(step.Objects, dashboard.StoryObject{Name: o.Ref().String(), YAML: yamlOf(o)})
		}
		all[i] = step
	}
	return all
}

func timelineChange(c playback.Change) dashboard.StoryChange {
	change := dashboard.StoryChange{Object: c.Object.String(), What: "changed"}
	switch {
	case c.Before == nil:
		change.What = "created"
	case c.After == nil:
		change.What = "deleted"
	default:
		// Stored objects are valid JSON.
		before, _ := object.Decode(c.Before.JSON())
		after, _ := object.Decode(c.After.JSON())
		change.Fields = object.KeyedChanges(before, after)
	}
	return change
}

func yamlOf(o *object.Object) string {
	text, err := yaml.JSONToYAML(o.JSON())
	if err != nil {
		return string(o.JSON())
	}
	return string(text)
}

// writeTimelines writes the page of --timeline.
func (t *testPlan) writeTimelines(file string) error {
	if t.timelines == nil {
		return nil
	}
	var page bytes.Buffer
	err := t.timelines.Write(&page)
	if err == nil {
		err = os.WriteFile(file, page.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("--timeline: %w", err)
	}
	return nil
}

// newTimelines returns the page of --timeline; nil without the flag.
func (f *testFlags) newTimelines() *dashboard.StoryPage {
	if f.timeline == "" {
		return nil
	}
	lanes := []string{world.LaneUsers, world.LaneSetpoint, world.LaneServer, world.LaneOthers}
	return &dashboard.StoryPage{Version: command.ReadVersion().Version, Lanes: lanes}
}
