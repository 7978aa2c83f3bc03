package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func TestWhatNarrowsAListGoesAlongToAnotherNamespace(t *testing.T) {
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/namespaces/shop/webs"] = `{"rows":[]}`
	body := get(t, a.window(t), "/resources/webs.example.org?namespace=shop&name=a&labels=b%3Dc").Body.String()
	wants(t, body, `<span id="kept"><input type="hidden" name="name" value="a"><input type="hidden" name="labels" value="b=c"></span>`, `hx-select-oob="#kept"`)
}

// part asks for a page as a browser does that takes one element of it.
func part(s *Server, path, id string) string {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
	r.Header.Set("Hx-Request", "true")
	r.Header.Set("Hx-Target", id)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Body.String()
}

func TestAPartOfAPageAsksForNoMore(t *testing.T) {
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/webs"] = `{"rows":[]}`
	a.byPath["/api/v1/namespaces"] = `{"items":[{"metadata":{"name":"shop"}}]}`
	s := a.window(t)
	wants(t, get(t, s, "/resources/webs.example.org").Body.String(), "<option>shop</option>")
	wants(t, part(s, "/resources/webs.example.org?name=x", "objects"), `id="kept"><input type="hidden" name="name" value="x">`, "Nothing like that")
	if asked := a.times("/api/v1/namespaces?"); asked != 1 {
		t.Errorf("namespaces are listed %d times", asked)
	}
	wants(t, get(t, s, "/resources").Body.String(), `<option value="pods"></option>`)
	if strings.Contains(part(s, "/resources", "resources"), "<option") {
		t.Error("kinds are offered again")
	}
}

// Fault U9: a namespace that does not exist is not one that has no objects yet.
func TestANamespaceThatDoesNotExist(t *testing.T) {
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/namespaces/nope/webs"] = `{"rows":[]}`
	a.byPath["/apis/example.org/v1/namespaces/shop/webs"] = `{"rows":[]}`
	a.byPath["/api/v1/namespaces"] = `{"items":[{"metadata":{"name":"shop"}}]}`
	a.byPath["/api/v1/namespaces/shop"] = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`
	s := a.window(t)
	for namespace, want := range map[string]string{"nope": "There is no namespace nope", "shop": "No Webs yet in shop"} {
		for _, body := range []string{get(t, s, "/resources/webs.example.org?namespace="+namespace).Body.String(), part(s, "/resources/webs.example.org?namespace="+namespace, "objects")} {
			wants(t, body, want)
		}
	}
}

// crowd is a process that cares for many objects, and notes how many it was asked for.
type crowd struct {
	*still
	names  []string
	limits []int
}

func (c *crowd) Objects(_ context.Context, _ string, q inspect.Query) (inspect.Page, error) {
	c.limits = append(c.limits, q.Limit)
	var page inspect.Page
	for _, name := range c.names {
		if !strings.Contains(name, q.Text) {
			continue
		}
		page.Matching++
		if len(page.Objects) < q.Limit {
			page.Objects = append(page.Objects, inspect.Care{Ref: inspect.Ref{Kind: webKind(), Namespace: "shop", Name: name}, State: inspect.Well})
		}
	}
	return page, nil
}

func row(name string) string {
	return fmt.Sprintf(`{"cells":[%[1]q],"object":{"metadata":{"name":%[1]q,"namespace":"shop","uid":%[1]q}}}`, name)
}

func TestNamesAreAskedOfWhoKnowsThem(t *testing.T) {
	controller := teams()
	controller.Kinds = []inspect.Kind{webKind()}
	source := &crowd{still: &still{name: "setpoint", controllers: []inspect.Controller{controller}}}
	for i := range 5000 {
		source.names = append(source.names, fmt.Sprintf("web-%04d", i))
	}
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/webs"] = `{"metadata":{"continue":"x","remainingItemCount":4999},"columnDefinitions":[{"name":"Name"}],"rows":[` + row("web-0000") + `]}`
	a.byPath["/apis/example.org/v1/namespaces/shop/webs"] = `{"columnDefinitions":[{"name":"Name"}],"rows":[` + row("web-4321") + `]}`
	wants(t, get(t, a.window(t, source), "/resources/webs.example.org?name=4321").Body.String(), "/resources/webs.example.org/shop/web-4321", "1 object here")
	if lists, one := a.times("/v1/webs?"), a.times("fieldSelector=metadata.name%3Dweb-4321"); lists != 1 || one != 1 {
		t.Errorf("asked for %d lists, and for the object %d times", lists, one)
	}
	// Of more than are looked at, it is asked only how many they are.
	if slices.Contains(source.limits[2:], manyCares) {
		t.Errorf("asked for %v", source.limits)
	}
	// One that cares for some alone does not know the others.
	page := &kindPage{Kind: webKind(), Name: "4321"}
	for there, want := range map[int64]bool{5000: true, 5001: false} {
		if _, known := visiting(t, "/").named(page, []told{{Source: source, Controllers: source.controllers}}, there); known != want {
			t.Errorf("of %d they are known: %v", there, known)
		}
	}
}

// The API server stores no reviews: that is no fault of the dashboard. Fault S8.
func TestReviewsAreNotListed(t *testing.T) {
	_, s := shelve(t, v1Object("ConfigMap", nil))
	for _, path := range []string{"", "/new", "/-/a", "/-/a/edit", "/-/a/delete", "/-/a/yaml"} {
		w := get(t, s, "/resources/selfsubjectreviews"+path)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "stores no selfsubjectreviews: it only takes create") {
			t.Errorf("%s: answered %d:\n%s", path, w.Code, w.Body)
		}
	}
}
