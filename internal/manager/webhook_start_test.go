package manager

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/must"
)

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
	m := startManager(t, p, Options{GoControllers: []controllers.GoController{keeper}})
	condition := func() inspect.Condition {
		c := must.Get(m.controllers.Controllers(t.Context())).In(t)
		if len(c) == 0 {
			return inspect.Condition{}
		}
		if i := slices.IndexFunc(c[0].Conditions, func(c inspect.Condition) bool { return c.Type == setpoint.ConditionAccepted && c.Status != "True" }); i >= 0 {
			return c[0].Conditions[i]
		}
		return c[0].Ready()
	}
	works := func() bool { return condition().Status == "True" }
	says := func(want string) func() bool {
		return func() bool {
			got := condition()
			return got.Reason == setpoint.ReasonAPIUnavailable && strings.Contains(got.Message, want)
		}
	}
	must.Eventually(t, "the error", says("compile shops: the server is currently unable to handle the request"))
	if shown := m.controllers.Gauges()["keeper"]; shown.Ready {
		t.Errorf("the metric says %+v", shown)
	}
	p.fail(false)
	must.Eventually(t, "started", works)

	p.fail(true)
	changed <- struct{}{}
	must.Eventually(t, "the error, beside what runs", says("until then the controller runs as before"))
	if len(m.controllers.Healths()) == 0 {
		t.Error("it was stopped")
	}
	p.fail(false)
	changed <- struct{}{}
	must.Eventually(t, "accepted again", works)
}
