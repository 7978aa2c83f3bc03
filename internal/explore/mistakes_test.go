package explore_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// mistake is a system with a mistake, and what finds it.
type mistake struct {
	name       string
	do         sync
	edits      []world.Edit
	bounds     explore.Bounds
	invariants []property.Invariant
	want       property.Property
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
		want: property.Settles, text: []string{"it never comes to rest", "writes of ConfigMap default/c", "These steps repeat for ever"},
	},
	{
		name: "a hook that returns something else each time",
		do:   func(thing, *hook.Request) *hook.Response { return one(fmt.Sprint(rand.Int())) },
		want: property.Deterministic, text: []string{"the hook things sync responds to one request in two ways"},
	},
	{
		name: "what was created stays",
		do: func(parent thing, r *hook.Request) *hook.Response {
			parent.Spec.Size = max(parent.Spec.Size, len(r.Children[0].Objects))
			return numbered(parent, r)
		},
		edits: []world.Edit{editOf("one", map[string]any{"size": 1}), editOf("two", map[string]any{"size": 2})}, bounds: explore.Bounds{Edits: 1},
		want: property.SameEnd, text: []string{"with the same specs it also comes to rest otherwise: ConfigMap default/a-1", "The other end:"},
	},
	{
		name: "a child that the API server rejects",
		do: func(thing, *hook.Request) *hook.Response {
			return &hook.Response{Children: []json.RawMessage{configMap("C!", "a")}}
		},
		want: property.Valid, text: []string{"the API server rejects a write", "C!"},
	},
	{
		name: "a hook that panics",
		do: func(parent thing, _ *hook.Request) *hook.Response {
			if parent.Spec.Size == 0 {
				panic("no pods")
			}
			return &hook.Response{}
		},
		edits: []world.Edit{editOf("none", map[string]any{"size": 0})}, bounds: explore.Bounds{Edits: 1},
		want: property.Valid, text: []string{"the reconcile panics", "no pods", "A user edits Thing default/a: none (spec.size is 0, was 2)."},
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
		want: property.NoRecreate, text: []string{"ConfigMap default/c is created, deleted and created again"},
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
		want: property.Quiet, text: []string{"ConfigMap default/c is written more than 20 times without an edit"},
	},
	{
		name: "an invariant on states",
		do:   numbered, edits: []world.Edit{editOf("three", map[string]any{"size": 3})}, bounds: explore.Bounds{Edits: 1},
		invariants: []property.Invariant{{Name: "few", Never: "children.size() > 2"}},
		want:       "few", text: []string{"it must never be so: children.size() > 2", "three (spec.size is 3, was 2)", "create ConfigMap default/a-2"},
	},
	{
		name: "an invariant at rest",
		do:   numbered, invariants: []property.Invariant{{Name: "odd", Eventually: "children.size() % 2 == 1"}},
		want: "odd", text: []string{"it is not so at rest"},
	},
	{
		name: "an invariant on steps",
		do:   numbered, edits: []world.Edit{editOf("none", map[string]any{"size": 0})}, bounds: explore.Bounds{Edits: 1},
		invariants: []property.Invariant{{Name: "grows", Step: "after.children.size() >= before.children.size()"}},
		want:       "grows", text: []string{"delete ConfigMap default/a-"},
	},
	{
		name: "an invariant that cannot be evaluated",
		do:   numbered, invariants: []property.Invariant{{Name: "typo", Always: "parents.all(p, p.spec.sise == 2)"}},
		want: "typo", text: []string{"the expression cannot be evaluated: no such key: sise"},
	},
}

// TestSuggestedInvariants takes what the report of a right hook suggests, and finds a wrong one with it.
func TestSuggestedInvariants(t *testing.T) {
	options := func(do sync, invariants ...property.Invariant) explore.Options {
		options := system(t, do)
		options.Edits, options.Bounds, options.Invariants = []world.Edit{editOf("one", map[string]any{"size": 1})}, explore.Bounds{Edits: 1}, invariants
		return options
	}
	report := run(t, options(numbered))
	wantText(t, report.String(), `- {name: "a-1 of a goes before a-0 in its life", step: `)
	wantViolations(t, run(t, options(numbered, report.Suggested...)))
	oldest := func(parent thing, r *hook.Request) *hook.Response {
		all := numbered(parent, r)
		if parent.Spec.Size == 1 {
			all.Children = []json.RawMessage{configMap("a-1", parent.Spec.Text)}
		}
		return all
	}
	wantViolations(t, run(t, options(oldest, report.Suggested...)), property.Property(report.Suggested[0].Name))
}

func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			report := run(t, m.options(t))
			wantViolations(t, report, m.want)
			wantText(t, report.String(), m.text...)
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
		if m.want == property.Deterministic {
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

// TestWithoutRest shows that nothing is said of states of rest where there are none.
func TestWithoutRest(t *testing.T) {
	m := mistakes[slices.IndexFunc(mistakes, func(m mistake) bool { return m.want == property.Settles })]
	options := m.options(t)
	options.Invariants = []property.Invariant{{Name: "impossible", Eventually: "false"}}
	report := run(t, options)
	for _, p := range []property.Property{property.Desired, property.SameEnd, property.Owned, property.Finalized, "impossible"} {
		if slices.Contains(report.Holds, p) {
			t.Errorf("%s is said to hold", p)
		}
	}
	if !slices.ContainsFunc(report.Notes, func(note string) bool { return strings.HasPrefix(note, "No state of rest was found") }) {
		t.Errorf("notes: %q", report.Notes)
	}
}
