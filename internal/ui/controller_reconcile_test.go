package ui

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
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// goProgram is a controller of a Go program, and its objects of some names.
func goProgram(names ...string) *still {
	c := teams()
	c.Name, c.Process = "shop/team", "shop"
	page := inspect.Page{Total: len(names), Matching: len(names), States: map[inspect.State]int{}}
	for _, name := range names {
		page.Objects = append(page.Objects, inspect.Care{Ref: inspect.Ref{Kind: c.Kinds[0], Namespace: "town", Name: name}, State: inspect.Well})
	}
	return &still{name: "shop", controllers: []inspect.Controller{c}, page: page}
}

// reconciles asks for all objects of the program, from a page that was shown before.
func reconciles(t *testing.T, s *Server, page string) *httptest.ResponseRecorder {
	t.Helper()
	_, token, _ := strings.Cut(page, `name="csrf" value="`)
	token, _, _ = strings.Cut(token, `"`)
	fields := url.Values{"stay": {"yes"}, "csrf": {token}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+programPage+"/reconcile", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Hx-Request", "true")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const programPage = "/controllers/shop/shop~team"

func TestReconcileAllOfAProgram(t *testing.T) {
	a := newAnswers(t, someKinds())
	const at = "/apis/example.org/v1/namespaces/town/teams/"
	a.byPath[at+"red"], a.byPath[at+"blue"], a.byPath[at+"locked"] = `{"metadata":{"name":"red"}}`, `{"metadata":{"name":"blue"}}`, "forbidden"
	s := a.window(t, goProgram("red", "blue", "locked", "gone"))
	page := get(t, s, programPage).Body.String()
	wants(t, page, `action="`+programPage+`/reconcile"`, "stop the program, or pause its objects one by one")
	w := reconciles(t, s, page)
	if said := w.Header().Get("Hx-Trigger"); !strings.Contains(said, "2 objects are being looked at. Of 1 more, the API server refused that") {
		t.Errorf("%d: said %s", w.Code, said)
	}
	for _, name := range []string{"red", "blue", "locked", "gone"} {
		if a.times(at+name+"?") != 1 {
			t.Errorf("%s was asked for %d times", name, a.times(at+name+"?"))
		}
	}
}

// town is an API server, and a program that has the objects of two kinds in its cache.
type town struct {
	*still
	t  *testing.T
	mu sync.Mutex
	// objects are by their paths; odd ones are answered with a status, and asked counts
	// how often each was asked for.
	objects map[string]*object.Object
	odd     map[string]int
	asked   map[string]int
}

// townOf has so many teams and players, each with annotations if it has a name that is
// among those annotated.
func townOf(t *testing.T, teamsIn, playersIn int, annotated map[string]string) *town {
	t.Helper()
	s := &town{still: goProgram(), t: t, objects: map[string]*object.Object{}, odd: map[string]int{}, asked: map[string]int{}}
	players := inspect.Kind{Group: "example.org", Version: "v1", Plural: "players", Kind: "Player", Namespaced: true}
	c := &s.controllers[0]
	c.Kinds = append(c.Kinds, players)
	for kind, n := range map[inspect.Kind]int{c.Kinds[0]: teamsIn, players: playersIn} {
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

func (s *town) Objects(_ context.Context, _ string, q inspect.Query) (inspect.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []inspect.Subject
	for _, o := range s.objects {
		kind := s.controllers[0].Kinds[map[string]int{"Team": 0, "Player": 1}[o.Kind()]]
		resource := object.Resource{Group: kind.Group, Version: kind.Version, Plural: kind.Plural, Kind: kind.Kind, Namespaced: true}
		paused := plan.Annotation(o, v1alpha1.AnnotationPaused) == "true"
		all = append(all, inspect.Subject{Resource: resource, Care: trace.Care{Object: o, Paused: paused}})
	}
	return inspect.PageOf(all, q), nil
}

func (s *town) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Metadata struct{ Annotations json.RawMessage }
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return // Who asked has left meanwhile.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[path.Base(r.URL.Path)]++
	w.Header().Set("Content-Type", "application/json")
	if code := s.odd[path.Base(r.URL.Path)]; code != 0 {
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

// times is how often each object was asked for.
func (s *town) times() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.asked)
}

// window is a Server of the town, of which each visit is a second later.
func (s *town) window() *Server {
	api := httptest.NewServer(s)
	s.t.Cleanup(api.Close)
	server := (&answers{Server: api}).window(s.t, s)
	var visits atomic.Int64
	server.options.Now = func() time.Time { return time.Unix(1_900_000_000+visits.Add(1), 0) }
	return server
}

// Of very many, as many are asked for as is right at a time, and the others are told of:
// who asks again reaches these, of whichever kind, before any other a second time. Those
// that are paused do not stand in their way, nor does what else users ask for with.
func TestReconcileAllReachesAll(t *testing.T) {
	marks := map[string]string{"teams-001": `"setpoint.dev/reconcile-at":"now"`}
	for i := range maxAsked {
		marks[fmt.Sprintf("players-%03d", i)] = `"setpoint.dev/paused":"true"`
	}
	source := townOf(t, maxAsked+10, maxAsked+40, marks)
	s := source.window()
	page := get(t, s, programPage).Body.String()
	for _, want := range []string{
		"500 objects are being looked at. 500 others are paused, and left alone. 50 others were left out",
		"500 objects are being looked at. 500 others are paused",
	} {
		if said := reconciles(t, s, page).Header().Get("Hx-Trigger"); !strings.Contains(said, want) {
			t.Errorf("said %s, want %s", said, want)
		}
		if asked := source.times(); len(asked) == maxAsked && asked["teams-001"] != 1 {
			t.Error("an object of which a user asked for a run, in words, is not among the first")
		}
	}
	asked := source.times()
	if len(asked) != maxAsked+50 {
		t.Errorf("%d objects were asked for of %d", len(asked), maxAsked+50)
	}
	for name, n := range asked {
		if strings.HasPrefix(name, "players") && (name < "players-500" || n > 2) {
			t.Errorf("%s was asked for %d times", name, n)
		}
	}
}

// One odd answer is about one object. What would come of all ends it, and how far it came
// is said.
func TestReconcileAllGoesOn(t *testing.T) {
	source := townOf(t, 5, 0, nil)
	source.odd = map[string]int{"teams-000": http.StatusInternalServerError, "teams-001": http.StatusConflict, "teams-002": http.StatusTooManyRequests}
	s := source.window()
	page := get(t, s, programPage).Body.String()
	if w := reconciles(t, s, page); !strings.Contains(w.Header().Get("Hx-Trigger"), "2 objects are being looked at. Of 3 more, the API server refused that") {
		t.Errorf("%d: %v", w.Code, w.Header())
	}
	for code, want := range map[int]int{http.StatusUnauthorized: http.StatusUnauthorized, http.StatusServiceUnavailable: http.StatusServiceUnavailable} {
		source = townOf(t, maxAsked, 0, nil)
		source.odd = map[string]int{"teams-020": code}
		s = source.window()
		w := reconciles(t, s, get(t, s, programPage).Body.String())
		if said := w.Body.String(); w.Code != want || !strings.Contains(said, "objects were asked for, of 500, before this") {
			t.Errorf("%d: %s", w.Code, said)
		}
		if told := w.Header().Get("Hx-Trigger"); strings.Contains(told, "asked for, of 500") != (code == http.StatusUnauthorized) {
			t.Errorf("%d: told %s", code, told)
		}
		if n := len(source.times()); n == maxAsked {
			t.Errorf("%d: %d were asked for all the same", code, n)
		}
	}
}

func TestReconcileAllNeedsAnAPIServer(t *testing.T) {
	a := newAnswers(t, someKinds())
	s := a.window(t, goProgram("red"))
	page := get(t, s, programPage).Body.String()
	a.Close()
	if w := reconciles(t, s, page); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", w.Code, w.Header())
	}
}
