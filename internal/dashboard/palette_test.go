package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// paletteSource has a controller with a rollout and one object.
func paletteSource() *fakeSource {
	c := teamsController()
	declared := object.Ref{Kind: object.Kind{Group: "setpoint.dev", Version: "v1alpha1", Plural: "compositecontrollers", Kind: "CompositeController"}, Name: "teams"}
	c.Declared, c.Rollout = &declared, &setpoint.RolloutStatus{Phase: setpoint.RolloutStepping}
	state := inspect.ObjectState{Ref: object.Ref{Kind: c.Kinds[0], Namespace: "shop", Name: "Blue-team"}, State: inspect.StateFailing, Controller: c.Name, Process: "setpoint"}
	return &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}, page: inspect.Page{Total: 1, Matching: 1, Objects: []inspect.ObjectState{state}}}
}

// searchPalette returns what a dialog shows for a query.
func searchPalette(t *testing.T, s *Server, query string) string {
	t.Helper()
	w := send(s, http.MethodGet, "/palette?q="+url.QueryEscape(query), http.NoBody, "Hx-Request", "true", "Hx-Target", "palette-results")
	if w.Code != http.StatusOK {
		t.Errorf("%q: %d %s", query, w.Code, w.Body)
	}
	checkInert(t, w.Body.String())
	return strings.Join(strings.Fields(w.Body.String()), " ")
}

func TestPalette(t *testing.T) {
	s := newServer(t, paletteSource())
	for query, want := range map[string]struct{ has, not string }{
		"":                {`href="/resources"`, "Suspend: "},
		"teams":           {`href="` + teamsPage + `"`, "Overview"},
		"TEAM":            {`<bdi>shop/Blue-team</bdi>`, "Overview"},
		"suspend te":      {`data-palette-status="0 results"`, "teams"},
		"shop/blue":       {`<bdi>shop/Blue-team</bdi>`, `<bdi>Overview</bdi>`},
		"nothing-at-all":  {`data-palette-status="0 results"`, "option"},
		"overv":           {`id="palette-0-0"`, "teams"},
		"failing control": {`href="/?state=failing"`, "teams"},
	} {
		body := searchPalette(t, s, query)
		if !strings.Contains(body, want.has) || strings.Contains(body, want.not) {
			t.Errorf("%q: has %t, lacks %t:\n%s", query, strings.Contains(body, want.has), !strings.Contains(body, want.not), body)
		}
	}
}

// Results that may lack objects say so: a process has more matches, or is not searched.
func TestPaletteWarnsAboutMissingObjects(t *testing.T) {
	const warning = "Not all objects were searched."
	for name, test := range map[string]struct {
		matching, controllers int
		want                  bool
	}{
		"all are found":        {1, 1, false},
		"more objects match":   {maxPaletteFound + 1, 1, true},
		"many controllers":     {1, maxPaletteSources, false},
		"too many controllers": {1, maxPaletteSources + 1, true},
	} {
		source := paletteSource()
		source.page.Matching = test.matching
		source.controllers = slices.Repeat(source.controllers, test.controllers)
		body := searchPalette(t, newServer(t, source), "blue")
		if !strings.Contains(body, "shop/Blue-team") || strings.Count(body, warning) != map[bool]int{true: 1}[test.want] {
			t.Errorf("%s: warned: %t:\n%s", name, !test.want, body)
		}
	}
}

// Whatever is typed, the results are few and inert.
func TestPaletteTakesAnything(t *testing.T) {
	source := newHostileSource()
	for range 200 {
		source.controllers = append(source.controllers, source.controllers[0])
		source.page.Objects = append(source.page.Objects, source.page.Objects[0])
	}
	s := newServer(t, source)
	for _, query := range []string{hostileScript, "javascript:alert(3)", "src=x", strings.Repeat("a ", 5000), strings.Repeat("é", 400), "\x00", "/", "//", "a/b/c", "..", "%", "suspend", "delete onerror"} {
		body := searchPalette(t, s, query)
		if options := strings.Count(body, `role="option"`); options > 5*maxPaletteItems+1 {
			t.Errorf("%q finds %d", query[:min(len(query), 20)], options)
		}
		if w := get(t, s, "/palette?q="+url.QueryEscape(query)); w.Code != http.StatusOK {
			t.Errorf("the page of %q: %d", query[:min(len(query), 20)], w.Code)
		}
	}
}

// Users find only what they may see.
func TestPaletteHasThePermissionsOfTheUser(t *testing.T) {
	api := newReviewAPI(t, func(of *authorization.ResourceAttributes) bool { return of.Verb == "get" || of.Verb == "list" })
	load := newProxyServer(t, api, paletteSource())
	wantTexts(t, load("/palette?q=blue").Body.String(), "Blue-team")
	none := newReviewAPI(t, func(*authorization.ResourceAttributes) bool { return false })
	load = newProxyServer(t, none, paletteSource())
	for _, query := range []string{"teams", "blue", "suspend", "team"} {
		if body := load("/palette?q=" + query).Body.String(); strings.Contains(body, "Blue-team") || strings.Contains(body, teamsPage) {
			t.Errorf("%q shows what the user may not see", query)
		}
	}
}
