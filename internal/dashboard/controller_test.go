package dashboard

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func TestControllersAreSortedBySeverity(t *testing.T) {
	healthy, sick, lazy := teamsController(), teamsController(), teamsController()
	healthy.Name, sick.Name, lazy.Name = "c/aaa", "c/zzz", "c/mmm"
	sick.Conditions = []inspect.Condition{{Type: "Ready", Status: "False", Reason: "HookFailing", Message: "it answers 500"}}
	lazy.Suspended = true
	body := get(t, newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{healthy, lazy, sick}}), "/").Body.String()
	last := 0
	for _, text := range []string{">zzz<", "HookFailing", ">mmm<", "Suspended", ">aaa<", "Ready"} {
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
	body := get(t, newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}), controllerURL("setpoint", c.Name)).Body.String()
	for _, text := range []string{`max="20" value="1"`, "1 of 20 parents moved, 1 reconciled by the new version. This step ends at 5 %.", "step 1 of 2", "teams-1", "teams-2"} {
		if !strings.Contains(body, text) {
			t.Errorf("%q is missing:\n%s", text, body)
		}
	}
}

func TestUnresponsiveProcessIsNamed(t *testing.T) {
	w := get(t, newServer(t, &fakeSource{name: "shop", err: errors.New("connection refused")}, &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}}), "/")
	for _, text := range []string{"shop", "connection refused", "teams"} {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%q is missing:\n%s", text, w.Body)
		}
	}
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
	source := &fakeSource{name: "setpoint", page: inspect.Page{Total: 10000, Matching: 10000, Objects: make([]inspect.ObjectState, pageSize)}}
	load := func(path string) *objectList {
		source.page.Objects = make([]inspect.ObjectState, pageSize)
		req := newTestRequest(t, path)
		list := req.newObjectList()
		if err := req.loadObjects(list, &processInfo{Source: source}, &inspect.Controller{}); err != nil {
			t.Fatal(err)
		}
		list.Shown = pageSize
		return list
	}
	list := load("/c?offset=200&q=a+b&sort=name&state=Failing")
	if got, want := list.Pager().PreviousURL(), "/c?offset=100&q=a+b&sort=name&state=Failing"; got != want {
		t.Errorf("before: %s, want %s", got, want)
	}
	if got := list.Pager().Range(); got != "201–300 of 10,000" {
		t.Errorf("range: %s", got)
	}
	for _, beyond := range []string{"9900", "9999999", "10000"} {
		if list := load("/c?offset=" + beyond); list.Pager().NextURL() != "" || list.Query.Offset != 9900 {
			t.Errorf("after the last: %s of %d", list.Pager().NextURL(), list.Query.Offset)
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
	if err != nil {
		t.Fatal(err)
	}
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
	(&request{Server: s, w: w, r: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}).flash("It is done.")
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

func TestHumanDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", 90 * time.Second: "90s", 3 * time.Minute: "3m", 5 * time.Hour: "5h", 72 * time.Hour: "3d",
	} {
		if got := humanDuration(d); got != want {
			t.Errorf("span(%s) is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0", 850 * time.Microsecond: "850µs", 12300 * time.Microsecond: "12ms", 2 * time.Second: "2.0s"} {
		if got := formatDuration(d); got != want {
			t.Errorf("took(%s) is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{7: "7 B", 1500: "1.5 KB", 48_000_000: "48 MB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("size(%d) is %q, want %q", n, got, want)
		}
	}
	if got := formatCount(1234567); got != "1,234,567" {
		t.Errorf("count: %q", got)
	}
}

// A standby Go controller is not shown as healthy, since only the leader knows. Disabled
// history is mentioned.
func TestStandbyController(t *testing.T) {
	source := &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}, process: inspect.Process{Name: "setpoint", LeaderElection: true, Leader: "setpoint-1"}}
	for _, path := range []string{"/", teamsPage} {
		body := get(t, newServer(t, source), path).Body.String()
		if !strings.Contains(body, "Standby") || path == teamsPage && !strings.Contains(body, "setpoint-1 is the leader") {
			t.Errorf("%s: %s", path, body)
		}
	}
	source.process = inspect.Process{Name: "setpoint", IsLeader: true, History: inspect.HistoryStats{Off: true}}
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
	if w := postReconcileAll(t, s); w.Code != http.StatusBadRequest {
		t.Errorf("%d: %s", w.Code, w.Header())
	}
	source.process.History.Off = true
	wantTexts(t, get(t, s, programPage).Body.String(), "(--history-size)")
}
