package ui

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
)

// planning is a process whose plans take until they are let go on.
type planning struct {
	still
	begun, goOn chan struct{}
}

func (p *planning) Plan(context.Context, string, inspect.Ref) (inspect.Plan, error) {
	p.begun <- struct{}{}
	<-p.goOn
	return inspect.Plan{Text: "nothing to do", Report: json.RawMessage("{}")}, nil
}

func TestPlansAreBoundedAndLogged(t *testing.T) {
	_, s := shelve(t, v1Object("ConfigMap", nil))
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	process := &planning{still{name: "setpoint", controllers: []inspect.Controller{teams()}}, make(chan struct{}), make(chan struct{})}
	s.options.Sources = func(context.Context) []inspect.Source { return []inspect.Source{process} }
	v, err := s.gate.Visitor(httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	fields := url.Values{"csrf": {v.CSRF}, "process": {"setpoint"}, "controller": {teams().Name}}
	const path = "/resources/configmaps/shop/a/plan"
	answers := make(chan int)
	for range maxPlans {
		go func() { answers <- post(t, s, path, fields).Code }()
		<-process.begun
	}
	if w := post(t, s, path, fields); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "Try again in a moment") {
		t.Errorf("one too many is answered with %d: %s", w.Code, w.Body)
	}
	close(process.goOn)
	for range maxPlans {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a plan is answered with %d", code)
		}
	}
	if got := log.String(); strings.Count(got, "planned for a visitor") != maxPlans ||
		!strings.Contains(got, "user=dev") || !strings.Contains(got, "resource=configmaps namespace=shop name=a") {
		t.Errorf("the log is %s", got)
	}
}

func TestTurns(t *testing.T) {
	turns := turns{most: 2, inAll: 3}
	for i, want := range []bool{true, true, false} {
		if turns.open("ann") != want {
			t.Errorf("turn %d of ann", i)
		}
	}
	if !turns.open("bob") || turns.open("cat") {
		t.Error("all together have another number")
	}
	turns.close("ann")
	if !turns.open("cat") || len(turns.byName) != 3 {
		t.Error("one that has ended still counts")
	}
}
