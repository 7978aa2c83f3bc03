package engine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func selectorFor(t *testing.T, text string) labels.Selector {
	t.Helper()
	parsed, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestStance(t *testing.T) {
	asked := hook.Func(nil)
	const (
		web     = `,"labels":{"app":"web"}`
		held    = `,"finalizers":["other","ours"]`
		going   = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
		paused  = `,"annotations":{"setpoint.dev/paused":"true"}`
		unpause = `,"annotations":{"setpoint.dev/paused":"false"}`
	)
	for _, c := range []struct {
		name, metadata     string
		with, without, all stance
	}{
		{"matches", web, caring, caring, caring},
		{"matches not", ``, indifferent, indifferent, caring},
		{"matches, held", web + held, caring, releasing, caring},
		{"matches not, held", held, finalizing, releasing, caring},
		{"going", web + going, indifferent, caring, indifferent},
		{"going, held", web + going + held, finalizing, releasing, finalizing},
		{"going, held, matches not", going + held, finalizing, releasing, finalizing},
		{"going, matches not", going, indifferent, indifferent, indifferent},
		{"paused", web + paused, pausing, pausing, pausing},
		{"paused, held, going", going + held + paused, pausing, pausing, pausing},
		{"not paused", web + unpause, caring, caring, caring},
	} {
		t.Run(c.name, func(t *testing.T) {
			selections := []Selection{{Labels: selectorFor(t, "app=db")}, {Labels: selectorFor(t, "app=web")}}
			parent := parentOf(t, c.metadata)
			for _, p := range []struct {
				what    string
				program Program
				want    stance
			}{
				{"with a finalize hook", Program{Finalizer: "ours", Finalize: asked, Selections: selections}, c.with},
				{"without", Program{Finalizer: "ours", Selections: selections}, c.without},
				{"for all parents", Program{Finalizer: "ours", Finalize: asked}, c.all},
			} {
				if got := p.program.stanceOn(parent); got != p.want {
					t.Errorf("%s: got %d, want %d", p.what, got, p.want)
				}
			}
		})
	}
}

func TestSelectionByAnnotations(t *testing.T) {
	s := Selection{Labels: selectorFor(t, "app"), Annotations: selectorFor(t, "tier in (a,b)")}
	for metadata, want := range map[string]bool{
		`,"labels":{"app":"x"},"annotations":{"tier":"a"}`: true,
		`,"labels":{"app":"x"},"annotations":{"tier":"c"}`: false,
		`,"labels":{"app":"x"}`:                            false,
		`,"annotations":{"tier":"a"}`:                      false,
	} {
		if s.matches(parentOf(t, metadata)) != want {
			t.Errorf("%s: want %v", metadata, want)
		}
	}
	if text := s.String(); !strings.Contains(text, "labels app, annotations tier in (a,b)") {
		t.Error(text)
	}
}

func parentOf(t *testing.T, metadata string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u"` + metadata + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestScout(t *testing.T) {
	var s scout
	one, other := queue.Key{Name: "one"}, queue.Key{Name: "other"}
	if !s.is(one) || s.is(other) || !s.is(one) {
		t.Error("the first that asks is the scout, and nobody else")
	}
	s.drop(other)
	if s.is(other) {
		t.Error("replaced because of another one's end")
	}
	s.drop(one)
	if !s.is(other) || s.is(one) {
		t.Error("a scout that is gone is not replaced")
	}
	s.end()
	if !s.is(one) {
		t.Error("no new scout after the hook was back")
	}
}
