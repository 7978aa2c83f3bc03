package composite

import (
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// After an update that was not enough, the next writes of the child are applies at once, those of others are not.
func TestCoOwnedChildrenAreAppliedAtOnce(t *testing.T) {
	const text = `{"kind":"ConfigMap","metadata":{"name":"c","uid":"c-1","resourceVersion":"1"}}`
	mine, other := parse(t, text), parse(t, `{"kind":"ConfigMap","metadata":{"name":"d","uid":"d-1","resourceVersion":"1"}}`)
	m := &memory{}
	updates := func() (all []bool) {
		stage := []plan.Action{{Verb: plan.Apply, Before: mine, Update: mine}, {Verb: plan.Apply, Before: other, Update: other}, {Verb: plan.Create}}
		m.skipUpdates(plan.Plan{Stages: [][]plan.Action{stage}})
		return []bool{stage[0].Update != nil, stage[1].Update != nil}
	}
	m.noteOwners(apply.Result{Updated: other})
	if got := updates(); !got[0] || !got[1] {
		t.Errorf("updates before: %v", got)
	}
	m.noteOwners(apply.Result{Updated: mine, CoOwned: true})
	if got := updates(); got[0] || !got[1] {
		t.Errorf("updates after: %v", got)
	}
}

// A run that has used its calls because a recreated child is slow goes on in the next one. One that recreates a child
// again and again has a conflict.
func TestARecreateThatWaitsIsNoConflict(t *testing.T) {
	pod := object.Ref{Kind: object.NewKind("v1", "Pod"), Namespace: "town", Name: "a"}
	deleted := apply.Result{Action: plan.Action{Verb: plan.Delete, DryRunVerb: plan.Update, Ref: pod}}
	removed := apply.Result{Action: plan.Action{Verb: plan.Delete, Ref: pod}}
	created := apply.Result{Action: plan.Action{Verb: plan.Create, Ref: pod}}
	remembered := &memory{}
	for _, c := range []struct {
		name      string
		results   []apply.Result
		conflicts bool
	}{
		{"nothing was recreated", []apply.Result{removed, created}, true},
		{"deleted", []apply.Result{deleted}, false},
		{"created in the next run", []apply.Result{created}, false},
		{"the run after", nil, true},
		{"recreated", []apply.Result{deleted, created}, false},
		{"recreated twice", []apply.Result{deleted, created, deleted, created}, true},
	} {
		r := &run{writes: &writes{Controller: &Controller{Base: &controller.Base{Tools: controller.Tools{Now: time.Now}}}, Run: &controller.Run{}, memory: remembered}}
		for _, result := range c.results {
			r.noteRecreation(result)
		}
		if err := r.notConvergedError(); errors.Is(err, errIncomplete) == c.conflicts {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
