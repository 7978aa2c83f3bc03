package explore_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestStoriesReplay(t *testing.T) {
	for _, m := range mistakes {
		if m.want == property.Deterministic {
			continue // The story of a hook that differs is the difference.
		}
		t.Run(m.name, func(t *testing.T) {
			story := run(t, m.options(t)).Violations[0]
			data := must.Get(json.Marshal(story)).In(t)
			var read counterexample.Story
			must.Succeed(t, json.Unmarshal(data, &read))
			again := must.Get(explore.Replay(t.Context(), m.options(t), read)).In(t)
			if !again.Violated || again.Stopped != "" {
				t.Errorf("%+v", again)
			}
			if !reflect.DeepEqual(again.Steps, story.Steps) {
				t.Errorf("the steps are now %+v\nand were %+v", again.Steps, story.Steps)
			}
			mended := m.options(t)
			mended.Controller = system(t, func(thing, *hook.Request) *hook.Response { return &hook.Response{} }).Controller
			again = must.Get(explore.Replay(t.Context(), mended, read)).In(t)
			if again.Violated && m.want != "odd" && m.want != "typo" {
				t.Errorf("a hook without children still violates it: %+v", again)
			}
		})
	}
}

// TestStepsBesideAStory shows that a story is about its own steps: another client could violate the invariant as well.
func TestStepsBesideAStory(t *testing.T) {
	options := func(do sync) explore.Options {
		o := system(t, do)
		o.Edits = []world.Edit{editOf("other text", map[string]any{"text": "y"})}
		o.Invariants = []property.Invariant{{Name: "none goes", Step: "before.children.size() <= after.children.size()"}}
		o.Bounds = explore.Bounds{Edits: 1}
		return o
	}
	story := run(t, options(func(parent thing, r *hook.Request) *hook.Response {
		response := numbered(parent, r)
		if parent.Spec.Text == "y" {
			response.Children = response.Children[1:]
		}
		return response
	})).Violations[0]
	again, err := explore.Replay(t.Context(), options(numbered), story)
	if err != nil || again.Violated || again.Stopped != "" {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestStoriesOfRestGoOn shows that where a story ended, other logic may not be at rest yet.
func TestStoriesOfRestGoOn(t *testing.T) {
	options := func(do sync) explore.Options {
		o := system(t, do)
		o.Invariants = []property.Invariant{{Name: "both", Eventually: "children.size() == 2"}}
		return o
	}
	upTo := func(limit int) sync {
		return func(parent thing, r *hook.Request) *hook.Response {
			response := numbered(parent, r)
			response.Children = response.Children[:min(len(r.Children[0].Objects)+1, limit)]
			return response
		}
	}
	story := run(t, options(upTo(1))).Violations[0]
	for limit, violated := range map[int]bool{1: true, 2: false} {
		again, err := explore.Replay(t.Context(), options(upTo(limit)), story)
		if err != nil || again.Stopped != "" || again.Violated != violated || (len(again.Steps) > len(story.Steps)) == violated {
			t.Errorf("with %d: %+v, %v", limit, again, err)
		}
	}
}

// changed returns steps with another first one.
func changed(steps []counterexample.StoryStep, change func(*world.Action)) []counterexample.StoryStep {
	all := slices.Clone(steps)
	change(&all[0].Action)
	return all
}

func TestStoriesThatDoNotFit(t *testing.T) {
	m := mistakes[0]
	story := run(t, m.options(t)).Violations[0]
	for name, test := range map[string]struct {
		change func(*counterexample.Story, *explore.Options)
		want   string
	}{
		"another kind":     {func(s *counterexample.Story, _ *explore.Options) { s.Kind = "Case" }, `kind: is "Case"`},
		"another API":      {func(s *counterexample.Story, _ *explore.Options) { s.APIVersion = "test.setpoint.dev/v9" }, "apiVersion"},
		"no steps":         {func(s *counterexample.Story, _ *explore.Options) { s.Steps = nil }, "steps: is empty"},
		"another property": {func(s *counterexample.Story, _ *explore.Options) { s.Property = "Perfect" }, `property: "Perfect" is neither`},
		"an unknown step": {func(s *counterexample.Story, _ *explore.Options) {
			s.Steps = changed(s.Steps, func(a *world.Action) { a.Step = "wait" })
		}, `steps[0].step: "wait" is no step; there are deliver, reconcile, `},
		"a step without a key": {func(s *counterexample.Story, _ *explore.Options) {
			s.Steps = changed(s.Steps, func(a *world.Action) { a.Key = "" })
		}, "steps[0].key: is required for the step reconcile"},
		"an unknown edit": {func(s *counterexample.Story, _ *explore.Options) {
			object := things.Ref("default", "a")
			s.Steps = changed(s.Steps, func(a *world.Action) { *a = world.Action{Step: "edit", Object: &object, Name: "other"} })
		}, `steps[0].name: "other" is not among the edits of Thing default/a in the story`},
		"an impossible step": {func(s *counterexample.Story, _ *explore.Options) {
			s.Steps = changed(s.Steps, func(a *world.Action) { a.Key = "default/z" })
		}, "nothing was replayed: step 1 cannot happen any more"},
		"a broken object": {func(s *counterexample.Story, _ *explore.Options) { s.Objects = []json.RawMessage{[]byte("3")} }, "objects[0]"},
	} {
		other, options := story, m.options(t)
		test.change(&other, &options)
		if _, err := explore.Replay(t.Context(), options, other); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	old, options := story, m.options(t)
	old.Files, old.Setpoint = map[string]string{"a.yaml": "1"}, "v0.1"
	options.Files, options.Version = map[string]string{"a.yaml": "2"}, "v0.2"
	again, err := explore.Replay(t.Context(), options, old)
	if err != nil || !again.Violated {
		t.Fatal(again, err)
	}
	wantText(t, strings.Join(again.Notes, "\n"), "Setpoint v0.1", "this is v0.2", "a.yaml has changed")
}
