package manager

import (
	"io"
	"net/http"
	"strings"
	"testing"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/queue"
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
