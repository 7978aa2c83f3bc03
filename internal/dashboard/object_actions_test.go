package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// blockingPlanner is a process whose plans block until released.
type blockingPlanner struct {
	fakeSource
	started, release chan struct{}
}

func (p *blockingPlanner) Plan(context.Context, string, object.Ref, json.RawMessage) (inspect.Plan, error) {
	p.started <- struct{}{}
	<-p.release
	return inspect.Plan{Text: "nothing to do", Report: json.RawMessage("{}")}, nil
}

func TestPlansAreBoundedAndLogged(t *testing.T) {
	_, s := newObjectServer(t, v1Object("ConfigMap", nil))
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	process := &blockingPlanner{fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}}, make(chan struct{}), make(chan struct{})}
	s.options.Sources = func(context.Context) []inspect.Source { return []inspect.Source{process} }
	req, err := s.authenticator.Authenticate(fromOwner(s, httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)))
	if err != nil {
		t.Fatal(err)
	}
	fields := url.Values{"csrf": {req.CSRF}, "process": {"setpoint"}, "controller": {teamsController().Name}}
	const path = "/resources/configmaps/shop/a/plan"
	responses := make(chan int)
	for range maxPlans {
		go func() { responses <- post(t, s, path, fields).Code }()
		<-process.started
	}
	if w := post(t, s, path, fields); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "Try again in a moment") {
		t.Errorf("one too many has status %d: %s", w.Code, w.Body)
	}
	close(process.release)
	for range maxPlans {
		if code := <-responses; code != http.StatusOK {
			t.Errorf("a plan has status %d", code)
		}
	}
	if got := log.String(); strings.Count(got, "planned for a dashboard user") != maxPlans ||
		!strings.Contains(got, "user=dev") || !strings.Contains(got, "resource=configmaps namespace=shop name=a") {
		t.Errorf("the log is %s", got)
	}
}

func TestLimiter(t *testing.T) {
	turns := limiter{perUser: 2, total: 3}
	for i, want := range []bool{true, true, false} {
		if turns.acquire("ann") != want {
			t.Errorf("turn %d of ann", i)
		}
	}
	if !turns.acquire("bob") || turns.acquire("cat") {
		t.Error("all together have another number")
	}
	turns.release("ann")
	if !turns.acquire("cat") || len(turns.byName) != 3 {
		t.Error("one that has ended still counts")
	}
}
