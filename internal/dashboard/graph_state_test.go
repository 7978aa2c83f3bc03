package dashboard

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A box shows the more severe of the state and the health, and of the states of all controllers.
func TestNodeState(t *testing.T) {
	for _, test := range []struct {
		state  model.State
		health string
		want   string
	}{
		{"", "", "Unknown"},
		{"", "Current", "Current"},
		{model.StateSynced, "", "Synced"},
		{model.StateSynced, "Unknown", "Synced"},
		{model.StateSynced, "Current", "Synced"},
		{model.StateSynced, "Failed", "Failed"},
		{model.StateSynced, "InProgress", "InProgress"},
		{model.StateUnknown, "Failed", "Failed"},
		{model.StateUnknown, "Current", "Unknown"},
		{model.StatePaused, "Current", "Paused"},
		{model.StateConflicting, "Terminating", "Conflicting"},
		{model.StateFailing, "InProgress", "Failing"},
		{stateSuspended, "Current", "Suspended"},
		{stateSuspended, "Failed", "Failed"},
	} {
		n := &ownertree.Node{State: test.state}
		n.Health = test.health
		if got := nodeState(n); got != test.want {
			t.Errorf("%s and %s: %s, want %s", test.state, test.health, got, test.want)
		}
	}
	views := []stateView{{}, {Standby: true}, {Lost: &lostProcess{State: processCrashed}}}
	for i := range views {
		views[i].State = model.StateUnknown
	}
	if got := worstLabel(views); got != "Crashed" {
		t.Errorf("the worst label is %q", got)
	}
	if got := worstLabel(nil); got != "" {
		t.Errorf("without a state the label is %q", got)
	}
	for _, name := range objectStateNames() {
		if !slices.Contains(ownedStates(), name) {
			t.Errorf("graphs do not know the state %s", name)
		}
	}
}

// The object of a graph has the state of its page.
func TestGraphShowsTheStateOfThePage(t *testing.T) {
	ref := object.Ref{Kind: webKind(), Namespace: "shop", Name: "a", UID: "a"}
	for want, source := range map[string]*fakeSource{
		"Web shop/a: Standby":   {process: model.Process{LeaderElection: true}, states: []model.ObjectState{{State: model.StateUnknown}}},
		"Web shop/a: Suspended": {states: []model.ObjectState{{State: model.StateUnknown, Suspended: true}}},
		"Web shop/a: Failing":   {states: []model.ObjectState{{State: model.StateSynced}, {State: model.StateFailing}}},
	} {
		a := newFakeAPI(t, discoveryResponses())
		a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"a"}}`
		source.name = "setpoint"
		for i := range source.states {
			source.states[i].Ref, source.states[i].Process = ref, source.name
		}
		wantTexts(t, get(t, a.newServer(t, source), "/resources/webs.example.org/shop/a/graph").Body.String(), want)
	}
}
