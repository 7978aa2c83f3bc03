package dashboard

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/templates"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hostileScript is text that an attacker wants to run.
const hostileScript = `"><img src=x onerror=alert(1)><script>alert(2)</script>{{.}}javascript:alert(3)`

// newHostileSource returns a process whose texts are all hostile.
func newHostileSource() *fakeSource {
	c := teamsController()
	c.Description, c.Notes = []string{hostileScript}, []string{hostileScript}
	c.Conditions = []inspect.Condition{{Type: "Ready", Status: "False", Reason: hostileScript, Message: hostileScript}}
	c.Last = &inspect.Failure{Message: hostileScript, Object: hostileScript}
	c.Calls = []inspect.CallStats{{Name: hostileScript, Outcome: hostileScript}}
	c.Failing = 1
	c.Series = inspect.Series{Every: time.Second, Points: []inspect.Point{{Runs: 1}, {Runs: 2, Failed: 1}}}
	state := inspect.ObjectState{
		Ref: object.Ref{Kind: c.Kinds[0], Namespace: hostileScript, Name: hostileScript}, State: inspect.StateFailing, Error: hostileScript, Attempts: 1,
	}
	return &fakeSource{
		name: "setpoint", controllers: []inspect.Controller{c},
		process: inspect.Process{Name: hostileScript, Instance: hostileScript, Watches: []inspect.Watch{{Selection: hostileScript, Error: hostileScript}}},
		page:    inspect.Page{Total: 1, Matching: 1, Objects: []inspect.ObjectState{state}, States: map[inspect.State]int{inspect.StateFailing: 1}},
	}
}

const teamsPage = "/controllers/setpoint/compositecontroller.setpoint.dev~teams"

// Patterns of inline scripts, styles and event handlers.
var (
	inlineCode      = regexp.MustCompile(`(?i)<script(>|\s[^>]*>[^<])|<style|<[a-z][^<>]*\s(style|on[a-z]+)\s*=|<img`)
	scriptURL       = regexp.MustCompile(`(?i)(href|src|action|hx-get|hx-post)="\s*javascript:`)
	attributeValues = regexp.MustCompile(`="[^"]*"`)
)

// findInlineCode returns the inline code of a page; "" for none. Attribute values are text.
func findInlineCode(page string) string {
	return scriptURL.FindString(page) + inlineCode.FindString(attributeValues.ReplaceAllString(page, `=""`))
}

func TestHostileTextIsEscaped(t *testing.T) {
	s := newServer(t, newHostileSource())
	for _, path := range []string{"/", teamsPage, teamsPage + "?q=" + url.QueryEscape(hostileScript), "/" + url.PathEscape(hostileScript), "/signin?return=" + url.QueryEscape(hostileScript)} {
		body := get(t, s, path).Body.String()
		if found := findInlineCode(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}

func TestTemplatesHaveNothingInline(t *testing.T) {
	must.Succeed(t, fs.WalkDir(templates.Files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := templates.Files.ReadFile(file)
		if found := findInlineCode(string(text)); found != "" {
			t.Errorf("%s has %q, which the policy of its page forbids", file, found)
		}
		return err
	}))
}

func TestSecurityHeaders(t *testing.T) {
	s := newServer(t, newHostileSource())
	for _, path := range []string{"/", teamsPage, "/nowhere", "/signin"} {
		header := get(t, s, path).Header()
		if !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, header)
		}
	}
}

func TestAssetCaching(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	for name := range s.Assets {
		w := get(t, s, s.Assets.Link(name))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if w := get(t, s, "/assets/0000/"+name); w.Code != http.StatusNotFound || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s of another version: %d %v", name, w.Code, w.Header())
		}
	}
	if page := get(t, s, "/").Body.String(); len(s.Assets) < 5 || !strings.Contains(page, s.Assets.Link("app.css")) {
		t.Errorf("only %d assets, or a page without them: %s", len(s.Assets), page)
	}
}

// newSignInServer returns a Server with sign-in.
func newSignInServer(t *testing.T) *Server {
	t.Helper()
	s := newServer(t, &fakeSource{name: "setpoint"})
	api := must.Get(userclient.NewCluster(&rest.Config{Host: "http://127.0.0.1:1"})).In(t)
	s.Authenticator = access.New(access.Options{}, api.Verify)
	return s
}

func TestSignInRedirect(t *testing.T) {
	s := newSignInServer(t)
	for _, each := range slices.Concat(web.SiteRoutes(), s.objects.Routes(), s.edit.Routes(), s.routes()) {
		method, path, _ := strings.Cut(each.Pattern, " ")
		if each.Public || method != http.MethodGet || path == "/live" {
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
	w := send(s, http.MethodGet, "/", http.NoBody, "Hx-Request", "true")
	if w.Code != http.StatusUnauthorized || w.Header().Get("Hx-Redirect") == "" {
		t.Errorf("a script: %d %v", w.Code, w.Header())
	}
}

func TestWritesOfOtherSitesAreRejected(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}})
	for _, each := range slices.Concat(web.SiteRoutes(), s.objects.Routes(), s.edit.Routes(), s.routes()) {
		method, path, _ := strings.Cut(each.Pattern, " ")
		if each.Public || method != http.MethodPost {
			continue
		}
		path = strings.NewReplacer("{", "", "}", "").Replace(path)
		if w := send(s, http.MethodPost, path, http.NoBody, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestUnknownHostsAreRejected(t *testing.T) {
	s := newServer(t, newHostileSource())
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.test/", http.NoBody))
	if w.Code != http.StatusForbidden {
		t.Errorf("a name that leads here: %d", w.Code)
	}
}

// Users see a watch only if they may list its objects.
func TestWatchesRequireListPermission(t *testing.T) {
	api := newReviewAPI(t, func(of *authorization.ResourceAttributes) bool {
		return of.Verb == "list" && of.Resource == "teams" && of.Namespace == "shop"
	})
	teams, vaults := teamsController().Kinds[0], object.Kind{Group: "example.org", Version: "v1", Plural: "vaults", Kind: "Vault", Namespaced: true}
	process := &fakeSource{name: "setpoint"}
	process.process.Watches = []inspect.Watch{
		{Selection: "teams.v1.example.org in shop", Kind: teams, Namespace: "shop", Objects: 3, Bytes: 1},
		{Selection: "teams.v1.example.org in bank", Kind: teams, Namespace: "bank", Objects: 1000, Bytes: 1},
		{Selection: "vaults.v1.example.org with tier=gold", Kind: vaults, Objects: 1000, Bytes: 1, Error: "no vaults"},
		{Selection: "of another version", Objects: 1000, Bytes: 1},
	}
	body := newProxyServer(t, api, process)("/").Body.String()
	wantTexts(t, body, "teams.v1.example.org in shop", "3 objects, 1 B", "that you may list", "3 watches are not shown",
		"!bank", "!vaults", "!gold", "!another version", "!1,000", "!1003")
	// The process itself may see all.
	wantTexts(t, get(t, newServer(t, process), "/").Body.String(), "vaults.v1.example.org with tier=gold", "another version")
}
