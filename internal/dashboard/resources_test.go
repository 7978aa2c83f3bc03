package dashboard

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// newTeamsAPI serves 700 teams as tables.
func newTeamsAPI(t *testing.T) *userclient.Cluster {
	t.Helper()
	row := func(name string) string {
		return fmt.Sprintf(`{"cells":[%[1]q],"object":{"metadata":{"name":%[1]q,"namespace":"shop"}}}`, name)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if responses := discoveryResponses(); responses[r.URL.Path] != "" {
			_, _ = fmt.Fprint(w, strings.ReplaceAll(responses[r.URL.Path], "webs", "teams"))
			return
		}
		metadata, rows := `{}`, []string{}
		switch r.URL.Query().Get("continue") {
		case "":
			metadata = `{"continue":"x","remainingItemCount":200}`
			for i := range 500 {
				rows = append(rows, row(fmt.Sprintf("t%03d", i)))
			}
		default:
			for i := range 200 {
				rows = append(rows, row(fmt.Sprintf("t%03d", 500+i)))
			}
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%s,"columnDefinitions":[{"name":"Name","type":"string"}],"rows":[%s]}`, metadata, strings.Join(rows, ","))
	}))
	t.Cleanup(server.Close)
	return must.Get(userclient.NewCluster(&rest.Config{Host: server.URL})).In(t)
}

// A list is read whole to sort it and to search it by name.
func TestWholeListOfKind(t *testing.T) {
	c := teamsController()
	source := &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}
	failing := object.Ref{Kind: c.Kinds[0], Namespace: "shop", Name: "t345"}
	source.page = inspect.Page{Total: 1, Matching: 1, Objects: []inspect.ObjectState{{Ref: failing, State: inspect.StateFailing}}}
	for query, want := range map[string]struct {
		rows   int
		first  string
		filter string
	}{
		"?sort=created":          {100, "t000", "All <b>700</b>"},
		"?sort=state":            {100, "t345", "Failing <b>1</b>"},
		"?state=failing":         {1, "t345", "All <b>700</b>"},
		"?name=69":               {17, "t069", "All <b>17</b>"},
		"?name=6&offset=100":     {100, "t556", "All <b>214</b>"},
		"?name=34&state=failing": {1, "t345", "Failing <b>1</b>"},
	} {
		req := newTestRequest(t, "/"+query)
		req.API = must.Get(newTeamsAPI(t).Client(userclient.User{OwnCredentials: true})).In(t)
		data := &kindPage{
			Kind: c.Kinds[0], Name: req.Query("name"), Controllers: source.controllers, ListView: req.NewListView(objectRowSpec("namespace").View()),
		}
		must.Succeed(t, req.listRows(data, []processes.Info{{Source: source, Controllers: source.controllers}}))
		if len(data.Rows) != want.rows || data.Rows[0].Name != want.first {
			t.Errorf("%s: %d rows, %+v", query, len(data.Rows), data.Rows[:min(1, len(data.Rows))])
		}
		var found []string
		for _, f := range data.Filters() {
			found = append(found, fmt.Sprintf("%s <b>%d</b>", f.Name, f.Count))
		}
		if !strings.Contains(strings.Join(found, " "), want.filter) {
			t.Errorf("%s: filters %q", query, found)
		}
	}
}

// objectServer is an API server with one object that is changed by merge patches.
type objectServer struct {
	mu      sync.Mutex
	version int
	object  map[string]any
	patches []string
	// concurrentPatch, if set, is applied before the next patch.
	concurrentPatch map[string]any
}

// newObjectServer returns an objectServer and its dashboard.
func newObjectServer(t *testing.T, object map[string]any) (*objectServer, *Server) {
	t.Helper()
	k := &objectServer{version: 1, object: object}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	return k, signedIn(serverOf(t, server.URL, Options{Access: access.Options{Token: testToken}}))
}

const objectServerKinds = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
	{"resource":"configmaps","responseKind":{"kind":"ConfigMap","version":"v1"},"scope":"Namespaced","verbs":["get"]},
	{"resource":"secrets","responseKind":{"kind":"Secret","version":"v1"},"scope":"Namespaced","verbs":["get"]},
	{"resource":"selfsubjectreviews","responseKind":{"kind":"SelfSubjectReview","version":"v1"},"scope":"Cluster","verbs":["create"]}]}]}]}`

const objectServerSchema = `{"components":{"schemas":{"ConfigMap":{"type":"object","properties":{"data":{"type":"object","additionalProperties":{"type":"string"}}},
	"x-kubernetes-group-version-kind":[{"group":"","kind":"ConfigMap","version":"v1"}]}}}}`

func (k *objectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/api":
		_, _ = io.WriteString(w, objectServerKinds)
	case "/apis":
		_, _ = io.WriteString(w, `{"items":[]}`)
	case "/openapi/v3":
		_, _ = io.WriteString(w, `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}}}`)
	case "/openapi/v3/api/v1":
		_, _ = io.WriteString(w, objectServerSchema)
	default:
		if k.object == nil {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, "a").Status())
			return
		}
		if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "All" {
			k.dryRun(w, r)
			return
		}
		if r.Method == http.MethodPatch && !k.patch(w, r) {
			return
		}
		_ = json.NewEncoder(w).Encode(k.stored())
	}
}

func (k *objectServer) stored() map[string]any {
	return object.MergePatch(k.object, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(k.version)}})
}

// dryRun responds to a patch as if it stored it, with a default.
func (k *objectServer) dryRun(w http.ResponseWriter, r *http.Request) {
	before, version, patches := k.object, k.version, k.patches
	if k.patch(w, r) {
		_ = json.NewEncoder(w).Encode(object.MergePatch(k.stored(), map[string]any{"data": map[string]any{"mode": "default"}}))
		k.object, k.version, k.patches = before, version, patches
	}
}

func (k *objectServer) patch(w http.ResponseWriter, r *http.Request) bool {
	if k.concurrentPatch != nil {
		k.object, k.concurrentPatch = object.MergePatch(k.object, k.concurrentPatch), nil
		k.version++
	}
	body, _ := io.ReadAll(r.Body)
	var patch map[string]any
	_ = json.Unmarshal(body, &patch) // What cannot be read is of no version.
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata["resourceVersion"] != strconv.Itoa(k.version) {
		refusal := apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, "a", os.ErrExist).Status()
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(refusal)
		return false
	}
	k.object = object.MergePatch(k.object, patch)
	k.version++
	k.patches = append(k.patches, string(body))
	return true
}

// formFields returns what a browser would send.
func formFields(page string) url.Values {
	_, page, _ = strings.Cut(page, `id="draft"`)
	fields := url.Values{"do": {"save"}}
	for part := range strings.SplitSeq(page, "<") {
		_, name, named := strings.Cut(part, ` name="`)
		name, _, _ = strings.Cut(name, `"`)
		switch {
		case !named:
		case strings.HasPrefix(part, "textarea "):
			_, text, _ := strings.Cut(part, ">\n")
			fields.Set(html.UnescapeString(name), html.UnescapeString(text))
		case strings.HasPrefix(part, "input "):
			_, value, _ := strings.Cut(part, ` value="`)
			value, _, _ = strings.Cut(value, `"`)
			fields.Set(html.UnescapeString(name), html.UnescapeString(value))
		}
	}
	return fields
}

func post(t *testing.T, s *Server, path string, fields url.Values) *httptest.ResponseRecorder {
	t.Helper()
	return send(s, http.MethodPost, path, strings.NewReader(fields.Encode()))
}

func v1Object(kind string, data map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "a", "namespace": "shop", "uid": "u"}, "data": data}
}

// The largest values of a ConfigMap, with texts that grow most as YAML.
func TestEditLargeObjects(t *testing.T) {
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte('!' + rand.IntN(90))
	}
	for name, value := range map[string]string{
		"JSON": strings.Repeat(`{"a":"b\\"},`, 80_000), "lines": strings.Repeat("a: <b>\n", 140_000), "random": string(random),
	} {
		k, s := newObjectServer(t, v1Object("ConfigMap", map[string]any{"large": value, "small": "old"}))
		fields := formFields(get(t, s, "/resources/configmaps/shop/a/edit").Body.String())
		fields.Set("text", strings.Replace(fields.Get("text"), "small: old", "small: new", 1))
		w := post(t, s, "/resources/configmaps/shop/a/edit", fields)
		if w.Code != http.StatusSeeOther || len(k.patches) != 1 || len(k.patches[0]) > 100 {
			t.Errorf("%s: status %d, patches %.300q: %.300s", name, w.Code, k.patches, w.Body)
		}
	}
}

func TestTooLargeForms(t *testing.T) {
	_, s := newObjectServer(t, v1Object("ConfigMap", map[string]any{"a": "b"}))
	fields := formFields(get(t, s, "/resources/configmaps/shop/a/edit").Body.String())
	// The form fits, but the object does not: the input is kept.
	fields.Set("text", strings.Repeat("x", form.MaxBytes+1))
	if w := post(t, s, "/resources/configmaps/shop/a/edit", fields); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "xxxxx") {
		t.Errorf("a large text has status %d", w.Code)
	}
	fields.Set("text", strings.Repeat("x", 16<<20))
	w := post(t, s, "/resources/configmaps/shop/a/edit", fields)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "Make it smaller") {
		t.Errorf("one too large has status %d: %s", w.Code, w.Body)
	}
}

// stalledBody is a body that does not arrive.
type stalledBody struct{ io.Reader }

func (stalledBody) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestIncompleteBodies(t *testing.T) {
	_, s := newObjectServer(t, v1Object("ConfigMap", nil))
	for want, body := range map[int]io.Reader{http.StatusRequestTimeout: stalledBody{}, http.StatusBadRequest: strings.NewReader("a=%zz")} {
		w := send(s, http.MethodPost, "/resources/configmaps/shop/a/edit", io.NopCloser(body))
		if w.Code != want || !strings.Contains(w.Body.String(), "Nothing was changed") {
			t.Errorf("status %d, not %d: %s", w.Code, want, w.Body)
		}
	}
}

func TestConcurrentSecretChange(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile map[string]any
		code      int
		says      string
	}{
		"a value":    {map[string]any{"data": map[string]any{"pass": "dGhlaXJz"}}, http.StatusConflict, "changed while you edited it"},
		"the values": {map[string]any{"data": map[string]any{"pass": "dGhlaXJz", "user": "dGhlaXJz"}}, http.StatusConflict, "changed while you edited it"},
		"a copy": {map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "dGhlaXJz"}}},
			http.StatusConflict, "changed while you edited it"},
		"one more": {map[string]any{"data": map[string]any{"more": "dGhlaXJz"}}, http.StatusConflict, "data.more"},
		"nothing":  {map[string]any{"status": map[string]any{"seen": true}}, http.StatusSeeOther, ""},
	} {
		object := v1Object("Secret", map[string]any{"user": "c2VjcmV0", "pass": "c2VjcmV0"})
		object["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0"}
		k, s := newObjectServer(t, object)
		page := get(t, s, "/resources/secrets/shop/a/edit").Body.String()
		k.concurrentPatch = c.meanwhile
		fields := formFields(page)
		fields.Set("text", strings.Replace(fields.Get("text"), "pass: (unchanged)", "pass: b3Vycw==", 1))
		w := post(t, s, "/resources/secrets/shop/a/edit", fields)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: status %d to %s", name, w.Code, w.Body)
		}
		if shown := page + w.Body.String(); strings.Contains(shown, "c2VjcmV0") || strings.Contains(shown, "dGhlaXJz") {
			t.Errorf("%s: a page shows a value", name)
		}
		if c.code != http.StatusConflict {
			continue
		}
		// The user has seen the change and may save.
		w = post(t, s, "/resources/secrets/shop/a/edit", formFields(w.Body.String()))
		if w.Code != http.StatusSeeOther || k.object["data"].(map[string]any)["pass"] != "b3Vycw==" {
			t.Errorf("%s: saved again, status %d: %v", name, w.Code, k.object)
		}
	}
}

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
	return signedIn(serverOf(t, a.URL, Options{Access: access.Options{Token: testToken}}, sources...))
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
		"1,234", "things <span class=\"muted small\">(forbidden: User &#34;ann&#34; cannot list resource &#34;things&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;)</span>", "Type shop to confirm",
		"!ConfigMap", "!None found", "!Orphan")
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
	wantTexts(t, body, "fails for this object now. While its finalize hook fails, the object stays:", "hook finalize: 503",
		"!manages this kind")

	c.Failing = 0
	source.controllers, source.states = []inspect.Controller{c}, nil
	for _, page := range []string{toDelete, toCreate} {
		wantTexts(t, get(t, a.newServer(t, source), page).Body.String(), "!manages this kind", "!fails for")
	}
}
