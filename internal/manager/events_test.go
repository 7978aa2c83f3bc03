package manager

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Events and requests name the Go program, or Setpoint.
func TestEventsNameTheProgram(t *testing.T) {
	t.Setenv("POD_NAME", "rates-0")
	for name, want := range map[string]struct{ component, agent string }{
		"":      {"setpoint", "setpoint/v1.2"},
		"rates": {"rates", "rates/v1.2 setpoint"},
	} {
		type eventRequest struct {
			corev1.Event
			agent string
		}
		requests := make(chan eventRequest, 1)
		m := newManager(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // What is missing is not eventRequest.
			one := eventRequest{agent: r.UserAgent()}
			_ = json.Unmarshal(body, &one.Event)
			requests <- one
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}), Options{Name: name, Version: "v1.2"})
		t.Cleanup(m.Close)
		o := must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}`))).In(t)
		m.Events.Event(o, hook.Event{Type: "Normal", Reason: "Published", Message: "a"})
		got := <-requests
		if got.Source.Component != want.component || got.ReportingController != want.component || got.Source.Host != "" ||
			got.ReportingInstance != "rates-0" || got.agent != want.agent {
			t.Errorf("%q: got %+v of %q by %q, agent %q", name, got.Source, got.ReportingController, got.ReportingInstance, got.agent)
		}
	}
}
