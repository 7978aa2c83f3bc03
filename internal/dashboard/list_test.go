package dashboard

import (
	"cmp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// All lists keep what the URL says, also where it makes no sense.
func TestListsInURLs(t *testing.T) {
	source := newHostileSource()
	s := newServer(t, source)
	for _, path := range []string{"/", "/resources", teamsPage} {
		for _, query := range []string{"?sort=name&reverse=yes", "?state=Ready", "?state=" + strings.Repeat("x", 5000), "?sort=%3Cscript%3E", "?offset=1e9&sort=name&state=Failing&q=%25"} {
			w := get(t, s, path+query)
			if found := findInlineCode(w.Body.String()); found != "" || w.Code >= 500 && path != "/resources" {
				t.Errorf("%s%s: %d, %s", path, query[:min(len(query), 40)], w.Code, found)
			}
		}
	}
	body := get(t, s, "/?sort=objects&reverse=yes&state=nonsense").Body.String()
	wantTexts(t, body, `aria-sort="descending"><a href="/?sort=objects&amp;state=nonsense"`, "Ignored in the address", "state=nonsense")
}

// A filter that fits nothing says of how many.
func TestNoMatches(t *testing.T) {
	run := newRun(7)
	run.Steps = []inspect.Step{{Call: &inspect.Call{Name: "w", Review: &inspect.Review{Operation: "create", User: "ann"}}}}
	c := teamsController()
	c.Reviews, c.AllReplicas = true, true
	s := newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}, runs: []inspect.Run{run}})
	wantTexts(t, get(t, s, teamsPage+"?user=absent").Body.String(), "None of 1 review matches the filter.")
	wantTexts(t, get(t, s, "/?q=absent").Body.String(), "None of 1 controller matches the filter.")
}

// The states of one object by several controllers have the most severe one first.
func TestWorstState(t *testing.T) {
	for _, c := range []struct {
		states []inspect.State
		want   string
	}{{nil, ""}, {[]inspect.State{inspect.StateSynced, inspect.StateFailing}, "Failing"}, {[]inspect.State{inspect.StateSynced, processes.Suspended}, "Synced"}} {
		row := objectRow{}
		for _, state := range c.states {
			row.States = append(row.States, inspect.ObjectState{State: state})
		}
		if got := row.worst(); got != c.want {
			t.Errorf("%v: %q", c.states, got)
		}
	}
	if cmp.Compare(stateRank("Failing"), stateRank("")) >= 0 {
		t.Error("an object without a controller is before a failing one")
	}
}
