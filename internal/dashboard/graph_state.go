package dashboard

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
)

// ownedStates returns the states and healths of objects of a graph, the most severe first.
func ownedStates() []string {
	all := []string{model.HealthFailed}
	for _, state := range model.States() {
		switch state {
		case model.StateQueued:
			all = append(all, string(processCrashed), string(processUnreachable), model.HealthTerminating, model.HealthInProgress)
		case model.StatePaused:
			all = append(all, string(processEnded), string(stateStandby), string(stateSuspended))
		}
		all = append(all, string(state))
	}
	return append(all, model.HealthCurrent)
}

// nodeState returns the state or the health of an object: the more severe one. An unknown health
// says less than any state.
func nodeState(n *ownertree.Node) string {
	state, health := string(n.State), n.Health
	if state == "" || health == "" || health == model.HealthUnknown {
		return cmp.Or(state, health, model.HealthUnknown)
	}
	return slices.MinFunc([]string{state, health}, compareSeverity)
}

// compareSeverity compares two states or healths, the more severe one first.
func compareSeverity(a, b string) int {
	return cmp.Compare(slices.Index(ownedStates(), a), slices.Index(ownedStates(), b))
}

// worstLabel returns the most severe label of the states; "" for none.
func worstLabel(views []stateView) model.State {
	if len(views) == 0 {
		return ""
	}
	labels := make([]string, 0, len(views))
	for i := range views {
		labels = append(labels, views[i].Label())
	}
	return model.State(slices.MinFunc(labels, compareSeverity))
}
