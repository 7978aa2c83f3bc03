package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// deletion is the edit in which a user deletes the thing.
func deletion() world.Edit {
	return world.Edit{Name: "delete", Object: things.Ref("default", "a"), Delete: true}
}

func TestACorrectControllerHolds(t *testing.T) {
	options := system(t, numbered)
	options.Edits = []world.Edit{editOf("one", map[string]any{"size": 1}), editOf("other text", map[string]any{"text": "y"}), deletion()}
	options.Bounds = explore.Bounds{Edits: 1, Crashes: 1, Faults: 1}
	options.Invariants = []property.Invariant{
		{Name: "not too many", Never: "children.size() > 2"},
		{Name: "as many as desired", Eventually: "parents.all(p, p.spec.size == children.size())"},
		{Name: "at most one at a time", Step: "after.children.size() - before.children.size() <= 1"},
	}
	report := run(t, options)
	wantViolations(t, report)
	if report.Cut != "" || len(report.Holds) != len(property.Properties)+3 {
		t.Errorf("cut: %s, holds: %v", report.Cut, report.Holds)
	}
}

// ending is an environment in which pods succeed.
type ending struct{ server *world.Server }

func (e ending) Moves(stored *apiserver.State) []apiserver.Change {
	var moves []apiserver.Change
	for o := range stored.Objects() {
		if o.Kind() != "Pod" {
			continue
		}
		after, err := e.server.Edit(stored, world.Edit{Object: o.Ref(), Patch: map[string]any{"status": map[string]any{"phase": "Succeeded"}}})
		if err == nil {
			moves = append(moves, apiserver.Change{Name: "succeeds", Object: o.Ref().Identity(), State: after})
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
	options.Environment, options.Bounds = ending{options.Server}.Moves, explore.Bounds{Faults: 1, Crashes: 1}
	report := run(t, options)
	wantViolations(t, report)
	wantText(t, report.String(), "It comes to rest only as long as no pod ends")
	options = system(t, pod("Pod"))
	options.Environment = ending{options.Server}.Moves
	wantViolations(t, run(t, options), property.Settles, property.NoRecreate)
}

// TestTwoObjects explores runs of two objects that are in flight at once.
func TestTwoObjects(t *testing.T) {
	for _, unreduced := range []bool{false, true} {
		options := system(t, numbered)
		options.Unreduced = unreduced
		options.Objects = append(options.Objects, apiservertest.Parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"b","namespace":"default"},"spec":{"size":1,"text":"x"}}`))
		options.Invariants = []property.Invariant{{Name: "all", Eventually: "children.size() == 3"}, {Name: "not more", Never: "children.size() > 3"}}
		report := run(t, options)
		wantViolations(t, report)
		if report.Cut != "" {
			t.Error(report.Cut)
		}
	}
}

// TestAllViolationsAtOnce shows that a layer goes on after a violation, and that each property has its own story.
func TestAllViolationsAtOnce(t *testing.T) {
	options := system(t, numbered)
	options.Invariants = []property.Invariant{
		{Name: "none", Always: "children.size() == 0"},
		{Name: "one at most", Never: "children.size() > 1"},
		{Name: "three at rest", Eventually: "children.size() == 3"},
	}
	report := run(t, options)
	wantViolations(t, report, "none", "one at most", "three at rest")
	var steps []int
	for _, story := range report.Violations {
		steps = append(steps, len(story.Steps))
	}
	if !slices.Equal(steps, []int{2, 3, 4}) {
		t.Errorf("stories of %v steps", steps)
	}
}

func TestLimits(t *testing.T) {
	options := func() explore.Options {
		options := system(t, numbered)
		options.Edits = []world.Edit{editOf("one", map[string]any{"size": 1}), editOf("other text", map[string]any{"text": "y"}), deletion()}
		options.Bounds = explore.Bounds{Edits: 3, Crashes: 2, Faults: 2}
		return options
	}
	few := options()
	few.Bounds.States = 500
	report := run(t, few)
	wantText(t, report.String(), "the limit of states is reached (500)", "everything with at most 0 of edits, crashes and faults; with 1 of edits")
	soon := options()
	soon.Memo, soon.Bounds.Time = nil, time.Nanosecond // Without a memo, no calls are counted.
	wantText(t, run(t, soon).String(), "the time is over (1ns)", "to a depth of 0 steps")
	soon = options()
	soon.Bounds.Time = time.Nanosecond
	if _, err := explore.Explore(t.Context(), soon); err == nil || err.Error() != "no hook was called, so that nothing was explored: the time is over (1ns)" {
		t.Error(err)
	}
	small := options()
	small.Memo, small.Bounds.Memory = nil, 1
	wantText(t, run(t, small).String(), "the limit of memory is reached")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted := must.Get(explore.Explore(ctx, options())).In(t)
	wantText(t, interrupted.String(), "it was interrupted")
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
	options.Edits, options.Bounds = []world.Edit{editOf("one", map[string]any{"size": 1})}, explore.Bounds{Edits: 1}
	report := must.Get(explore.Explore(ctx, options)).In(t)
	wantViolations(t, report)
	wantText(t, report.String(), "Not all within the bounds was explored: it was interrupted.", "No violation in what was explored: Deterministic, Valid.")
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*explore.Options){
		"bounds.edits: must be from 0 to 20, is -1":                   func(o *explore.Options) { o.Bounds.Edits = -1 },
		"invariants[0].always: 1:11: undeclared reference to 'child'": func(o *explore.Options) { o.Invariants = []property.Invariant{{Name: "a", Always: "1 == 2 || child"}} },
		"invariants[0].name: is required":                             func(o *explore.Options) { o.Invariants = []property.Invariant{{Always: "true"}} },
		"invariants[0]: has no expression":                            func(o *explore.Options) { o.Invariants = []property.Invariant{{Name: "a"}} },
		"invariants[0]: has always and never": func(o *explore.Options) {
			o.Invariants = []property.Invariant{{Name: "a", Always: "true", Never: "true"}}
		},
		`invariants[1].name: "a" is the name of an earlier one`: func(o *explore.Options) {
			o.Invariants = []property.Invariant{{Name: "a", Always: "true"}, {Name: "a", Never: "false"}}
		},
		"store ConfigMap C!: ": func(o *explore.Options) {
			o.Objects = []*object.Object{apiservertest.Parse(t, string(configMap("C!", "a")))}
		},
		"start broken: no such program": func(o *explore.Options) {
			o.Controller = world.Controller{Name: "broken", Start: func() (world.Process, error) { return nil, errors.New("no such program") }}
		},
	} {
		options := system(t, numbered)
		change(&options)
		if _, err := explore.Explore(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNoCallsAreAnError shows that an exploration fails whose objects no controller selects.
func TestNoCallsAreAnError(t *testing.T) {
	options := system(t, numbered)
	options.Objects = []*object.Object{apiservertest.Parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","namespace":"default"}}`)}
	if _, err := explore.Explore(t.Context(), options); err == nil || !strings.Contains(err.Error(), "no hook was called, so that nothing was explored: check that a controller selects the objects") {
		t.Error(err)
	}
}

// A defect of ours is the error of one exploration, on whichever goroutine it is met.
func TestDefectsAreErrors(t *testing.T) {
	t.Parallel()
	options := system(t, func(thing, *hook.Request) *hook.Response { return &hook.Response{} })
	options.Environment = func(*apiserver.State) []apiserver.Change { panic("a defect") }
	for _, workers := range []int{1, 4} {
		options.Workers = workers
		report, err := explore.Explore(t.Context(), options)
		if err == nil || !strings.Contains(err.Error(), "internal error in Setpoint: a defect") || report != nil {
			t.Errorf("%d workers: %v, %v", workers, report, err)
		}
	}
}
