package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// fakeSource is a process with fixed data.
type fakeSource struct {
	name        string
	process     inspect.Process
	controllers []inspect.Controller
	page        inspect.Page
	states      []inspect.ObjectState
	runs        []inspect.Run
	revisions   chan uint64
	err         error
}

func (s *fakeSource) Name() string { return s.name }

func (s *fakeSource) Process(context.Context) (inspect.Process, error) { return s.process, s.err }

func (s *fakeSource) Controllers(context.Context) ([]inspect.Controller, error) {
	return s.controllers, s.err
}

func (s *fakeSource) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	return s.page, s.err
}

func (s *fakeSource) States(context.Context, object.Ref) ([]inspect.ObjectState, error) {
	return s.states, s.err
}

func (s *fakeSource) Runs(context.Context, object.Ref, int) ([]inspect.Run, error) {
	return s.runs, s.err
}

func (s *fakeSource) Reviews(context.Context, string, bool) ([]inspect.Run, error) {
	return s.runs, s.err
}

func (s *fakeSource) Run(_ context.Context, id uint64) (inspect.Run, error) {
	for _, run := range s.runs {
		if run.ID == id {
			return run, nil
		}
	}
	return inspect.Run{}, failure.ErrNotFound
}

func (*fakeSource) SetLogLevel(context.Context, string) error { return nil }

func (*fakeSource) Diagnostic(context.Context, string) ([]byte, error) { return nil, nil }

func (*fakeSource) Requests(context.Context) (inspect.Requests, error) {
	return inspect.Requests{Requests: []inspect.Request{{Verb: "get", Resource: "pods", Count: 2}}}, nil
}

func (s *fakeSource) Plan(context.Context, string, object.Ref, json.RawMessage) (inspect.Plan, error) {
	return inspect.Plan{Text: "nothing to do", Report: json.RawMessage("{}")}, s.err
}

func (s *fakeSource) Await(ctx context.Context, _ uint64) (uint64, error) {
	select {
	case revision := <-s.revisions:
		return revision, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// teamsController is a typical controller.
func teamsController() inspect.Controller {
	return inspect.Controller{
		Name: "compositecontroller.setpoint.dev/teams", Process: "setpoint",
		Kinds:       []object.Kind{{Group: "example.org", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true}},
		Description: []string{"For each Team it makes Namespaces."},
		Conditions:  []inspect.Condition{{Type: "Ready", Status: "True", Reason: "Serving"}},
		Objects:     3,
	}
}

func newServer(t *testing.T, sources ...inspect.Source) *Server {
	t.Helper()
	api, err := userclient.New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Cluster: api, Access: access.Options{Token: testToken},
		Sources: func(context.Context) []inspect.Source { return sources },
		Now:     func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return signedIn(s)
}

// testToken is the token of a private dashboard.
const testToken = "token-of-this-session"

// signedIn lets all requests come from the browser of the owner.
func signedIn(s *Server) *Server {
	served := s.handler
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.ServeHTTP(w, fromOwner(s, r)) })
	return s
}

// fromOwner adds the cookie that a browser gets from the address with the token.
func fromOwner(s *Server, r *http.Request) *http.Request {
	opened := httptest.NewRecorder()
	s.authenticator.Protect(http.NotFoundHandler()).ServeHTTP(opened, httptest.NewRequest(http.MethodGet, "http://"+r.Host+"/?token="+testToken, http.NoBody))
	for _, cookie := range opened.Result().Cookies() {
		r.AddCookie(cookie)
	}
	return r
}

func get(t *testing.T, s *Server, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
	return w
}

func TestOverview(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}})
	w := get(t, s, "/")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "/controllers/setpoint/compositecontroller.setpoint.dev~teams") {
		t.Errorf("%d:\n%s", w.Code, w.Body)
	}
}
