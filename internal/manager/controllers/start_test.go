package controllers

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
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
			client, log := clientOf(t, s), slog.New(slog.DiscardHandler)
			cs := newTestSet(running.Dependencies{Client: client, Resolver: &kinds.Resolver{Client: client}, Metrics: serving.NewMetrics(), Backends: backend.New(log, nil), Store: cache.New(client, cache.Options{Log: log}), History: inspect.NewHistory(inspect.HistoryOptions{}, time.Now())})
			t.Cleanup(cs.Store.Close)
			for _, kind := range compile.Kinds() {
				if kind.Resource.Plural == "admissioncontrollers" {
					cs.declared.Add(kind, cs.Store.Watch(cache.Selection{Resource: kind.Resource}, nil))
				}
			}
			cs.startAll(t.Context())
			if !cs.started.Load() {
				t.Fatal("it has not begun")
			}
			if retained, known := cs.Webhooks.Retained(); known && !slices.Contains(retained, "admissioncontroller.setpoint.dev/a") {
				t.Errorf("%q stay: the configuration of a controller that is not known yet is removed", retained)
			}
		})
	}
}
