package dashboard

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hungSource accepts calls and never responds.
type hungSource struct{ fakeSource }

func (*hungSource) Process(ctx context.Context) (inspect.Process, error) {
	<-ctx.Done()
	return inspect.Process{}, ctx.Err()
}

func (*hungSource) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*hungSource) States(ctx context.Context, _ object.Ref) ([]inspect.ObjectState, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*hungSource) Runs(ctx context.Context, _ object.Ref, _ int) ([]inspect.Run, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*hungSource) Run(ctx context.Context, _ uint64) (inspect.Run, error) {
	<-ctx.Done()
	return inspect.Run{}, ctx.Err()
}

// newPodCluster is an API server with the Pod shop/a.
func newPodCluster(t *testing.T) *userclient.Cluster {
	t.Helper()
	responses := map[string]string{
		"/api":                           `{"items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["list"]}]}]}]}`,
		"/apis":                          `{"items":[]}`,
		"/api/v1/namespaces/shop/pods/a": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"u1"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		response, known := responses[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, response)
	}))
	t.Cleanup(server.Close)
	c, err := userclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A hung process does not block pages, and pages report it.
func TestHungProcessDoesNotBlockPages(t *testing.T) {
	run := newRun(7, "x")
	run.Object = podRef("a")
	healthy := &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}, runs: []inspect.Run{run}}
	healthy.states = []inspect.ObjectState{{Ref: podRef("a"), Controller: teamsController().Name, Process: "setpoint", State: inspect.StateSynced}}
	s := newServer(t, &hungSource{fakeSource{name: "asleep"}}, healthy)
	s.options.Cluster = newPodCluster(t)
	s.timeouts = inspect.NewTimeouts(20 * time.Millisecond)
	const object = "/resources/pods/shop/a"
	for path, test := range map[string]struct {
		code  int
		texts []string
	}{
		"/":                                  {http.StatusOK, []string{teamsPage, "No connection to the process <bdi>asleep</bdi>", "the process asleep did not respond in time</span>."}},
		teamsPage:                            {http.StatusOK, nil},
		object:                               {http.StatusOK, []string{`id="run-setpoint-7"`, "Process asleep did not respond in time.", "compositecontroller.setpoint.dev~teams"}},
		object + "/timeline":                 {http.StatusOK, []string{`id="run-setpoint-7"`}},
		object + "/runs/7":                   {http.StatusOK, nil},
		object + "/runs/7?in=setpoint":       {http.StatusOK, nil},
		object + "/runs/8?in=asleep":         {http.StatusServiceUnavailable, []string{"asleep did not respond in time"}},
		object + "/delete":                   {http.StatusOK, nil},
		"/controllers/asleep/example~webs":   {http.StatusServiceUnavailable, []string{"asleep did not respond in time"}},
		"/resources/pods/shop/not-there-yet": {http.StatusOK, []string{"asleep did not respond in time"}},
	} {
		t.Run(path, func(t *testing.T) {
			w := get(t, s, path)
			if w.Code != test.code {
				t.Errorf("%d:\n%s", w.Code, w.Body)
			}
			wantTexts(t, w.Body.String(), test.texts...)
		})
	}
}
