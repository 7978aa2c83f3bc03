package dashboard

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func TestControllersAreSortedBySeverity(t *testing.T) {
	healthy, sick, lazy := teamsController(), teamsController(), teamsController()
	healthy.Name, sick.Name, lazy.Name = "c/aaa", "c/zzz", "c/mmm"
	sick.Conditions = []inspect.Condition{{Type: "Ready", Status: "False", Reason: "HookFailing", Message: "it answers 500"}}
	lazy.Suspended = true
	body := get(t, newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{healthy, lazy, sick}}), "/").Body.String()
	last := 0
	for _, text := range []string{">zzz<", "glossary.md#hookfailing", ">mmm<", "Suspended", ">aaa<", "Ready"} {
		at := strings.Index(body[last:], text)
		if at < 0 {
			t.Fatalf("%s is missing, or not in its place:\n%s", text, body)
		}
		last += at
	}
}

func TestRolloutIsShown(t *testing.T) {
	c := teamsController()
	c.Rollout = &setpoint.RolloutStatus{Phase: setpoint.RolloutStepping, From: "teams-1", To: "teams-2", Percent: 5, Moved: 1, Reconciled: 1, Total: 20, Message: "step 1 of 2"}
	body := get(t, newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}), web.ControllerURL("setpoint", c.Name)).Body.String()
	wantTexts(t, body, `max="20" value="1"`, "1 of 20 parents moved, 1 reconciled by the new version. This step ends at 5 %.", "step 1 of 2", "teams-1", "teams-2")
}

func TestEmptyOverviewShowsExample(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	if body := get(t, (&fakeAPI{Server: up}).newServer(t, &fakeSource{name: "setpoint"}), "/").Body.String(); !strings.Contains(body, "setpoint dev examples/") {
		t.Errorf("no word about what to do:\n%s", body)
	}
}

// Fault U8: "No controllers yet" is shown only if it is true.
func TestUnknownIsNotShownAsEmpty(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	for want, page := range map[string]string{
		"API server unreachable":            get(t, newServer(t, &fakeSource{name: "setpoint"}), "/").Body.String(),
		"No controllers match the selector": get(t, (&fakeAPI{Server: up}).newServer(t, &fakeSource{name: "setpoint", process: inspect.Process{Selector: "team=a"}}), "/").Body.String(),
		"Not synced yet":                    get(t, (&fakeAPI{Server: up}).newServer(t, &fakeSource{name: "setpoint", process: inspect.Process{Watches: []inspect.Watch{{Selection: "x"}}}}), "/").Body.String(),
	} {
		if !strings.Contains(page, want) || strings.Contains(page, "No controllers yet") {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestObjectPagination(t *testing.T) {
	source := &fakeSource{name: "setpoint", page: inspect.Page{Total: 10000, Matching: 10000, Objects: make([]inspect.ObjectState, web.PageSize)}}
	load := func(path string) *objectList {
		source.page.Objects = make([]inspect.ObjectState, web.PageSize)
		req := newTestRequest(t, path)
		list := req.newObjectList()
		must.Succeed(t, req.loadObjects(list, &processes.Info{Source: source}, &inspect.Controller{}))
		list.Shown = web.PageSize
		return list
	}
	list := load("/c?offset=200&q=a+b&sort=name&state=Failing")
	if got, want := list.PreviousURL(), "/c?offset=100&q=a+b&sort=name&state=Failing"; got != want {
		t.Errorf("before: %s, want %s", got, want)
	}
	if got := list.Range(); got != "201–300 of 10,000" {
		t.Errorf("range: %s", got)
	}
	for _, beyond := range []string{"9900", "9999999", "10000"} {
		if list := load("/c?offset=" + beyond); list.NextURL() != "" || list.Query.Offset != 9900 {
			t.Errorf("after the last: %s of %d", list.NextURL(), list.Query.Offset)
		}
	}
	for _, c := range list.Columns() {
		if (c.Sorted == "ascending") != (c.Name == "Object") {
			t.Errorf("%s is sorted %q", c.Name, c.Sorted)
		}
	}
}

func TestUnknownControllers(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	for _, path := range []string{teamsPage, "/controllers/nobody/x"} {
		if w := get(t, s, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestEventStream(t *testing.T) {
	source := &fakeSource{name: "setpoint", revisions: make(chan uint64, 2)}
	server := httptest.NewServer(newServer(t, source))
	defer server.Close()
	response, err := http.Get(server.URL + "/live")
	must.Succeed(t, err)
	defer response.Body.Close()
	lines, heard := bufio.NewScanner(response.Body), 0
	timeout := time.AfterFunc(time.Minute, server.CloseClientConnections)
	defer timeout.Stop()
	for lines.Scan() {
		switch lines.Text() {
		case ": open": // Something changes after the stream has opened.
			source.revisions <- 1
		case "event: change":
			heard++
			if heard == 2 {
				return
			}
			source.revisions <- 2
		}
	}
	t.Errorf("the page got %d changes", heard)
}

func TestFlashMessageIsShownOnce(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	w := httptest.NewRecorder()
	(&web.Request{Site: s.Site, W: w, R: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}).Flash("It is done.")
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
	for _, cookie := range w.Result().Cookies() {
		r.AddCookie(cookie)
	}
	next := httptest.NewRecorder()
	s.ServeHTTP(next, r)
	if !strings.Contains(next.Body.String(), "It is done.") {
		t.Error("the message is missing")
	}
	if cookies := next.Result().Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("the message is repeated: %v", cookies)
	}
}

// Disabled history is mentioned.
func TestNoHistory(t *testing.T) {
	source := &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}, process: inspect.Process{Name: "setpoint", IsLeader: true, History: inspect.HistoryStats{Off: true}}}
	for _, path := range []string{"/", teamsPage} {
		if body := get(t, newServer(t, source), path).Body.String(); !strings.Contains(body, "(--history-size)") || strings.Contains(body, "Runs") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// Admission controllers run in each replica, so a standby replica shows their state, and there
// is nothing to reconcile.
func TestReviewsRunInEveryReplica(t *testing.T) {
	source := goProgram()
	source.controllers[0].AllReplicas = true
	source.process = inspect.Process{Name: "shop", LeaderElection: true, Leader: "shop-1"}
	for _, path := range []string{"/", programPage} {
		body := get(t, newServer(t, source), path).Body.String()
		if strings.Contains(body, ">Standby") || path == programPage && strings.Contains(body, "is the leader") {
			t.Errorf("%s: %s", path, body)
		}
	}
	s := newServer(t, source)
	page := get(t, s, programPage).Body.String()
	wantTexts(t, page, "An admission controller manages no objects.")
	w := send(s, http.MethodPost, programPage+"/reconcile", strings.NewReader("stay=yes"), "Hx-Request", "true")
	if w.Code != http.StatusBadRequest {
		t.Errorf("%d: %s", w.Code, w.Header())
	}
	source.process.History.Off = true
	wantTexts(t, get(t, s, programPage).Body.String(), "(--history-size)")
}

// goProgram is a Go controller without objects.
func goProgram() *fakeSource {
	c := teamsController()
	c.Name, c.Process = "shop/team", "shop"
	return &fakeSource{name: "shop", controllers: []inspect.Controller{c}, page: inspect.Page{States: map[inspect.State]int{}}}
}

// A request names the user, for the reconcile history.
func TestReconcileRequestNamesTheUser(t *testing.T) {
	s := newFakeAPI(t, discoveryResponses()).newServer(t)
	text, err := json.Marshal(web.ReconcilePatch(&web.Request{Site: s.Site, User: &userclient.User{Name: "ann"}}))
	if err != nil || !strings.Contains(string(text), `"setpoint.dev/reconcile-at":"20`) || !strings.Contains(string(text), ` by ann"`) {
		t.Errorf("%s, %v", text, err)
	}
	for cause, want := range map[string]bool{"manual reconcile": true, "manual reconcile requested by ann": true, "hook changed": true, "the object changed": false} {
		if record.IsPrimaryCause(cause) != want {
			t.Errorf("%s explains a run: %v", cause, !want)
		}
	}
}

const programPage = "/controllers/shop/shop~team"

func newTestRequest(t *testing.T, path string) *request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
	s := newServer(t)
	return &request{&web.Request{Site: s.Site, R: r, User: &userclient.User{OwnCredentials: true}}, &s.pages}
}

func deployment(group string) object.Kind {
	return object.Kind{Group: group, Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
}

func newState(kind object.Kind) inspect.ObjectState {
	return inspect.ObjectState{Ref: object.Ref{Kind: kind, Namespace: "shop", Name: "a"}}
}

// Kinds with the same name are distinguished by group. Without known kinds, nothing is listed.
func TestObjectsByKind(t *testing.T) {
	source := &fakeSource{name: "setpoint", page: inspect.Page{Objects: []inspect.ObjectState{newState(deployment("apps")), newState(deployment("test"))}}}
	for _, c := range []struct {
		name    string
		kinds   []object.Kind
		objects int
	}{
		{"both", []object.Kind{deployment("apps"), deployment("test")}, 2},
		{"one of them", []object.Kind{deployment("apps")}, 1},
		{"none is known", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			source.page.Objects = []inspect.ObjectState{newState(deployment("apps")), newState(deployment("test"))}
			list, err := newTestRequest(t, "/?kind=Deployment.apps").listObjects(&processes.Info{Source: source}, &inspect.Controller{Name: "c", Kinds: c.kinds})
			if err != nil || len(list.Objects) != c.objects || list.Query.Kind != "Deployment" || list.Query.Group != "apps" {
				t.Errorf("%+v, %v", list, err)
			}
			for _, choice := range list.KindOptions() {
				if choice.Current != (choice.Value == "Deployment.apps") || (choice.Name == choice.Value) != (len(c.kinds) > 1) {
					t.Errorf("%+v", choice)
				}
			}
		})
	}
}

// A row shows the state of its own object, not of one in another group.
func TestJoinStates(t *testing.T) {
	page := kindPage{Kind: deployment("apps"), Rows: []objectRow{{Row: userclient.Row{Namespace: "shop", Name: "a"}}}}
	page.joinStates([]inspect.ObjectState{newState(deployment("test"))})
	if len(page.Rows[0].States) != 0 {
		t.Errorf("joined %+v", page.Rows[0].States)
	}
	page.joinStates([]inspect.ObjectState{newState(deployment("apps"))})
	if len(page.Rows[0].States) != 1 {
		t.Error("not joined")
	}
}

func TestStateFilters(t *testing.T) {
	kinds := []object.Kind{webKind(), podRef("a").Kind}
	for _, test := range []struct {
		list     objectList
		has, not string
	}{
		{objectList{ListView: web.ListView{Sort: "name", Reverse: true}, Kinds: kinds}, `<option value="">All kinds`, "left out"},
		{objectList{ListView: web.ListView{Sort: "name", Reverse: true}, Kinds: kinds, Partial: true}, "Kinds that you cannot list", "All kinds"},
	} {
		test.list.Total = 1
		var out strings.Builder
		data := map[string]any{"Objects": &test.list, "Suspended": false, "Kinds": kinds}
		must.Succeed(t, newServer(t).Templates["controller"].ExecuteTemplate(&out, "objects", web.Page{Data: data}))
		wantTexts(t, out.String(), `name="reverse" value="yes"`, test.has, "!"+test.not)
	}
}
