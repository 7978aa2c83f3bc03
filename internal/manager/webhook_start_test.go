package manager

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const declaredReviews = `{"apiVersion":"setpoint.dev/v1alpha1","kind":"AdmissionController","metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":1},
"spec":{"reviews":[{"name":"one","type":"Validate","rules":[{"apiVersion":"v1","resource":"pods","operations":["CREATE"]}],"webhook":{"url":"http://127.0.0.1:1"}}]}}`

// restartingServer is an API server that lists a controller with reviews and does not respond
// to other requests yet.
type restartingServer struct{ forbidden bool }

func (s restartingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`+declaredReviews+`]}`
	switch {
	case !strings.HasSuffix(r.URL.Path, "/admissioncontrollers"):
		return nil, errors.New("connection refused")
	case s.forbidden:
		code, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	case r.URL.Query().Get("sendInitialEvents") != "":
		code, body = http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`
	case r.URL.Query().Get("watch") != "":
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A process that starts together with the API server must not remove the webhook
// configurations of a controller that it does not know yet: objects would be stored without
// reviews.
func TestReviewsStayUntilControllerIsKnown(t *testing.T) {
	for name, s := range map[string]restartingServer{"not compiled": {}, "not listed": {forbidden: true}} {
		t.Run(name, func(t *testing.T) {
			client, err := newClient(Options{Config: &rest.Config{Host: "http://restarting", Transport: s}})
			if err != nil {
				t.Fatal(err)
			}
			log := slog.New(slog.DiscardHandler)
			m := &Manager{client: client, resolver: &kinds.Resolver{Client: client}, log: log, metrics: serving.NewMetrics(), backends: backend.New(log, nil), store: cache.New(client, cache.Options{Log: log}), history: inspect.NewHistory(inspect.HistoryOptions{}, time.Now())}
			t.Cleanup(m.store.Close)
			cs := newTestControllers(m)
			for _, kind := range compile.Kinds() {
				if kind.Resource.Plural == "admissioncontrollers" {
					cs.kinds[kind.Name] = &controllerKind{Kind: kind, view: m.store.Watch(cache.Selection{Resource: kind.Resource}, nil)}
				}
			}
			cs.startAll(t.Context())
			if !cs.started.Load() {
				t.Fatal("it has not begun")
			}
			if retained, known := m.webhooks.Retained(); known && !slices.Contains(retained, "admissioncontroller.setpoint.dev/a") {
				t.Errorf("%q stay: the configuration of a controller that is not known yet is removed", retained)
			}
		})
	}
}

// failingProxy stands before an API server and refuses one of its API groups, while it fails.
type failingProxy struct {
	fakeAPIServer
	group string
	fails bool
}

func (p *failingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fails := p.fails && strings.HasPrefix(r.URL.Path, p.group)
	p.mu.Unlock()
	if fails {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "no backend")
		return
	}
	p.fakeAPIServer.ServeHTTP(w, r)
}

func (p *failingProxy) fail(fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = fails
}

// A controller whose kinds cannot be looked up is neither accepted nor ready, and says why; one that runs goes on.
func TestControllerThatCannotBeLookedUpSaysSo(t *testing.T) {
	p := &failingProxy{group: "/apis/example.org/", fails: true}
	p.crd = shopsManifest
	changed := make(chan struct{})
	keeper := shopController("keeper")
	keeper.Changed = changed
	m := startManager(t, p, Options{GoControllers: []GoController{keeper}})
	condition := func() conditionState {
		s := m.controllers.states()[goControllerKey("keeper")]
		health, _ := s.health()
		return s.overallCondition(health)
	}
	says := func(want string) func() bool {
		return func() bool {
			got := condition()
			return got.reason == setpoint.ReasonAPIUnavailable && strings.Contains(got.message, want)
		}
	}
	eventually(t, "the error", says("compile shops: the server is currently unable to handle the request"))
	if shown := m.controllers.gauges()["keeper"]; shown.Ready {
		t.Errorf("the metric says %+v", shown)
	}
	p.fail(false)
	eventually(t, "started", func() bool { return condition().ok })

	p.fail(true)
	changed <- struct{}{}
	eventually(t, "the error, beside what runs", says("until then the controller runs as before"))
	if s := m.controllers.states()[goControllerKey("keeper")]; s.running == nil {
		t.Error("it was stopped")
	}
	p.fail(false)
	m.controllers.queue.Add(goControllerKey("keeper"), queue.Cause{Kind: queue.ParentChanged})
	eventually(t, "accepted again", func() bool { return condition().ok })
}
