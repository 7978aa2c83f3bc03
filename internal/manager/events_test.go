package manager

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// An event has no half of the roles in a condition.
func TestEventText(t *testing.T) {
	const rest = "; see the condition Accepted for the rest"
	roles := "\nkind: Role\n" + strings.Repeat("- rule\n", 200)
	for name, c := range map[string]struct{ message, want string }{
		"short":        {"Setpoint may not\nkind: Role", "Setpoint may not\nkind: Role"},
		"roles":        {"Setpoint may not list pods" + roles, "Setpoint may not list pods" + rest},
		"a long line":  {strings.Repeat("é", 600) + roles, strings.Repeat("é", 490) + "…" + rest},
		"and no roles": {strings.Repeat("a", 1100), strings.Repeat("a", 980) + "…" + rest},
	} {
		if got := eventText(c.message, rest); got != c.want || len(got) > maxEventMessage {
			t.Errorf("%s: %q of %d bytes, want %q", name, got, len(got), c.want)
		}
	}
}

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
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // What is missing is not eventRequest.
			one := eventRequest{agent: r.UserAgent()}
			_ = json.Unmarshal(body, &one.Event)
			requests <- one
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}))
		t.Cleanup(server.Close)
		m, err := New(Options{Config: &rest.Config{Host: server.URL}, Log: slog.New(slog.DiscardHandler), Name: name, Version: "v1.2"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		o, err := object.Parse([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}`))
		if err != nil {
			t.Fatal(err)
		}
		m.events.Event(o, hook.Event{Type: "Normal", Reason: "Published", Message: "a"})
		got := <-requests
		if got.Source.Component != want.component || got.ReportingController != want.component || got.Source.Host != "" ||
			got.ReportingInstance != "rates-0" || got.agent != want.agent {
			t.Errorf("%q: got %+v of %q by %q, agent %q", name, got.Source, got.ReportingController, got.ReportingInstance, got.agent)
		}
	}
}
