package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// deletion is the edit in which a user deletes the thing.
func deletion() explore.Edit {
	return explore.Edit{Name: "delete", Object: things.Ref("default", "a"), Delete: true}
}

func TestACorrectControllerHolds(t *testing.T) {
	options := system(t, numbered)
	options.Edits = []explore.Edit{editOf("one", map[string]any{"size": 1}), editOf("other text", map[string]any{"text": "y"}), deletion()}
	options.Bounds = explore.Bounds{Edits: 1, Crashes: 1, Faults: 1}
	options.Invariants = []explore.Invariant{
		{Name: "not too many", Never: "children.size() > 2"},
		{Name: "as many as desired", Eventually: "parents.all(p, p.spec.size == children.size())"},
		{Name: "at most one at a time", Step: "after.children.size() - before.children.size() <= 1"},
	}
	report := run(t, options)
	wantViolations(t, report)
	if report.Cut != "" || len(report.Holds) != len(explore.Properties)+3 {
		t.Errorf("cut: %s, holds: %v", report.Cut, report.Holds)
	}
}

// mistake is a system with a mistake, and what finds it.
type mistake struct {
	name       string
	do         sync
	edits      []explore.Edit
	bounds     explore.Bounds
	invariants []explore.Invariant
	want       explore.Property
	text       []string
}

func (m mistake) options(t *testing.T) explore.Options {
	t.Helper()
	options := system(t, m.do)
	options.Edits, options.Bounds, options.Invariants = m.edits, m.bounds, m.invariants
	return options
}

func text(object json.RawMessage) string {
	var configMap struct{ Data struct{ Text string } }
	_ = json.Unmarshal(object, &configMap) // It is a ConfigMap.
	return configMap.Data.Text
}

// one is the response with one ConfigMap.
func one(text string) *hook.Response {
	return &hook.Response{Children: []json.RawMessage{configMap("c", text)}}
}

var mistakes = []mistake{
	{
		name: "a hook that changes its mind",
		do: func(_ thing, r *hook.Request) *hook.Response {
			if len(r.Children[0].Objects) > 0 && text(r.Children[0].Objects[0].Object) == "a" {
				return one("b")
			}
			return one("a")
		},
		want: explore.Settles, text: []string{"it never comes to rest", "writes of ConfigMap default/c", "These steps repeat for ever"},
	},
	{
		name: "a hook that returns something else each time",
		do:   func(thing, *hook.Request) *hook.Response { return one(fmt.Sprint(rand.Int())) },
		want: explore.Deterministic, text: []string{"the hook things sync responds to one request in two ways"},
	},
	{
		name: "what was created stays",
		do: func(parent thing, r *hook.Request) *hook.Response {
			parent.Spec.Size = max(parent.Spec.Size, len(r.Children[0].Objects))
			return numbered(parent, r)
		},
		edits: []explore.Edit{editOf("one", map[string]any{"size": 1}), editOf("two", map[string]any{"size": 2})}, bounds: explore.Bounds{Edits: 1},
		want: explore.SameEnd, text: []string{"with the same specs it also comes to rest otherwise: ConfigMap default/a-1", "The other end:"},
	},
	{
		name: "a child that the API server rejects",
		do: func(thing, *hook.Request) *hook.Response {
			return &hook.Response{Children: []json.RawMessage{configMap("C!", "a")}}
		},
		want: explore.Valid, text: []string{"the API server rejects a write", "C!"},
	},
	{
		name: "a hook that panics",
		do: func(parent thing, _ *hook.Request) *hook.Response {
			if parent.Spec.Size == 0 {
				panic("no pods")
			}
			return &hook.Response{}
		},
		edits: []explore.Edit{editOf("none", map[string]any{"size": 0})}, bounds: explore.Bounds{Edits: 1},
		want: explore.Valid, text: []string{"the reconcile panics", "no pods", "A user edits Thing default/a: none (spec.size is 0, was 2)."},
	},
	{
		name: "a child that is made twice",
		do: func(parent thing, r *hook.Request) *hook.Response {
			var status struct{ Status struct{ Seen bool } }
			_ = json.Unmarshal(r.Parent, &status)
			exists := len(r.Children[0].Objects) > 0
			response := &hook.Response{Status: []byte(`{"seen":true}`)}
			if !exists && !status.Status.Seen {
				response.Status = []byte(`{"seen":false}`)
			}
			if exists != status.Status.Seen || !exists {
				response.Children = []json.RawMessage{configMap("c", "a")}
			}
			if exists && !status.Status.Seen {
				response.Children = nil
			}
			if exists && status.Status.Seen {
				response.Children = []json.RawMessage{configMap("c", "a")}
			}
			return response
		},
		want: explore.NoRecreate, text: []string{"ConfigMap default/c is created, deleted and created again"},
	},
	{
		name: "a counter",
		do: func(_ thing, r *hook.Request) *hook.Response {
			n := 0
			if len(r.Children[0].Objects) > 0 {
				_, _ = fmt.Sscan(text(r.Children[0].Objects[0].Object), &n)
			}
			return one(fmt.Sprint(min(n+1, 30)))
		},
		want: explore.Quiet, text: []string{"ConfigMap default/c is written more than 20 times without an edit"},
	},
	{
		name: "an invariant on states",
		do:   numbered, edits: []explore.Edit{editOf("three", map[string]any{"size": 3})}, bounds: explore.Bounds{Edits: 1},
		invariants: []explore.Invariant{{Name: "few", Never: "children.size() > 2"}},
		want:       "few", text: []string{"it must never be so: children.size() > 2", "three (spec.size is 3, was 2)", "create ConfigMap default/a-2"},
	},
	{
		name: "an invariant at rest",
		do:   numbered, invariants: []explore.Invariant{{Name: "odd", Eventually: "children.size() % 2 == 1"}},
		want: "odd", text: []string{"it is not so at rest"},
	},
	{
		name: "an invariant on steps",
		do:   numbered, edits: []explore.Edit{editOf("none", map[string]any{"size": 0})}, bounds: explore.Bounds{Edits: 1},
		invariants: []explore.Invariant{{Name: "grows", Step: "after.children.size() >= before.children.size()"}},
		want:       "grows", text: []string{"delete ConfigMap default/a-"},
	},
	{
		name: "an invariant that cannot be evaluated",
		do:   numbered, invariants: []explore.Invariant{{Name: "typo", Always: "parents.all(p, p.spec.sise == 2)"}},
		want: "typo", text: []string{"the expression cannot be evaluated: no such key: sise"},
	},
}

func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			report := run(t, m.options(t))
			wantViolations(t, report, m.want)
			wantText(t, report.Text(), m.text...)
		})
	}
}

// TestReductionsFindTheSame explores what reductions leave out.
func TestReductionsFindTheSame(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			options := m.options(t)
			options.Unreduced = true
			wantViolations(t, run(t, options), m.want)
		})
	}
}

// TestWorkersDoNotMatter compares reports of one worker and of several.
func TestWorkersDoNotMatter(t *testing.T) {
	for _, m := range mistakes {
		if m.want == explore.Deterministic {
			continue
		}
		var texts []string
		for _, workers := range []int{1, 4} {
			options := m.options(t)
			options.Workers = workers
			report := run(t, options)
			var story strings.Builder
			for i := range report.Violations {
				report.Violations[i].Write(&story)
			}
			texts = append(texts, fmt.Sprintf("%d states, %d steps\n%s", report.States, report.Steps, story.String()))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: one worker found\n%s\nand four\n%s", m.name, texts[0], texts[1])
		}
	}
}

// moving has at most one ConfigMap: when the text changes, it deletes the old one before it creates the new one.
func moving(parent thing, r *hook.Request) *hook.Response {
	for _, child := range r.Children[0].Objects {
		if child.Name != parent.Spec.Text {
			return &hook.Response{}
		}
	}
	return &hook.Response{Children: []json.RawMessage{configMap(parent.Spec.Text, "")}}
}

// TestReadYourWritesIsNecessary runs one hook under Setpoint, and under a runtime whose caches have their own writes
// only when the events arrive, as those of other runtimes do.
func TestReadYourWritesIsNecessary(t *testing.T) {
	options := func() explore.Options {
		options := system(t, moving)
		options.Edits = []explore.Edit{editOf("other text", map[string]any{"text": "y"})}
		options.Invariants = []explore.Invariant{{Name: "at most one", Always: "children.size() <= 1"}}
		options.Bounds = explore.Bounds{Edits: 1, Crashes: 1}
		return options
	}
	wantViolations(t, run(t, options()))

	late := options()
	late.LateWrites = true
	report := run(t, late)
	wantViolations(t, report, "at most one")
	story := report.Violations[0]
	if len(story.Steps) > 9 {
		t.Errorf("the story has %d steps", len(story.Steps))
	}
	wantText(t, report.Text(), "Setpoint: create ConfigMap default/x", "A user edits Thing default/a: other text", "Setpoint: create ConfigMap default/y")
}

func TestStoriesReplay(t *testing.T) {
	for _, m := range mistakes {
		if m.want == explore.Deterministic {
			continue // The story of a hook that differs is the difference.
		}
		t.Run(m.name, func(t *testing.T) {
			story := run(t, m.options(t)).Violations[0]
			data, err := json.Marshal(story)
			if err != nil {
				t.Fatal(err)
			}
			var read explore.Story
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatal(err)
			}
			again, err := explore.Replay(t.Context(), m.options(t), read)
			if err != nil {
				t.Fatal(err)
			}
			if !again.Violated || again.Stopped != "" {
				t.Errorf("%+v", again)
			}
			if !reflect.DeepEqual(again.Steps, story.Steps) {
				t.Errorf("the steps are now %+v\nand were %+v", again.Steps, story.Steps)
			}
			mended := m.options(t)
			mended.Controllers = system(t, func(thing, *hook.Request) *hook.Response { return &hook.Response{} }).Controllers
			if again, err = explore.Replay(t.Context(), mended, read); err != nil {
				t.Fatal(err)
			}
			if again.Violated && m.want != "odd" && m.want != "typo" {
				t.Errorf("a hook without children still violates it: %+v", again)
			}
		})
	}
}

func TestStoriesThatDoNotFit(t *testing.T) {
	m := mistakes[0]
	story := run(t, m.options(t)).Violations[0]
	for name, test := range map[string]struct {
		change func(*explore.Story, *explore.Options)
		want   string
	}{
		"another kind":     {func(s *explore.Story, _ *explore.Options) { s.Kind = "Case" }, `kind: is "Case"`},
		"another API":      {func(s *explore.Story, _ *explore.Options) { s.APIVersion = "test.setpoint.dev/v9" }, "apiVersion"},
		"no steps":         {func(s *explore.Story, _ *explore.Options) { s.Steps = nil }, "steps: is empty"},
		"another property": {func(s *explore.Story, _ *explore.Options) { s.Property = "Perfect" }, `property: "Perfect" is neither`},
		"a broken object":  {func(s *explore.Story, _ *explore.Options) { s.Objects = []any{3} }, "objects[0]"},
	} {
		changed, options := story, m.options(t)
		test.change(&changed, &options)
		if _, err := explore.Replay(t.Context(), options, changed); err == nil || !strings.Contains(err.Error(), test.want) {
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

func TestLimits(t *testing.T) {
	options := func() explore.Options {
		options := system(t, numbered)
		options.Edits = []explore.Edit{editOf("one", map[string]any{"size": 1}), editOf("other text", map[string]any{"text": "y"}), deletion()}
		options.Bounds = explore.Bounds{Edits: 3, Crashes: 2, Faults: 2}
		return options
	}
	few := options()
	few.Bounds.States = 500
	report := run(t, few)
	wantText(t, report.Text(), "the limit of states is reached (500)", "everything with at most 0 of edits, crashes and faults; with 1 of edits")
	soon := options()
	soon.Bounds.Time = time.Nanosecond
	wantText(t, run(t, soon).Text(), "the time is over (1ns)", "to a depth of 0 steps")
	small := options()
	small.Bounds.Memory = 1
	wantText(t, run(t, small).Text(), "the limit of memory is reached")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted, err := explore.Explore(ctx, options())
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, interrupted.Text(), "it was interrupted")
}

// ending is an environment in which pods succeed.
type ending struct{ server explore.Server }

func (e ending) Moves(stored explore.Stored) []explore.Move {
	var moves []explore.Move
	for _, at := range stored {
		if at.Object == nil || at.Object.Kind() != "Pod" {
			continue
		}
		after, err := e.server.Edit(stored, explore.Edit{Object: at.Ref, Patch: map[string]any{"status": map[string]any{"phase": "Succeeded"}}})
		if err == nil {
			moves = append(moves, explore.Move{Name: "succeeds", Object: at.Ref, After: after})
		}
	}
	return moves
}

// TestPodsThatEnd shows that a controller may replace pods that have ended, again and again, and no others.
func TestPodsThatEnd(t *testing.T) {
	pod := func(replace string) sync {
		return func(_ thing, r *hook.Request) *hook.Response {
			for _, child := range r.Children[1].Objects {
				if strings.Contains(string(child.Object), replace) {
					return &hook.Response{}
				}
			}
			return &hook.Response{Children: []json.RawMessage{[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)}}
		}
	}
	options := system(t, pod("Succeeded"))
	options.Environment, options.Bounds = ending{options.Server}, explore.Bounds{Faults: 1, Crashes: 1}
	report := run(t, options)
	wantViolations(t, report)
	wantText(t, report.Text(), "It comes to rest only as long as no pod ends")
	options = system(t, pod("Pod"))
	options.Environment = ending{options.Server}
	wantViolations(t, run(t, options), explore.Settles, explore.NoRecreate)
}

// TestTwoObjects explores runs of two objects that are in flight at once.
func TestTwoObjects(t *testing.T) {
	for _, unreduced := range []bool{false, true} {
		options := system(t, numbered)
		options.Unreduced = unreduced
		options.Objects = append(options.Objects, parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"b","namespace":"default"},"spec":{"size":1,"text":"x"}}`))
		options.Invariants = []explore.Invariant{{Name: "all", Eventually: "children.size() == 3"}, {Name: "not more", Never: "children.size() > 3"}}
		report := run(t, options)
		wantViolations(t, report)
		if report.Cut != "" {
			t.Error(report.Cut)
		}
	}
}

// TestAnInterruption shows that a report has what was found when a hook was called last.
func TestAnInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	options := systemUntil(ctx, t, func(parent thing, r *hook.Request) *hook.Response {
		calls++
		if calls == 3 {
			cancel()
		}
		return numbered(parent, r)
	})
	options.Workers = 1
	options.Edits, options.Bounds = []explore.Edit{editOf("one", map[string]any{"size": 1})}, explore.Bounds{Edits: 1}
	report, err := explore.Explore(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	wantViolations(t, report)
	wantText(t, report.Text(), "Not all within the bounds was explored: it was interrupted.", "No violation in what was explored: Deterministic, Valid.")
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*explore.Options){
		"bounds.edits: must be from 0 to 20, is -1":                   func(o *explore.Options) { o.Bounds.Edits = -1 },
		"invariants[0].always: 1:11: undeclared reference to 'child'": func(o *explore.Options) { o.Invariants = []explore.Invariant{{Name: "a", Always: "1 == 2 || child"}} },
		"invariants[0].name: is required":                             func(o *explore.Options) { o.Invariants = []explore.Invariant{{Always: "true"}} },
		"invariants[0]: has no expression":                            func(o *explore.Options) { o.Invariants = []explore.Invariant{{Name: "a"}} },
		"invariants[0]: has always and never": func(o *explore.Options) {
			o.Invariants = []explore.Invariant{{Name: "a", Always: "true", Never: "true"}}
		},
		`invariants[1].name: "a" is the name of an earlier one`: func(o *explore.Options) {
			o.Invariants = []explore.Invariant{{Name: "a", Always: "true"}, {Name: "a", Never: "false"}}
		},
		"store ConfigMap C!: ": func(o *explore.Options) { o.Objects = []*object.Object{parse(t, string(configMap("C!", "a")))} },
		"start broken: no such program": func(o *explore.Options) {
			o.Controllers = []explore.Controller{{Name: "broken", Start: func() (explore.Process, error) { return nil, errors.New("no such program") }}}
		},
	} {
		options := system(t, numbered)
		change(&options)
		if _, err := explore.Explore(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
