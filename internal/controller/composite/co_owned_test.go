package composite

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
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
