package ui

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func TestControllersThatNeedSomebodyComeFirst(t *testing.T) {
	well, sick, lazy := teams(), teams(), teams()
	well.Name, sick.Name, lazy.Name = "c/aaa", "c/zzz", "c/mmm"
	sick.Conditions = []inspect.Condition{{Type: "Ready", Status: "False", Reason: "HookFailing", Message: "it answers 500"}}
	lazy.Suspended = true
	body := get(t, serve(t, &still{name: "setpoint", controllers: []inspect.Controller{well, lazy, sick}}), "/").Body.String()
	last := 0
	for _, text := range []string{">zzz<", "HookFailing", ">mmm<", "Suspended", ">aaa<", "Ready"} {
		at := strings.Index(body[last:], text)
		if at < 0 {
			t.Fatalf("%s is missing, or not in its place:\n%s", text, body)
		}
		last += at
	}
}

func TestAProcessThatDoesNotAnswerIsNamed(t *testing.T) {
	w := get(t, serve(t, &still{name: "shop", err: errors.New("connection refused")}, &still{name: "setpoint", controllers: []inspect.Controller{teams()}}), "/")
	for _, text := range []string{"shop", "connection refused", "teams"} {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%q is missing:\n%s", text, w.Body)
		}
	}
}

func TestNothingYetTeaches(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	if body := get(t, (&answers{Server: up}).window(t, &still{name: "setpoint"}), "/").Body.String(); !strings.Contains(body, "setpoint dev examples/") {
		t.Errorf("no word about what to do:\n%s", body)
	}
}

// Fault U8: "No controllers yet" is not said where it is not known, or not so.
func TestNothingIsNotSaidOfWhatIsNotKnown(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	for want, page := range map[string]string{
		"API server unreachable":            get(t, serve(t, &still{name: "setpoint"}), "/").Body.String(),
		"No controllers match the selector": get(t, (&answers{Server: up}).window(t, &still{name: "setpoint", process: inspect.Process{Selector: "team=a"}}), "/").Body.String(),
		"Controllers not known yet":         get(t, (&answers{Server: up}).window(t, &still{name: "setpoint", process: inspect.Process{Watches: []inspect.Watch{{Selection: "x"}}}}), "/").Body.String(),
	} {
		if !strings.Contains(page, want) || strings.Contains(page, "No controllers yet") {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
}

func TestPagesOfManyObjects(t *testing.T) {
	list := objectList{at: "/c", Page: inspect.Page{Total: 10000, Matching: 10000}, Query: inspect.Query{Offset: 200, Sort: "name", State: inspect.Failing, Text: "a b"}}
	list.Objects = make([]inspect.Care, pageSize)
	if got, want := list.Before(), "/c?offset=100&q=a+b&sort=name&state=Failing"; got != want {
		t.Errorf("before: %s, want %s", got, want)
	}
	if got := list.Range(); got != "201–300 of 10\u202f000" {
		t.Errorf("range: %s", got)
	}
	list.Query.Offset = 9900
	if list.After() != "" {
		t.Errorf("after the last: %s", list.After())
	}
	for _, c := range list.Columns() {
		if (c.Sorted == "ascending") != (c.Name == "Object") {
			t.Errorf("%s is sorted %q", c.Name, c.Sorted)
		}
	}
}

func TestUnknownControllers(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	for _, path := range []string{teamsPage, "/controllers/nobody/x"} {
		if w := get(t, s, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestPagesHearOfChanges(t *testing.T) {
	source := &still{name: "setpoint", revisions: make(chan uint64, 2)}
	server := httptest.NewServer(serve(t, source))
	defer server.Close()
	response, err := http.Get(server.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines, heard := bufio.NewScanner(response.Body), 0
	timeout := time.AfterFunc(20*time.Second, server.CloseClientConnections)
	defer timeout.Stop()
	for lines.Scan() {
		switch lines.Text() {
		case ": open": // What has changed meanwhile.
			source.revisions <- 1
		case "event: change":
			heard++
			if heard == 2 {
				return
			}
			source.revisions <- 2
		}
	}
	t.Errorf("the page was told of %d changes", heard)
}

func TestWhatIsSaidOnce(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	w := httptest.NewRecorder()
	(&visit{Server: s, w: w, r: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}).flash("It is done.")
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
	for _, cookie := range w.Result().Cookies() {
		r.AddCookie(cookie)
	}
	next := httptest.NewRecorder()
	s.ServeHTTP(next, r)
	if !strings.Contains(next.Body.String(), "It is done.") {
		t.Error("it is not said")
	}
	if cookies := next.Result().Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("it is said again: %v", cookies)
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", 90 * time.Second: "90s", 3 * time.Minute: "3m", 5 * time.Hour: "5h", 72 * time.Hour: "3d",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0", 850 * time.Microsecond: "850µs", 12300 * time.Microsecond: "12ms", 2 * time.Second: "2.0s"} {
		if got := took(d); got != want {
			t.Errorf("took(%s) is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{7: "7 B", 1500: "1.5 KB", 48_000_000: "48 MB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) is %q, want %q", n, got, want)
		}
	}
	if got := count(1234567); got != "1\u202f234\u202f567" {
		t.Errorf("count: %q", got)
	}
}

// A Go program that stands by is not said to be well: only the one that leads knows. That
// no history is kept is said, too.
func TestWhoStandsBySaysSo(t *testing.T) {
	source := &still{name: "setpoint", controllers: []inspect.Controller{teams()}, process: inspect.Process{Name: "setpoint", Elects: true, Leader: "setpoint-1"}}
	for _, path := range []string{"/", teamsPage} {
		body := get(t, serve(t, source), path).Body.String()
		if !strings.Contains(body, "Standby") || path == teamsPage && !strings.Contains(body, "setpoint-1 does the work") {
			t.Errorf("%s: %s", path, body)
		}
	}
	source.process = inspect.Process{Name: "setpoint", Leads: true, Book: inspect.BookStats{Off: true}}
	for _, path := range []string{"/", teamsPage} {
		if body := get(t, serve(t, source), path).Body.String(); !strings.Contains(body, "(--history-size)") || strings.Contains(body, "Runs") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// What reviews objects does so in each replica: one that stands by is at work, too, and
// there is nothing to be reconciled.
func TestReviewsAreAtWorkInEachReplica(t *testing.T) {
	source := goProgram()
	source.controllers[0].Everywhere = true
	source.process = inspect.Process{Name: "shop", Elects: true, Leader: "shop-1"}
	for _, path := range []string{"/", programPage} {
		body := get(t, serve(t, source), path).Body.String()
		if strings.Contains(body, ">Standby") || path == programPage && strings.Contains(body, "does the work") {
			t.Errorf("%s: %s", path, body)
		}
	}
	s := serve(t, source)
	page := get(t, s, programPage).Body.String()
	wants(t, page, "It reviews what others write, and has no objects in its care.")
	if w := reconciles(t, s, page); w.Code != http.StatusBadRequest {
		t.Errorf("%d: %s", w.Code, w.Header())
	}
	source.process.Book.Off = true
	wants(t, get(t, s, programPage).Body.String(), "(--history-size)")
}
