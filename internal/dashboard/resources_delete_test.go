package dashboard

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// fakeAPI responds by path and records requests. Unknown paths are not found, and "forbidden"
// is forbidden.
type fakeAPI struct {
	*httptest.Server
	responses map[string]string
	mu        sync.Mutex
	requests  []string
}

func newFakeAPI(t *testing.T, byPath map[string]string) *fakeAPI {
	t.Helper()
	a := &fakeAPI{responses: byPath}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json")
	switch response := a.responses[r.URL.Path]; response {
	case "":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
	case "forbidden":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,`+
			`"message":"things is forbidden: User \"ann\" cannot list resource \"things\" in API group \"\" in the namespace \"shop\""}`)
	default:
		_, _ = io.WriteString(w, response)
	}
}

// count returns how many requests contain a text.
func (a *fakeAPI) count(text string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, requests := range a.requests {
		if strings.Contains(requests, text) {
			n++
		}
	}
	return n
}

// newServer returns a Server of the API server.
func (a *fakeAPI) newServer(t *testing.T, sources ...inspect.Source) *Server {
	t.Helper()
	api, err := userclient.New(&rest.Config{Host: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Cluster: api, Access: access.Options{Token: testToken}, Log: slog.New(slog.DiscardHandler),
		Sources: func(context.Context) []inspect.Source { return sources },
	})
	if err != nil {
		t.Fatal(err)
	}
	return signedIn(s)
}

// discoveryResponses are discovery documents with core kinds, webs, and CRDs.
func discoveryResponses() map[string]string {
	const verbs = `"verbs":["list","delete","get"]`
	return map[string]string{
		"/api": `{"items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[
			{"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster",` + verbs + `},
			{"resource":"configmaps","responseKind":{"kind":"ConfigMap"},"scope":"Namespaced",` + verbs + `},
			{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced",` + verbs + `},
			{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced",` + verbs + `}]}]}]}`,
		"/apis": `{"items":[{"metadata":{"name":"example.org"},"versions":[{"version":"v1","resources":[
			{"resource":"webs","responseKind":{"kind":"Web"},"scope":"Namespaced",` + verbs + `}]}]},
			{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
			{"resource":"replicasets","responseKind":{"kind":"ReplicaSet"},"scope":"Namespaced",` + verbs + `},
			{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced",` + verbs + `}]}]},
			{"metadata":{"name":"apiextensions.k8s.io"},"versions":[{"version":"v1","resources":[
			{"resource":"customresourcedefinitions","responseKind":{"kind":"CustomResourceDefinition"},"scope":"Cluster",` + verbs + `}]}]}]}`,
	}
}

func TestDeleteNamespaceListsContents(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/api/v1/namespaces/shop"] = `{"metadata":{"name":"shop","uid":"u"}}`
	a.responses["/api/v1/namespaces/shop/pods"] = `{"metadata":{"remainingItemCount":1233,"continue":"x"},"items":[{"metadata":{"name":"a"}}]}`
	a.responses["/api/v1/namespaces/shop/configmaps"] = `{"items":[]}`
	a.responses["/api/v1/namespaces/shop/things"] = "forbidden"
	body := get(t, a.newServer(t), "/resources/namespaces/-/shop/delete").Body.String()
	wantTexts(t, body, "Everything in this namespace is deleted with it.", `<a href="/resources/pods?namespace=shop">Pod</a>`,
		"1,234", "things <span class=\"muted small\">(forbidden: User &#34;ann&#34; cannot list resource &#34;things&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;)</span>", "Type shop to confirm")
	for _, not := range []string{"ConfigMap", "None found", "Orphan"} {
		if strings.Contains(body, not) {
			t.Errorf("it says %q", not)
		}
	}
}

func TestDeleteCRDCountsObjects(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webs.example.org"] = `{"metadata":{"name":"webs.example.org","uid":"u"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"kind":"Web","plural":"webs"},"versions":[{"name":"v1","served":true},{"name":"v2","served":false}]}}`
	a.responses["/apis/example.org/v1/webs"] = `{"metadata":{"remainingItemCount":6,"continue":"x"},"items":[{"metadata":{"name":"a"}}]}`
	body := get(t, a.newServer(t), "/resources/customresourcedefinitions.apiextensions.k8s.io/-/webs.example.org/delete").Body.String()
	wantTexts(t, body, "All objects of its kind are deleted with it.", `<a href="/resources/webs.example.org">Web</a>`, `class="number">7</td>`)
}

func TestDeleteListsSearchedKinds(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"u"}}`
	a.responses["/api/v1/namespaces/shop/pods"] = `{"items":[]}`
	wantTexts(t, get(t, a.newServer(t), "/resources/webs.example.org/shop/a/delete").Body.String(), "No kinds were searched.", "Objects of other kinds that it owns are deleted too.")
	c := teamsController()
	c.Kinds, c.Children = []object.Kind{webKind()}, []object.Kind{podRef("").Kind}
	wantTexts(t, get(t, a.newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}), "/resources/webs.example.org/shop/a/delete").Body.String(),
		"None found.", "Searched kinds: pods.")
}

func TestDeleteAndCreateWarnOfFailingHooks(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"u","finalizers":["setpoint.dev/teams"]}}`
	a.responses["/api/v1/namespaces/shop/pods"], a.responses["/openapi/v3"] = `{"items":[]}`, `{"paths":{}}`
	c := teamsController()
	c.Kinds, c.Failing, c.Last = []object.Kind{webKind()}, 1, &inspect.Failure{Message: "hook finalize: 500", Object: "shop/b"}
	source := &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}
	const toDelete, toCreate = "/resources/webs.example.org/shop/a/delete", "/resources/webs.example.org/new"
	body := get(t, a.newServer(t, source), toDelete).Body.String()
	wantTexts(t, body, "teams</a> manages this kind:", "1 failing", "While its finalize hook fails, a deleted object stays.", "hook finalize: 500")
	body = get(t, a.newServer(t, source), toCreate).Body.String()
	wantTexts(t, body, "teams</a> manages this kind:", "1 failing", "A new Web may fail as well.", "hook finalize: 500")

	ref := object.Ref{Kind: webKind(), Namespace: "shop", Name: "a", UID: "u"}
	source.states = []inspect.ObjectState{{Ref: ref, Controller: c.Name, Process: "setpoint", State: inspect.StateFailing, Error: "hook finalize: 503"}}
	body = get(t, a.newServer(t, source), toDelete).Body.String()
	wantTexts(t, body, "fails for this object now. While its finalize hook fails, the object stays:", "hook finalize: 503")
	if strings.Contains(body, "manages this kind") {
		t.Error("it says twice that the controller fails")
	}

	c.Failing = 0
	source.controllers, source.states = []inspect.Controller{c}, nil
	for _, page := range []string{toDelete, toCreate} {
		if body := get(t, a.newServer(t, source), page).Body.String(); strings.Contains(body, "manages this kind") || strings.Contains(body, "fails for") {
			t.Errorf("%s warns of a controller that is well", page)
		}
	}
}

func TestDeleteIndentsByDepth(t *testing.T) {
	var data deletePage
	data.addDependents([]userclient.Dependent{{Ref: podRef("a"), Dependents: []userclient.Dependent{{Ref: podRef("b"), Dependents: []userclient.Dependent{{Ref: podRef("c")}}}}}}, 0)
	for i, want := range []string{"", "↳ ", "\u2003↳ "} {
		if got := data.Dependents[i].Indent(); got != want {
			t.Errorf("depth %d: %q", i, got)
		}
	}
}
