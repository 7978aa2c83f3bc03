package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestFiltersSurviveNamespaceChange(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs"] = `{"rows":[]}`
	body := get(t, a.newServer(t), "/resources/webs.example.org?namespace=shop&name=a&labels=b%3Dc").Body.String()
	wantTexts(t, body, `<span id="filters"><input type="hidden" name="name" value="a"><input type="hidden" name="labels" value="b=c"></span>`, `hx-select-oob="#filters,#order"`)
}

// getFragment requests one element of a page like htmx.
func getFragment(s *Server, path, id string) string {
	return send(s, http.MethodGet, path, http.NoBody, "Hx-Request", "true", "Hx-Target", id).Body.String()
}

func TestFragmentRequests(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/webs"] = `{"rows":[]}`
	a.responses["/api/v1/namespaces"] = `{"items":[{"metadata":{"name":"shop"}}]}`
	s := a.newServer(t)
	wantTexts(t, get(t, s, "/resources/webs.example.org").Body.String(), "<option>shop</option>")
	wantTexts(t, getFragment(s, "/resources/webs.example.org?name=x", "objects"), `id="filters"><input type="hidden" name="name" value="x">`, "No matches")
	if requests := a.count("/api/v1/namespaces?"); requests != 1 {
		t.Errorf("namespaces are listed %d times", requests)
	}
	wantTexts(t, get(t, s, "/resources").Body.String(), `<option value="pods"></option>`)
	wantTexts(t, getFragment(s, "/resources", "resources"), "!<option") // Kinds are not offered again.
}

// Fault U9: an unknown namespace is not shown as empty.
func TestUnknownNamespace(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/nope/webs"] = `{"rows":[]}`
	a.responses["/apis/example.org/v1/namespaces/shop/webs"] = `{"rows":[]}`
	a.responses["/api/v1/namespaces"] = `{"items":[{"metadata":{"name":"shop"}}]}`
	a.responses["/api/v1/namespaces/shop"] = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`
	s := a.newServer(t)
	for namespace, want := range map[string]string{"nope": "Namespace nope not found", "shop": "No Webs yet in shop"} {
		for _, body := range []string{get(t, s, "/resources/webs.example.org?namespace="+namespace).Body.String(), getFragment(s, "/resources/webs.example.org?namespace="+namespace, "objects")} {
			wantTexts(t, body, want)
		}
	}
}

// The API server does not store reviews: that is not an internal error. Fault S8.
func TestReviewsAreNotListed(t *testing.T) {
	_, s := newObjectServer(t, v1Object("ConfigMap", nil))
	for _, path := range []string{"", "/new", "/-/a", "/-/a/edit", "/-/a/delete", "/-/a/yaml"} {
		w := get(t, s, "/resources/selfsubjectreviews"+path)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "does not store selfsubjectreviews: it supports only create") {
			t.Errorf("%s: status %d:\n%s", path, w.Code, w.Body)
		}
	}
}

// statesSource is a process that counts objects, and fails or hangs when it should list them.
type statesSource struct {
	*fakeSource
	matching int
	hangs    bool
	listErr  error
	// unknown is an object that the process does not know, broken one whose states it cannot tell.
	unknown, broken string
	limits          []int
}

func (s *statesSource) Objects(ctx context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	if s.hangs {
		<-ctx.Done()
		return inspect.Page{}, ctx.Err()
	}
	s.limits = append(s.limits, q.Limit)
	if s.listErr != nil {
		return inspect.Page{}, s.listErr
	}
	return inspect.Page{Matching: s.matching, Objects: []inspect.ObjectState{s.state("a", controller)}}, nil
}

func (s *statesSource) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	switch ref.Name {
	case s.unknown:
		return nil, failure.ErrNotFound
	case s.broken:
		return nil, errors.New("out of order")
	}
	return []inspect.ObjectState{s.state(ref.Name, s.controllers[0].Name)}, nil
}

func (s *statesSource) state(name, controller string) inspect.ObjectState {
	return inspect.ObjectState{Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name}, State: inspect.StateSynced, Controller: controller, Process: s.name}
}

// newStatesSource is a process with one controller of Webs.
func newStatesSource(name string) *statesSource {
	c := teamsController()
	c.Process, c.Kinds = name, []object.Kind{webKind()}
	return &statesSource{fakeSource: &fakeSource{name: name, controllers: []inspect.Controller{c}}}
}

// kindOfWebs is a page with some Webs, called a, b, and so on.
func kindOfWebs(n int) *kindPage {
	p := &kindPage{Kind: webKind()}
	for i := range n {
		name := fmt.Sprintf("%c", 'a'+i)
		p.Rows = append(p.Rows, objectRow{Row: userclient.Row{Namespace: "shop", Name: name}, Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name}})
	}
	return p
}

// A list says which states are missing, and why. A process that hangs does not hide the states of
// others.
func TestMissingStatesAreNoted(t *testing.T) {
	hangs, works := newStatesSource("hangs"), newStatesSource("works")
	hangs.hangs, works.matching = true, 1
	fails, gone := newStatesSource("fails"), newStatesSource("gone")
	fails.listErr, gone.listErr = errors.New("out of memory"), failure.ErrNotFound
	each := newStatesSource("each")
	each.matching, each.unknown, each.broken = maxStates+1, "a", "c"

	data := kindOfWebs(4)
	var all []processes.Info
	for _, s := range []*statesSource{hangs, works, fails, gone, each} {
		all = append(all, processes.Info{Source: s, Controllers: s.controllers})
	}
	// Only the process that hangs meets its timeout.
	short, long := newTestRequest(t, "/"), newTestRequest(t, "/")
	short.Processes.Timeouts, long.Processes.Timeouts = inspect.NewTimeouts(time.Millisecond), inspect.NewTimeouts(time.Hour)
	short.addStates(data, all[:1])
	long.addStates(data, all[1:])
	wantTexts(t, data.Note, "States are missing: process hangs did not respond in time.",
		"States are missing: process fails did not respond: out of memory.",
		"States are missing: process each did not respond: out of order.",
		"!works", "!gone")
	for i, want := range []string{"works", "each", "", ""} {
		from := lists.Map(data.Rows[i].States, func(state inspect.ObjectState) string { return state.Process })
		if strings.Join(from, " ") != want {
			t.Errorf("%s has states from %q, want %q", data.Rows[i].Name, from, want)
		}
	}
}

// States of more objects than are sorted are not fetched.
func TestStatesOfSortedListsAreLimited(t *testing.T) {
	source := newStatesSource("setpoint")
	source.matching = maxWholeRows + 1
	data := kindOfWebs(pageRows + 1)
	newTestRequest(t, "/").addStates(data, []processes.Info{{Source: source, Controllers: source.controllers}})
	if want := []int{1, maxWholeRows}; !slices.Equal(source.limits, want) || !strings.Contains(data.Note, "first 20,000 states") {
		t.Errorf("limits %v, want %v; noted: %s", source.limits, want, data.Note)
	}
}

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
