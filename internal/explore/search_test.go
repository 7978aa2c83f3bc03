package explore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	wantText(t, report.Text(), "the limit of states is reached (500)", "everything with at most 0 of edits, crashes and faults; with 1 of edits")
	soon := options()
	soon.Memo, soon.Bounds.Time = nil, time.Nanosecond // Without a memo, no calls are counted.
	wantText(t, run(t, soon).Text(), "the time is over (1ns)", "to a depth of 0 steps")
	soon = options()
	soon.Bounds.Time = time.Nanosecond
	if _, err := explore.Explore(t.Context(), soon); err == nil || err.Error() != "no hook was called, so that nothing was explored: the time is over (1ns)" {
		t.Error(err)
	}
	small := options()
	small.Memo, small.Bounds.Memory = nil, 1
	wantText(t, run(t, small).Text(), "the limit of memory is reached")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted, err := explore.Explore(ctx, options())
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, interrupted.Text(), "it was interrupted")
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
			o.Controllers = []world.Controller{{Name: "broken", Start: func() (world.Process, error) { return nil, errors.New("no such program") }}}
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
