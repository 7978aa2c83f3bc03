package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
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
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
	r.Header.Set("Hx-Request", "true")
	r.Header.Set("Hx-Target", id)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Body.String()
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
	if strings.Contains(getFragment(s, "/resources", "resources"), "<option") {
		t.Error("kinds are offered again")
	}
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

// largeSource is a process with many objects that records query limits.
type largeSource struct {
	*fakeSource
	names  []string
	limits []int
}

func (c *largeSource) Objects(_ context.Context, _ string, q inspect.Query) (inspect.Page, error) {
	c.limits = append(c.limits, q.Limit)
	var page inspect.Page
	for _, name := range c.names {
		if !strings.Contains(name, q.Text) {
			continue
		}
		page.Matching++
		if len(page.Objects) < q.Limit {
			page.Objects = append(page.Objects, inspect.ObjectState{Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name}, State: inspect.StateSynced})
		}
	}
	return page, nil
}

func tableRowJSON(name string) string {
	return fmt.Sprintf(`{"cells":[%[1]q],"object":{"metadata":{"name":%[1]q,"namespace":"shop","uid":%[1]q}}}`, name)
}

func TestSearchUsesControllerNames(t *testing.T) {
	controller := teamsController()
	controller.Kinds = []object.Kind{webKind()}
	source := &largeSource{fakeSource: &fakeSource{name: "setpoint", controllers: []inspect.Controller{controller}}}
	for i := range 5000 {
		source.names = append(source.names, fmt.Sprintf("web-%04d", i))
	}
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/webs"] = `{"metadata":{"continue":"x","remainingItemCount":4999},"columnDefinitions":[{"name":"Name"}],"rows":[` + tableRowJSON("web-0000") + `]}`
	a.responses["/apis/example.org/v1/namespaces/shop/webs"] = `{"columnDefinitions":[{"name":"Name"}],"rows":[` + tableRowJSON("web-4321") + `]}`
	wantTexts(t, get(t, a.newServer(t, source), "/resources/webs.example.org?name=4321").Body.String(), "/resources/webs.example.org/shop/web-4321", "1 object<")
	if lists, one := a.count("/v1/webs?"), a.count("fieldSelector=metadata.name%3Dweb-4321"); lists != 1 || one != 1 {
		t.Errorf("%d lists, and for the object %d times", lists, one)
	}
	// Above the limit, only the count is requested.
	if slices.Contains(source.limits[2:], maxStates) {
		t.Errorf("limits %v", source.limits)
	}
	// A controller that manages only some objects does not know the others.
	page := &kindPage{Kind: webKind(), Name: "4321"}
	for there, want := range map[int64]bool{5000: true, 5001: false} {
		if _, known := newTestRequest(t, "/").findByName(page, []processInfo{{Source: source, Controllers: source.controllers}}, there); known != want {
			t.Errorf("of %d they are known: %v", there, known)
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
