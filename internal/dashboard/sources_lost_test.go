package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// A process that ends remains on the pages, with when it was last seen and how it ended.
func TestLostProcessesAreShown(t *testing.T) {
	c := teamsController()
	c.Name, c.Process = "guitar/guitar", "guitar"
	program := &fakeSource{name: "guitar", process: inspect.Process{Name: "guitar", Started: noon}, controllers: []inspect.Controller{c}}
	program.states = []inspect.ObjectState{{Ref: podRef("a"), Controller: c.Name, Process: "guitar", State: inspect.StateSynced}}
	s := newServer(t)
	s.options.Cluster = newPodCluster(t)
	running := []inspect.Source{&fakeSource{name: "setpoint"}, program}
	var exits []Exit
	s.options.Sources = func(context.Context) []inspect.Source { return running }
	s.memory.exits = func() []Exit { return exits }
	const page = "/controllers/guitar/guitar~guitar"
	wantTexts(t, get(t, s, "/").Body.String(), page, "running")

	program.err = errors.New("connection refused")
	for _, path := range []string{"/", page} {
		wantTexts(t, get(t, s, path).Body.String(), "guitar", "No connection to the process <bdi>guitar</bdi>", "last seen <time", "connection refused")
	}
	program.err = nil
	running = running[:1]
	for _, path := range []string{"/", page} {
		wantTexts(t, get(t, s, path).Body.String(), "The process <bdi>guitar</bdi> has ended", "last seen <time", "Ended")
	}
	exits = []Exit{{Process: "guitar", Text: "exit status 2", At: noon.Add(-time.Minute)}, {Process: "hooks", Text: "signal: killed", At: noon}}
	for _, path := range []string{"/", page} {
		wantTexts(t, get(t, s, path).Body.String(), "The process <bdi>guitar</bdi> crashed", "60s ago", "exit status 2", "Crashed")
	}
	wantTexts(t, get(t, s, "/").Body.String(), "The process <bdi>hooks</bdi> crashed", "not running")

	// It runs again, under its name or another one.
	exits, running = nil, append(running, &fakeSource{name: "guitar-7", process: program.process, controllers: program.controllers})
	body := get(t, s, "/").Body.String()
	wantTexts(t, body, "guitar-7")
	if slices.ContainsFunc([]string{"has ended", "crashed"}, func(text string) bool { return containsText(body, text) }) {
		t.Errorf("the page still says that it ended:\n%s", body)
	}
}

func TestLostProcessHasNoSecrets(t *testing.T) {
	s := newServer(t, &fakeSource{name: "guitar", err: errors.New("refused")})
	if w := get(t, s, "/controllers/guitar/x"); w.Code != http.StatusInternalServerError && w.Code != http.StatusServiceUnavailable {
		t.Errorf("a process that was never seen: %d", w.Code)
	}
}

func TestStandbyIsAState(t *testing.T) {
	c := teamsController()
	page := inspect.Page{Total: 2, Matching: 2, States: map[inspect.State]int{inspect.StateUnknown: 2}}
	for _, name := range []string{"a", "b"} {
		page.Objects = append(page.Objects, inspect.ObjectState{Ref: podRef(name), State: inspect.StateUnknown})
	}
	for i := range page.Objects {
		page.Objects[i].Kind = c.Kinds[0]
	}
	s := newServer(t, &fakeSource{name: "setpoint", page: page, controllers: []inspect.Controller{c}, process: inspect.Process{Name: "setpoint", LeaderElection: true, Leader: "other"}})
	body := get(t, s, teamsPage).Body.String()
	wantTexts(t, body, "Standby <b>2</b>", "?state=Standby", "other is the leader and has the history")
	if containsText(body, "Unknown") {
		t.Error("a standby is shown as unknown")
	}
	wantTexts(t, get(t, s, "/").Body.String(), "<dt>standby</dt><dd>1</dd>")
}
