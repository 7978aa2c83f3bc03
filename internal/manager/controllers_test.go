package manager

import (
	"cmp"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// newTestControllers returns the controllers of a Manager that has nothing else.
func newTestControllers(m *Manager) *controllerSet {
	m.controllers, m.inFlight = newControllerSet(m), calls.NewInFlight()
	m.options.Config, m.crds = &rest.Config{}, cmp.Or(m.crds, crds.NewInstaller(crds.Options{}))
	m.webhooks = newWebhooks(m)
	return m.controllers
}

func compositeController(t *testing.T, name string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"` + name + `","uid":"` + name + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Two controllers that are both refused because of a third must not requeue each other.
func TestRefusedControllersDoNotRequeueEachOther(t *testing.T) {
	cs := newTestControllers(&Manager{log: slog.New(slog.DiscardHandler)})
	refused := conflicts.Conflict{}.Refusal(queue.Key{Namespace: "kind", Name: "older"})
	for _, name := range []string{"one", "two", "one"} {
		cs.replace(t.Context(), queue.Key{Namespace: "kind", Name: name}, controllerState{object: compositeController(t, name), refusal: refused}, nil)
	}
	if waiting := cs.queue.Len(); waiting != 0 {
		t.Errorf("%d controllers were requeued", waiting)
	}
}

// A starting controller is not ready, although it is no longer queued.
func TestNotReadyWhileControllerStarts(t *testing.T) {
	cs := newControllerSet(&Manager{log: slog.New(slog.DiscardHandler)})
	if cs.checkSynced() == nil {
		t.Error("ready before the start")
	}
	cs.started.Store(true)
	if err := cs.checkSynced(); err != nil {
		t.Fatalf("with nothing to do: %v", err)
	}
	cs.queue.Add(queue.Key{Name: "one"}, queue.Cause{Kind: queue.ParentChanged})
	item, _ := cs.queue.Next(t.Context())
	if cs.checkSynced() == nil {
		t.Error("ready while it is being reconciled")
	}
	cs.queue.Done(item.Key, queue.NoRequeue())
	if err := cs.checkSynced(); err != nil {
		t.Errorf("when it is done: %v", err)
	}
}

// Objects may be watched both whole and by metadata. That is one series: two equal series
// would fail the scrape.
func TestMetricsSumWatchesOfOneResource(t *testing.T) {
	client, err := newClient(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := cache.New(client, cache.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.Close)
	for _, metadata := range []bool{false, true} {
		t.Cleanup(s.Watch(cache.Selection{Resource: crds.Resource, Metadata: metadata}, nil).Close)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&serving.Collector{Cache: s, Controllers: newControllerSet(&Manager{}).gauges})
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

func controllerObject(t *testing.T, metadata string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(`{"metadata":` + metadata + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
