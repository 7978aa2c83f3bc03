package dashboard

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hungSource accepts calls and never responds.
type hungSource struct{ fakeSource }

func hang[T any](ctx context.Context) (nothing T, err error) {
	<-ctx.Done()
	return nothing, ctx.Err()
}

func (*hungSource) Process(ctx context.Context) (inspect.Process, error) {
	return hang[inspect.Process](ctx)
}

func (*hungSource) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	return hang[[]inspect.Controller](ctx)
}

func (*hungSource) States(ctx context.Context, _ object.Ref) ([]inspect.ObjectState, error) {
	return hang[[]inspect.ObjectState](ctx)
}

func (*hungSource) Runs(ctx context.Context, _ object.Ref, _ int) ([]inspect.Run, error) {
	return hang[[]inspect.Run](ctx)
}

func (*hungSource) Run(ctx context.Context, _ uint64, _ bool) (inspect.Run, error) {
	return hang[inspect.Run](ctx)
}

// newPodCluster is an API server with the Pod shop/a.
func newPodCluster(t *testing.T) *userclient.Cluster {
	t.Helper()
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/api/v1/namespaces/shop/pods/a"] = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"u1"}}`
	return must.Get(userclient.NewCluster(&rest.Config{Host: a.URL})).In(t)
}

// A hung process does not block pages, and pages report it.
func TestHungProcessDoesNotBlockPages(t *testing.T) {
	run := newRun(7)
	run.Object = podRef("a")
	healthy := &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}, runs: []inspect.Run{run}}
	healthy.states = []inspect.ObjectState{{Ref: podRef("a"), Controller: teamsController().Name, Process: "setpoint", State: inspect.StateSynced}}
	s := newServer(t, &hungSource{fakeSource{name: "asleep"}}, healthy)
	s.Cluster = newPodCluster(t)
	s.Processes.Timeouts = inspect.NewTimeouts(20 * time.Millisecond)
	const object = "/resources/pods/shop/a"
	for path, test := range map[string]struct {
		code  int
		texts []string
	}{
		"/":                                  {http.StatusOK, []string{teamsPage, "No connection to the process <bdi>asleep</bdi>", "the process asleep did not respond in time</span>."}},
		teamsPage:                            {http.StatusOK, nil},
		object:                               {http.StatusOK, []string{`id="run-setpoint-7"`, "Process asleep did not respond in time.", "compositecontroller.setpoint.dev~teams"}},
		object + "/timeline":                 {http.StatusOK, []string{`id="run-setpoint-7"`}},
		object + "/runs/7":                   {http.StatusOK, nil},
		object + "/runs/7?in=setpoint":       {http.StatusOK, nil},
		object + "/runs/8?in=asleep":         {http.StatusServiceUnavailable, []string{"asleep did not respond in time"}},
		object + "/delete":                   {http.StatusOK, nil},
		"/controllers/asleep/example~webs":   {http.StatusServiceUnavailable, []string{"asleep did not respond in time"}},
		"/resources/pods/shop/not-there-yet": {http.StatusOK, []string{"asleep did not respond in time"}},
	} {
		t.Run(path, func(t *testing.T) {
			w := get(t, s, path)
			if w.Code != test.code {
				t.Errorf("%d:\n%s", w.Code, w.Body)
			}
			wantTexts(t, w.Body.String(), test.texts...)
		})
	}
}

// A process that ends remains on the pages, with when it was last seen and how it ended.
func TestLostProcessesAreShown(t *testing.T) {
	c := teamsController()
	c.Name, c.Process = "guitar/guitar", "guitar"
	program := &fakeSource{name: "guitar", process: inspect.Process{Name: "guitar", Started: noon}, controllers: []inspect.Controller{c}}
	program.states = []inspect.ObjectState{{Ref: podRef("a"), Controller: c.Name, Process: "guitar", State: inspect.StateSynced}}
	s := newServer(t)
	s.Cluster = newPodCluster(t)
	running := []inspect.Source{&fakeSource{name: "setpoint"}, program}
	var exits []processes.Exit
	s.Processes = processes.New(func(context.Context) []inspect.Source { return running },
		func() []processes.Exit { return exits }, func() time.Time { return noon })
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
	exits = []processes.Exit{{Process: "guitar", Text: "exit status 2", At: noon.Add(-time.Minute)}, {Process: "hooks", Text: "signal: killed", At: noon}}
	for _, path := range []string{"/", page} {
		wantTexts(t, get(t, s, path).Body.String(), "The process <bdi>guitar</bdi> crashed", "60s ago", "exit status 2", "Crashed")
	}
	wantTexts(t, get(t, s, "/").Body.String(), "The process <bdi>hooks</bdi> crashed", "not running")

	// It runs again, under its name or another one.
	exits, running = nil, append(running, &fakeSource{name: "guitar-7", process: program.process, controllers: program.controllers})
	body := get(t, s, "/").Body.String()
	wantTexts(t, body, "guitar-7", "!has ended", "!crashed")
}

func TestLostProcessHasNoSecrets(t *testing.T) {
	s := newServer(t, &fakeSource{name: "guitar", err: errors.New("refused")})
	if w := get(t, s, "/controllers/guitar/x"); w.Code != http.StatusInternalServerError && w.Code != http.StatusServiceUnavailable {
		t.Errorf("a process that was never seen: %d", w.Code)
	}
}

// A standby is not shown as healthy, since only the leader knows.
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
	wantTexts(t, body, "Standby <b>2</b>", "?state=Standby", "other is the leader and has the history", "!Unknown")
	wantTexts(t, get(t, s, "/").Body.String(), ">Standby", "<dt>standby</dt><dd>1</dd>")
}
