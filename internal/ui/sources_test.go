package ui

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// stopped is a process that takes questions, and answers none.
type stopped struct{ still }

func (*stopped) Process(ctx context.Context) (inspect.Process, error) {
	<-ctx.Done()
	return inspect.Process{}, ctx.Err()
}

func (*stopped) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*stopped) About(ctx context.Context, _ inspect.Ref) ([]inspect.Care, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*stopped) Runs(ctx context.Context, _ inspect.Ref, _ int) ([]inspect.Run, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*stopped) Run(ctx context.Context, _ uint64) (inspect.Run, error) {
	<-ctx.Done()
	return inspect.Run{}, ctx.Err()
}

// podServer is an API server in which there is the Pod shop/a.
func podServer(t *testing.T) *asuser.Cluster {
	t.Helper()
	answers := map[string]string{
		"/api":                           `{"items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["list"]}]}]}]}`,
		"/apis":                          `{"items":[]}`,
		"/api/v1/namespaces/shop/pods/a": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"u1"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, known := answers[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	c, err := asuser.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A process that was stopped holds up no page, and pages say that it is silent.
func TestAStoppedProcessHoldsUpNoPage(t *testing.T) {
	run := ranRun(7, "x")
	run.Object = podRef("a")
	well := &still{name: "setpoint", controllers: []inspect.Controller{teams()}, runs: []inspect.Run{run}}
	well.cares = []inspect.Care{{Ref: podRef("a"), Controller: teams().Name, Process: "setpoint", State: inspect.Well}}
	s := serve(t, &stopped{still{name: "asleep"}}, well)
	s.options.Cluster = podServer(t)
	s.patience = inspect.NewPatience(20 * time.Millisecond)
	const object = "/resources/pods/shop/a"
	for path, test := range map[string]struct {
		code  int
		texts []string
	}{
		"/":                                  {http.StatusOK, []string{teamsPage, "The process asleep does not answer in time."}},
		teamsPage:                            {http.StatusOK, nil},
		object:                               {http.StatusOK, []string{`id="run-setpoint-7"`, "The process asleep does not answer in time.", "compositecontroller.setpoint.dev~teams"}},
		object + "/timeline":                 {http.StatusOK, []string{`id="run-setpoint-7"`}},
		object + "/runs/7":                   {http.StatusOK, nil},
		object + "/runs/7?in=setpoint":       {http.StatusOK, nil},
		object + "/runs/8?in=asleep":         {http.StatusServiceUnavailable, []string{"asleep does not answer in time"}},
		object + "/delete":                   {http.StatusOK, nil},
		"/controllers/asleep/example~webs":   {http.StatusServiceUnavailable, []string{"asleep does not answer in time"}},
		"/resources/pods/shop/not-there-yet": {http.StatusOK, []string{"asleep does not answer in time"}},
	} {
		t.Run(path, func(t *testing.T) {
			w := get(t, s, path)
			if w.Code != test.code {
				t.Errorf("%d:\n%s", w.Code, w.Body)
			}
			wants(t, w.Body.String(), test.texts...)
		})
	}
}
