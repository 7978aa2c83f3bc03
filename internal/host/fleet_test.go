package host

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// fleetOf is the fleet of a host that has nothing else.
func fleetOf(h *Host) *fleet {
	h.fleet, h.gate, h.inFlight = newFleet(h), newGate(h), newInFlight()
	return h.fleet
}

func declared(t *testing.T, name string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"` + name + `","uid":"` + name + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Two controllers that are both refused for a third must not wake each other:
// neither has anything to tell the other.
func TestRefusedRivalsLetEachOtherBe(t *testing.T) {
	f := fleetOf(&Host{log: slog.New(slog.DiscardHandler)})
	refused := conflict(queue.Key{Namespace: "kind", Name: "elder"}, clash{})
	for _, name := range []string{"one", "two", "one"} {
		f.settle(t.Context(), queue.Key{Namespace: "kind", Name: name}, state{object: declared(t, name), refusal: refused}, nil)
	}
	if waiting := f.queue.Len(); waiting != 0 {
		t.Errorf("%d controllers were woken", waiting)
	}
}

// A controller that is being started is not yet ready, although it waits in no
// queue any more.
func TestNotReadyWhileAControllerIsBeingStarted(t *testing.T) {
	f := newFleet(&Host{log: slog.New(slog.DiscardHandler)})
	if f.unsynced() == nil {
		t.Error("ready before the start")
	}
	f.begun.Store(true)
	if err := f.unsynced(); err != nil {
		t.Fatalf("with nothing to do: %v", err)
	}
	f.queue.Add(queue.Key{Name: "one"}, queue.Cause{Kind: queue.ParentChanged})
	item, _ := f.queue.Next(t.Context())
	if f.unsynced() == nil {
		t.Error("ready while a worker has it")
	}
	f.queue.Done(item.Key, queue.Settled())
	if err := f.unsynced(); err != nil {
		t.Errorf("when it is done: %v", err)
	}
}

// The same objects may be watched whole and by their metadata; that is one
// series, and two of one name would have the whole scrape refused.
func TestMetricsSumUpWatchesOfOneResource(t *testing.T) {
	client, err := clientFor(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(client, store.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.Close)
	for _, metadata := range []bool{false, true} {
		t.Cleanup(s.Watch(store.Selection{Resource: definitions, Metadata: metadata}, nil).Close)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&scraped{cached: s, running: newFleet(&Host{})})
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}
