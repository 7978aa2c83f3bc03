package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// goProgram is a Go controller with objects of the given names.
func goProgram(names ...string) *fakeSource {
	c := teamsController()
	c.Name, c.Process = "shop/team", "shop"
	page := inspect.Page{Total: len(names), Matching: len(names), States: map[inspect.State]int{}}
	for _, name := range names {
		page.Objects = append(page.Objects, inspect.ObjectState{Ref: object.Ref{Kind: c.Kinds[0], Namespace: "town", Name: name}, State: inspect.StateSynced})
	}
	return &fakeSource{name: "shop", controllers: []inspect.Controller{c}, page: page}
}

// postReconcileAll presses Reconcile all on a page.
func postReconcileAll(t *testing.T, s *Server) *httptest.ResponseRecorder {
	t.Helper()
	fields := url.Values{"stay": {"yes"}, "csrf": {csrfToken(t, s)}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+programPage+"/reconcile", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Hx-Request", "true")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// A request names the user, for the reconcile history.
func TestReconcileRequestNamesTheUser(t *testing.T) {
	s := newFakeAPI(t, discoveryResponses()).newServer(t)
	text, err := json.Marshal((&request{Server: s, identity: &access.Identity{User: userclient.User{Name: "ann"}}}).reconcilePatch())
	if err != nil || !strings.Contains(string(text), `"setpoint.dev/reconcile-at":"20`) || !strings.Contains(string(text), ` by ann"`) {
		t.Errorf("%s, %v", text, err)
	}
	for cause, want := range map[string]bool{"manual reconcile": true, "manual reconcile requested by ann": true, "hook changed": true, "the object changed": false} {
		if inspect.IsPrimaryCause(cause) != want {
			t.Errorf("%s explains a run: %v", cause, !want)
		}
	}
}

const programPage = "/controllers/shop/shop~team"

func TestReconcileAllOfAProgram(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	const at = "/apis/example.org/v1/namespaces/town/teams/"
	a.responses[at+"red"], a.responses[at+"blue"], a.responses[at+"locked"] = `{"metadata":{"name":"red"}}`, `{"metadata":{"name":"blue"}}`, "forbidden"
	s := a.newServer(t, goProgram("red", "blue", "locked", "gone"))
	page := get(t, s, programPage).Body.String()
	wantTexts(t, page, `action="`+programPage+`/reconcile"`, "stop the program or pause its objects")
	w := postReconcileAll(t, s)
	if message := w.Header().Get("Hx-Trigger"); !strings.Contains(message, "Reconciling 2 objects. The API server rejected 1 more") {
		t.Errorf("%d: message %s", w.Code, message)
	}
	for _, name := range []string{"red", "blue", "locked", "gone"} {
		if a.count(at+name+"?") != 1 {
			t.Errorf("%s was requested %d times", name, a.count(at+name+"?"))
		}
	}
}

// fakeCluster is an API server, and a program that caches objects of two kinds.
type fakeCluster struct {
	*fakeSource
	t  *testing.T
	mu sync.Mutex
	// objects are by path, statusCodes make requests fail, and requested counts requests.
	objects     map[string]*object.Object
	statusCodes map[string]int
	requested   map[string]int
}

// newFakeCluster returns a cluster with teams and players; some names have annotations.
func newFakeCluster(t *testing.T, teamsIn, playersIn int, annotated map[string]string) *fakeCluster {
	t.Helper()
	s := &fakeCluster{fakeSource: goProgram(), t: t, objects: map[string]*object.Object{}, statusCodes: map[string]int{}, requested: map[string]int{}}
	players := object.Kind{Group: "example.org", Version: "v1", Plural: "players", Kind: "Player", Namespaced: true}
	c := &s.controllers[0]
	c.Kinds = append(c.Kinds, players)
	for kind, n := range map[object.Kind]int{c.Kinds[0]: teamsIn, players: playersIn} {
		for i := range n {
			name := fmt.Sprintf("%s-%03d", kind.Plural, i)
			o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"example.org/v1","kind":%q,"metadata":{"name":%q,"namespace":"town","annotations":{%s}}}`, kind.Kind, name, annotated[name]))
			if err != nil {
				t.Fatal(err)
			}
			s.objects["/apis/example.org/v1/namespaces/town/"+kind.Plural+"/"+name] = o
		}
	}
	return s
}

func (s *fakeCluster) Objects(_ context.Context, _ string, q inspect.Query) (inspect.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []inspect.ManagedObject
	for _, o := range s.objects {
		kind := s.controllers[0].Kinds[map[string]int{"Team": 0, "Player": 1}[o.Kind()]]
		resource := object.Resource{Group: kind.Group, Version: kind.Version, Plural: kind.Plural, Kind: kind.Kind, Namespaced: true}
		paused := plan.Annotation(o, v1alpha1.AnnotationPaused) == "true"
		all = append(all, inspect.ManagedObject{Resource: resource, ObjectState: record.ObjectState{Object: o, Paused: paused}})
	}
	return inspect.NewPage(all, q), nil
}

func (s *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Metadata struct{ Annotations json.RawMessage }
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return // The client has left.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested[path.Base(r.URL.Path)]++
	w.Header().Set("Content-Type", "application/json")
	if code := s.statusCodes[path.Base(r.URL.Path)]; code != 0 {
		w.WriteHeader(code)
		return
	}
	changed, err := s.objects[r.URL.Path].With(body.Metadata.Annotations, "metadata", "annotations")
	if err != nil {
		s.t.Error(err)
	}
	s.objects[r.URL.Path] = changed
	_, _ = io.WriteString(w, "{}")
}

// requestCounts returns how often each object was patched.
func (s *fakeCluster) requestCounts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requested)
}

// newServer returns a Server whose clock advances by a second per page.
func (s *fakeCluster) newServer() *Server {
	api := httptest.NewServer(s)
	s.t.Cleanup(api.Close)
	server := (&fakeAPI{Server: api}).newServer(s.t, s)
	var visits atomic.Int64
	server.options.Now = func() time.Time { return time.Unix(1_900_000_000+visits.Add(1), 0) }
	return server
}

// Repeated requests reach all objects of all kinds before any is patched again. Paused objects
// and other annotations do not matter.
func TestReconcileAllCoversEveryObject(t *testing.T) {
	marks := map[string]string{"teams-001": `"setpoint.dev/reconcile-at":"now"`}
	for i := range maxBulkReconciles {
		marks[fmt.Sprintf("players-%03d", i)] = `"setpoint.dev/paused":"true"`
	}
	source := newFakeCluster(t, maxBulkReconciles+10, maxBulkReconciles+40, marks)
	s := source.newServer()
	for _, want := range []string{
		"Reconciling 500 objects. Skipped 500 paused objects. 50 objects are left for the next request",
		"Reconciling 500 objects. Skipped 500 paused objects",
	} {
		if message := postReconcileAll(t, s).Header().Get("Hx-Trigger"); !strings.Contains(message, want) {
			t.Errorf("message %s, want %s", message, want)
		}
		if requests := source.requestCounts(); len(requests) == maxBulkReconciles && requests["teams-001"] != 1 {
			t.Error("an object that a user annotated is not among the first")
		}
	}
	requests := source.requestCounts()
	if len(requests) != maxBulkReconciles+50 {
		t.Errorf("%d objects were requested of %d", len(requests), maxBulkReconciles+50)
	}
	for name, n := range requests {
		if strings.HasPrefix(name, "players") && (name < "players-500" || n > 2) {
			t.Errorf("%s was requested %d times", name, n)
		}
	}
}

// An error of one object does not stop the others. An error that affects all of them stops and
// reports the progress.
func TestReconcileAllContinuesAfterErrors(t *testing.T) {
	source := newFakeCluster(t, 5, 0, nil)
	source.statusCodes = map[string]int{"teams-000": http.StatusInternalServerError, "teams-001": http.StatusConflict, "teams-002": http.StatusTooManyRequests}
	s := source.newServer()
	if w := postReconcileAll(t, s); !strings.Contains(w.Header().Get("Hx-Trigger"), "Reconciling 2 objects. The API server rejected 3 more") {
		t.Errorf("%d: %v", w.Code, w.Header())
	}
	for code, want := range map[int]int{http.StatusUnauthorized: http.StatusUnauthorized, http.StatusServiceUnavailable: http.StatusServiceUnavailable} {
		source = newFakeCluster(t, maxBulkReconciles, 0, nil)
		source.statusCodes = map[string]int{"teams-020": code}
		s = source.newServer()
		w := postReconcileAll(t, s)
		if message := w.Body.String(); w.Code != want || !strings.Contains(message, "of 500 objects: patch") {
			t.Errorf("%d: %s", w.Code, message)
		}
		if toast := w.Header().Get("Hx-Trigger"); strings.Contains(toast, "of 500 objects") != (code == http.StatusUnauthorized) {
			t.Errorf("%d: toast %s", code, toast)
		}
		if n := len(source.requestCounts()); n == maxBulkReconciles {
			t.Errorf("%d: %d were requested all the same", code, n)
		}
	}
}

func TestReconcileAllNeedsAnAPIServer(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	s := a.newServer(t, goProgram("red"))
	get(t, s, programPage)
	a.Close()
	if w := postReconcileAll(t, s); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", w.Code, w.Header())
	}
}
