package composite

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
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

func TestPhaseOf(t *testing.T) {
	called := hook.Func(nil)
	const (
		web     = `,"labels":{"app":"web"}`
		held    = `,"finalizers":["other","ours"]`
		going   = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
		paused  = `,"annotations":{"setpoint.dev/paused":"true"}`
		unpause = `,"annotations":{"setpoint.dev/paused":"false"}`
	)
	for _, c := range []struct {
		name, metadata     string
		with, without, all controller.Phase
	}{
		{"matches", web, controller.PhaseManaged, controller.PhaseManaged, controller.PhaseManaged},
		{"matches not", ``, controller.PhaseIgnored, controller.PhaseIgnored, controller.PhaseManaged},
		{"matches, held", web + held, controller.PhaseManaged, controller.PhaseReleasing, controller.PhaseManaged},
		{"matches not, held", held, controller.PhaseFinalizing, controller.PhaseReleasing, controller.PhaseManaged},
		{"going", web + going, controller.PhaseIgnored, controller.PhaseManaged, controller.PhaseIgnored},
		{"going, held", web + going + held, controller.PhaseFinalizing, controller.PhaseReleasing, controller.PhaseFinalizing},
		{"going, held, matches not", going + held, controller.PhaseFinalizing, controller.PhaseReleasing, controller.PhaseFinalizing},
		{"going, matches not", going, controller.PhaseIgnored, controller.PhaseIgnored, controller.PhaseIgnored},
		{"paused", web + paused, controller.PhasePaused, controller.PhasePaused, controller.PhasePaused},
		{"paused, held, going", going + held + paused, controller.PhasePaused, controller.PhasePaused, controller.PhasePaused},
		{"not paused", web + unpause, controller.PhaseManaged, controller.PhaseManaged, controller.PhaseManaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			selections := []Selection{{Labels: selectorFor(t, "app=db")}, {Labels: selectorFor(t, "app=web")}}
			parent := parentOf(t, c.metadata)
			for _, p := range []struct {
				what    string
				program Program
				want    controller.Phase
			}{
				{"with a finalize hook", Program{Finalizer: "ours", Finalize: called, Selections: selections}, c.with},
				{"without", Program{Finalizer: "ours", Selections: selections}, c.without},
				{"for all parents", Program{Finalizer: "ours", Finalize: called}, c.all},
			} {
				if got := p.program.phaseOf(parent, p.program.Finalize != nil); got != p.want {
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
		if s.Matches(parentOf(t, metadata)) != want {
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

func TestRecoveryProbe(t *testing.T) {
	var s recoveryProbe
	one, other, now := queue.Key{Name: "one"}, queue.Key{Name: "other"}, time.Unix(1e9, 0)
	refused := &hook.UnreachableError{Err: errors.New("connection refused")}
	crashed := &hook.UnreachableError{Err: errors.New("connection closed without a response"), Connected: true}
	expect := func(what string, key queue.Key, err error, want bool) {
		t.Helper()
		if s.tryAcquire(key, err, now) != want {
			t.Errorf("%s: is the probe: %v", what, !want)
		}
	}
	expect("another error", one, errors.New("returned 500"), false)
	expect("the first caller", one, refused, true)
	expect("the second", other, refused, false)
	expect("the first, again", one, crashed, true)
	s.drop(other)
	expect("another one has ended", other, refused, false)
	s.drop(one)
	expect("the probe has ended", other, refused, true)
	expect("it is replaced", one, refused, false)
	now = now.Add(maxProbing)
	expect("a process that crashes at each call", other, crashed, false)
	expect("no process", other, refused, true)
	s.reset()
	expect("after a response", one, crashed, true)
}
