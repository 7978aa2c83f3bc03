package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// still is a process of which all is known beforehand.
type still struct {
	name        string
	process     inspect.Process
	controllers []inspect.Controller
	page        inspect.Page
	cares       []inspect.Care
	runs        []inspect.Run
	revisions   chan uint64
	err         error
}

func (s *still) Name() string { return s.name }

func (s *still) Process(context.Context) (inspect.Process, error) { return s.process, s.err }

func (s *still) Controllers(context.Context) ([]inspect.Controller, error) {
	return s.controllers, s.err
}

func (s *still) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	return s.page, s.err
}

func (s *still) About(context.Context, inspect.Ref) ([]inspect.Care, error) { return s.cares, s.err }

func (s *still) Runs(context.Context, inspect.Ref, int) ([]inspect.Run, error) { return s.runs, s.err }

func (s *still) Run(_ context.Context, id uint64) (inspect.Run, error) {
	for _, run := range s.runs {
		if run.ID == id {
			return run, nil
		}
	}
	return inspect.Run{}, inspect.ErrNotFound
}

func (s *still) Plan(context.Context, string, inspect.Ref) (inspect.Plan, error) {
	return inspect.Plan{Text: "nothing to do", Report: json.RawMessage("{}")}, s.err
}

func (s *still) Await(ctx context.Context, _ uint64) (uint64, error) {
	select {
	case revision := <-s.revisions:
		return revision, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// teams is a controller as one would meet it.
func teams() inspect.Controller {
	return inspect.Controller{
		Name: "compositecontroller.setpoint.dev/teams", Process: "setpoint",
		Kinds:      []inspect.Kind{{Group: "example.org", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true}},
		Words:      []string{"For each Team it makes Namespaces."},
		Conditions: []inspect.Condition{{Type: "Ready", Status: "True", Reason: "Serving"}},
		Objects:    3,
	}
}

func serve(t *testing.T, sources ...inspect.Source) *Server {
	t.Helper()
	api, err := asuser.New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Cluster: api, Access: access.Options{Open: true},
		Sources: func(context.Context) []inspect.Source { return sources },
		Now:     func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t *testing.T, s *Server, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
	return w
}

func TestOverview(t *testing.T) {
	s := serve(t, &still{name: "setpoint", controllers: []inspect.Controller{teams()}})
	w := get(t, s, "/")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "/controllers/setpoint/compositecontroller.setpoint.dev~teams") {
		t.Errorf("%d:\n%s", w.Code, w.Body)
	}
}
