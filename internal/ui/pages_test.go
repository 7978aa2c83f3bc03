package ui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// intruder is text that somebody would like to have run as a script.
const intruder = `"><img src=x onerror=alert(1)><script>alert(2)</script>{{.}}javascript:alert(3)`

// besieged is a process in which everything that others write is intruder.
func besieged() *still {
	c := teams()
	c.Words, c.Notes = []string{intruder}, []string{intruder}
	c.Conditions = []inspect.Condition{{Type: "Ready", Status: "False", Reason: intruder, Message: intruder}}
	c.Last = &inspect.Failure{Message: intruder, Object: intruder}
	c.Calls = []inspect.Calls{{What: intruder, Outcome: intruder}}
	c.Failing = 1
	c.Series = inspect.Series{Every: time.Second, Points: []inspect.Point{{Runs: 1}, {Runs: 2, Failed: 1}}}
	care := inspect.Care{
		Ref: inspect.Ref{Kind: c.Kinds[0], Namespace: intruder, Name: intruder}, State: inspect.Failing, Error: intruder, Attempts: 1,
	}
	return &still{
		name: "setpoint", controllers: []inspect.Controller{c},
		process: inspect.Process{Name: intruder, Instance: intruder, Watches: []inspect.Watch{{Selection: intruder, Error: intruder}}},
		page:    inspect.Page{Total: 1, Matching: 1, Objects: []inspect.Care{care}, States: map[inspect.State]int{inspect.Failing: 1}},
	}
}

const teamsPage = "/controllers/setpoint/compositecontroller.setpoint.dev~teams"

// What a page must not have: a script or a style of its own, or a handler.
var (
	inline = regexp.MustCompile(`(?i)<script(>|\s[^>]*>[^<])|<style|<[a-z][^<>]*\s(style|on[a-z]+)\s*=|<img`)
	scheme = regexp.MustCompile(`(?i)(href|src|action|hx-get|hx-post)="\s*javascript:`)
	values = regexp.MustCompile(`="[^"]*"`)
)

// inlined is what a page has that it must not; "" for nothing. What is in the value of
// an attribute is text.
func inlined(page string) string {
	return scheme.FindString(page) + inline.FindString(values.ReplaceAllString(page, `=""`))
}

func TestNothingHostileRuns(t *testing.T) {
	s := serve(t, besieged())
	for _, path := range []string{"/", teamsPage, teamsPage + "?q=" + url.QueryEscape(intruder), "/" + url.PathEscape(intruder), "/signin?return=" + url.QueryEscape(intruder)} {
		body := get(t, s, path).Body.String()
		if found := inlined(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}

func TestTemplatesHaveNothingInline(t *testing.T) {
	err := fs.WalkDir(templateFiles, "templates", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := templateFiles.ReadFile(file)
		if found := inlined(string(text)); found != "" {
			t.Errorf("%s has %q, which the policy of its page forbids", file, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryAnswerIsProtected(t *testing.T) {
	s := serve(t, besieged())
	for _, path := range []string{"/", teamsPage, "/nowhere", "/signin"} {
		header := get(t, s, path).Header()
		if !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, header)
		}
	}
}

func TestAssetsAreKeptForGood(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	for name := range s.assets {
		w := get(t, s, s.assets.url(name))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if w := get(t, s, "/assets/0000/"+name); w.Code != http.StatusNotFound {
			t.Errorf("%s of another version: %d", name, w.Code)
		}
	}
	if len(s.assets) < 5 {
		t.Errorf("only %d assets", len(s.assets))
	}
}

// signedOut is a server whose visitors have to sign in.
func signedOut(t *testing.T) *Server {
	t.Helper()
	s := serve(t, &still{name: "setpoint"})
	api, err := asuser.New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	s.gate = access.New(access.Options{}, api.Verify)
	return s
}

func TestWhoIsNotSignedInIsLedThere(t *testing.T) {
	s := signedOut(t)
	for _, each := range routes() {
		method, path, _ := strings.Cut(each.pattern, " ")
		if each.public || method != http.MethodGet || path == "/live" {
			continue
		}
		path = strings.NewReplacer("{$}", "", "{", "", "}", "", "...", "").Replace(path)
		w := get(t, s, path)
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/signin?return=") {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Location"))
		}
	}
	if w := get(t, s, "/live"); !strings.Contains(w.Body.String(), "event: expired") {
		t.Errorf("/live: %s", w.Body)
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
	r.Header.Set("Hx-Request", "true")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || w.Header().Get("Hx-Redirect") == "" {
		t.Errorf("a script: %d %v", w.Code, w.Header())
	}
}

func TestSignInLeadsNowhereElse(t *testing.T) {
	for path, want := range map[string]string{
		"/controllers/a/b?q=c": "/controllers/a/b?q=c", "": "/", "https://evil.test": "/", "//evil.test": "/", `/\evil.test`: "/", "/a\r\nb": "/",
	} {
		if got := local(path); got != want {
			t.Errorf("local(%q) is %q", path, got)
		}
	}
}

func TestWritesTakeAToken(t *testing.T) {
	s := serve(t, &still{name: "setpoint", controllers: []inspect.Controller{teams()}})
	for _, each := range routes() {
		method, path, _ := strings.Cut(each.pattern, " ")
		if each.public || method != http.MethodPost {
			continue
		}
		path = strings.NewReplacer("{", "", "}", "").Replace(path)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path, http.NoBody))
		if w.Code != http.StatusForbidden {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
}

func TestOtherHostsAreRefused(t *testing.T) {
	s := serve(t, besieged())
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.test/", http.NoBody))
	if w.Code != http.StatusForbidden {
		t.Errorf("a name that leads here: %d", w.Code)
	}
}
